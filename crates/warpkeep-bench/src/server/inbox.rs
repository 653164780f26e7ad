//! Received bytes that were not parsed yet, in one piece.

use std::io::{self, Read};

/// A buffer that is filled at one end and used up at the other.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(super) fn new(capacity: usize) -> Inbox {
        Inbox { bytes: vec![0; capacity.max(64)], start: 0, end: 0 }
    }

    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
    }

    /// Reads once. Returns how many bytes came, and whether there was room for more, so that the source is empty.
    pub(super) fn fill(&mut self, source: &mut impl Read) -> io::Result<(usize, bool)> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.bytes.len() {
            // The rest is part of one answer, and short unless the answer is long.
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > self.bytes.len() / 2 {
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        let room = self.bytes.len() - self.end;
        let count = source.read(&mut self.bytes[self.end..])?;
        self.end += count;
        Ok((count, count < room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_it_is_used_up() {
        let stream: Vec<u8> = (0..10_000_u32).flat_map(u32::to_le_bytes).collect();
        for step in [1, 3, 63, 200, 999] {
            let (mut source, mut inbox, mut got) = (&stream[..], Inbox::new(64), Vec::new());
            while got.len() < stream.len() {
                let (came, _) = inbox.fill(&mut source).expect("memory");
                // Wait for a whole step, as for an answer.
                while inbox.unread().len() >= step || (came == 0 && !inbox.unread().is_empty()) {
                    let part = step.min(inbox.unread().len());
                    got.extend_from_slice(&inbox.unread()[..part]);
                    inbox.consume(part);
                }
            }
            assert!(got == stream, "{step}");
        }
    }
}
