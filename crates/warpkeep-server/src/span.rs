//! Where some bytes lie in a buffer.

/// A part of a buffer, by place and not by address: buffers move when they grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    /// The part from `start` to `end`. Buffers are far smaller than 4 GiB: requests have a longest length.
    #[inline]
    pub(crate) fn between(start: usize, end: usize) -> Span {
        Span { start: start as u32, len: (end - start) as u32 }
    }

    /// Its bytes.
    #[inline]
    pub(crate) fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start as usize..][..self.len as usize]
    }

    /// The byte after its last.
    #[inline]
    pub(crate) fn end(self) -> usize {
        (self.start + self.len) as usize
    }

    /// Copies bytes to the end of a buffer.
    pub(crate) fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Span {
        let start = buffer.len();
        buffer.extend_from_slice(bytes);
        Span::between(start, buffer.len())
    }
}
