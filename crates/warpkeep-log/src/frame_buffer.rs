//! The memory of a frame, which may be longer than the frame.

use std::ops::{Deref, DerefMut};

/// The bytes of a frame. The memory behind them is kept with its old contents, so that a longer frame need not
/// clear it first: for records of many megabytes, clearing in one thread takes longer than laying out the record in
/// all threads.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl FrameBuffer {
    /// A frame of `len` bytes in this memory, or in new memory with `more` spare bytes if it is too short. The
    /// contents are undefined.
    pub(crate) fn within(mut memory: Vec<u8>, len: usize, more: usize) -> FrameBuffer {
        match memory.capacity() < len + more {
            // The system zeroes each page on its first write, which all threads do in parallel.
            true => memory = vec![0; len + more],
            false => memory.resize(memory.len().max(len + more), 0),
        }
        FrameBuffer { memory, len }
    }

    /// A frame of `len` zeros, in memory that records are appended to.
    pub(crate) fn zeros(mut memory: Vec<u8>, len: usize) -> FrameBuffer {
        memory.clear();
        memory.resize(len, 0);
        FrameBuffer { memory, len }
    }

    /// Appends to it.
    pub(crate) fn append(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        self.memory.truncate(self.len);
        append(&mut self.memory);
        self.len = self.memory.len();
    }

    /// Extends the frame to `len` bytes; the new bytes are zeros.
    pub(crate) fn pad_to(&mut self, len: usize) {
        let (from, kept) = (self.len.min(len), self.memory.len());
        self.memory[from.min(kept)..len.min(kept)].fill(0);
        self.memory.resize(kept.max(len), 0);
        self.len = len;
    }

    /// All of the memory, with its contents.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.memory
    }
}

impl Deref for FrameBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

impl DerefMut for FrameBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_whole_and_padding_is_zeros() {
        let mut frame = FrameBuffer::within(Vec::new(), 100, 50);
        frame.fill(7);
        frame.pad_to(128);
        assert!(frame.len() == 128 && frame[..100] == [7; 100] && frame[100..] == [0; 28]);
        let (memory, first) = (frame.into_memory(), |memory: &Vec<u8>| memory.as_ptr());
        assert_eq!(memory.len(), 150);
        let at = first(&memory);
        // A short frame, and then a long one, both in the same memory.
        let mut short = FrameBuffer::within(memory, 10, 50);
        short.fill(8);
        short.pad_to(16);
        assert_eq!(short[..], [[8; 8], [8, 8, 0, 0, 0, 0, 0, 0]].concat());
        let memory = short.into_memory();
        assert_eq!((memory.len(), memory[99]), (150, 7));
        let mut long = FrameBuffer::within(memory, 99, 51);
        assert_eq!((long.len(), long.as_ptr()), (99, at));
        // Padding can exceed the memory.
        long.pad_to(200);
        assert!(long.len() == 200 && long[98] == 7 && long[99..] == [0; 101]);
        // A frame that is too long for the memory gets its own; memory that is empty but large enough is used.
        let memory = long.into_memory();
        let len = memory.capacity();
        let fresh = FrameBuffer::within(memory, len, 51);
        assert_eq!((fresh.len(), fresh.into_memory().len()), (len, len + 51));
        let empty = Vec::with_capacity(100);
        let at = first(&empty);
        let frame = FrameBuffer::within(empty, 90, 10);
        assert_eq!((frame.len(), frame.as_ptr()), (90, at));
    }

    #[test]
    fn records_are_appended_behind_zeros() {
        let mut frame = FrameBuffer::zeros(vec![9; 40], 4);
        frame.append(|bytes| bytes.extend([1, 2]));
        assert_eq!(frame[..], [0, 0, 0, 0, 1, 2]);
        frame.pad_to(8);
        frame.append(|bytes| bytes.push(3));
        assert_eq!(frame[..], [0, 0, 0, 0, 1, 2, 0, 0, 3]);
    }
}
