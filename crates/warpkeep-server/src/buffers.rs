//! Input and output buffers of connections. A connection without work in progress returns them, so ten thousand
//! idle connections take almost no memory.

/// Bytes that are read at a time; the least room of a buffer to read into.
pub(crate) const CHUNK: usize = 64 << 10;
/// Larger ones are not kept.
const LARGEST: usize = 4 * CHUNK;
/// Buffers kept of each kind.
const KEPT: usize = 128;

/// Memory that no connection uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Buffers {
    /// A buffer to read into, of a chunk at least.
    pub(crate) fn input(&mut self) -> Vec<u8> {
        self.inputs.pop().unwrap_or_else(|| vec![0; CHUNK])
    }

    /// Takes back an empty buffer.
    pub(crate) fn give_input(&mut self, buffer: Vec<u8>) {
        if (CHUNK..=LARGEST).contains(&buffer.len()) && self.inputs.len() < KEPT {
            self.inputs.push(buffer);
        }
    }

    /// An empty buffer for answers.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        self.outputs.pop().unwrap_or_default()
    }

    /// Takes back one whose answers are sent.
    pub(crate) fn give_output(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if (1..=LARGEST).contains(&buffer.capacity()) && self.outputs.len() < KEPT {
            self.outputs.push(buffer);
        }
    }
}
