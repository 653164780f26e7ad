//! Frames, each written by one group commit, and the records in them.

use warpkeep_core::{Durability, Lsn};

use crate::block::{self, BlockHeader, Seed, Summed};
use crate::change::Changes;
use crate::layout::{BLOCK_HEADER, PAGE, put_u64, u32_at, u64_at};

pub(crate) const FRAME_MAGIC: &[u8; 4] = b"WKFR";

pub(crate) const RECORD_HEADER: usize = 24;
const POWER: u32 = 1;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) segment: u64,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    /// The last record of the frame before it.
    pub(crate) prev: Lsn,
    /// The checkpoint without which the frame does not count.
    pub(crate) after_checkpoint: u64,
}

impl FrameHeader {
    /// Completes a frame whose payload begins at byte 64 of `frame`. The checksum of its last part may already be
    /// known.
    pub(crate) fn seal(&self, frame: &mut [u8], summed: Option<Summed>, seed: Seed) {
        put_u64(frame, 16, self.segment);
        put_u64(frame, 24, self.first.bits());
        put_u64(frame, 32, self.last.bits());
        put_u64(frame, 40, self.prev.bits());
        put_u64(frame, 48, self.after_checkpoint);
        put_u64(frame, 56, 0);
        block::seal(frame, FRAME_MAGIC, summed, seed);
    }

    /// Decodes the header if it can be a frame of that segment. The checksum is not verified.
    pub(crate) fn plausible(bytes: &BlockHeader, segment: u64) -> Option<FrameHeader> {
        let header = FrameHeader {
            segment: u64_at(bytes, 16),
            first: Lsn::from_bits(u64_at(bytes, 24)),
            last: Lsn::from_bits(u64_at(bytes, 32)),
            prev: Lsn::from_bits(u64_at(bytes, 40)),
            after_checkpoint: u64_at(bytes, 48),
        };
        let consistent = bytes[..4] == *FRAME_MAGIC
            && header.segment == segment
            && header.prev < header.first
            && header.first <= header.last
            && header.first.epoch() == header.last.epoch()
            && u64_at(bytes, 56) == 0;
        consistent.then_some(header)
    }

    /// Whether its first record is the one that comes after its `prev`: the next of the epoch, or the first of a
    /// later one.
    pub(crate) fn follows_prev(&self) -> bool {
        if self.first.epoch() == self.prev.epoch() && self.prev != Lsn::ZERO {
            self.first == self.prev.next()
        } else {
            self.first.counter() == 1
        }
    }

    pub(crate) fn records(&self) -> u64 {
        self.last.bits() - self.first.bits() + 1
    }
}

/// Bytes that a frame takes in its segment.
pub(crate) fn footprint(payload_len: u64) -> u64 {
    (BLOCK_HEADER as u64 + payload_len).next_multiple_of(PAGE)
}

/// Bytes that a record with `changes_len` bytes of changes takes in a frame.
pub(crate) fn record_len(changes_len: usize) -> usize {
    RECORD_HEADER + changes_len
}

/// Appends a record to a payload.
pub(crate) fn push_record(out: &mut Vec<u8>, lsn: Lsn, changes: &[u8], count: u32, durability: Durability) {
    out.extend_from_slice(&record_header(lsn, changes.len() as u64, count, durability));
    out.extend_from_slice(changes);
}

/// The header of a record, which precedes its changes.
pub(crate) fn record_header(
    lsn: Lsn,
    changes_len: u64,
    count: u32,
    durability: Durability,
) -> [u8; RECORD_HEADER] {
    let mut header = [0; RECORD_HEADER];
    header[..8].copy_from_slice(&lsn.bits().to_le_bytes());
    header[8..16].copy_from_slice(&changes_len.to_le_bytes());
    header[16..20].copy_from_slice(&count.to_le_bytes());
    let flags = if durability == Durability::Power { POWER } else { 0 };
    header[20..].copy_from_slice(&flags.to_le_bytes());
    header
}

/// One batch as it was logged.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    lsn: Lsn,
    durability: Durability,
    changes: Changes<'a>,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Its place in the history of the store.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The durability it was committed with.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Its changes.
    pub fn changes(&self) -> Changes<'a> {
        self.changes.clone()
    }

    /// A copy that outlives the log's buffers.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            lsn: self.lsn,
            durability: self.durability,
            bytes: self.bytes.to_vec(),
            count: self.changes.len(),
        }
    }
}

/// A [`Record`] with its own memory.
#[derive(Clone, Debug)]
pub struct OwnedRecord {
    lsn: Lsn,
    durability: Durability,
    bytes: Vec<u8>,
    count: usize,
}

impl OwnedRecord {
    /// Its place in the history of the store.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The durability it was committed with.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Its changes.
    pub fn changes(&self) -> Changes<'_> {
        Changes::trusted(&self.bytes, self.count)
    }
}

/// The records of a payload, checked one by one against the frame's header.
pub(crate) struct Records<'a> {
    rest: &'a [u8],
    next: Lsn,
    last: Lsn,
}

impl<'a> Records<'a> {
    pub(crate) fn new(header: &FrameHeader, payload: &'a [u8]) -> Records<'a> {
        Records { rest: payload, next: header.first, last: header.last }
    }

    fn take(&mut self) -> Result<Record<'a>, &'static str> {
        let all = self.rest;
        if all.len() < RECORD_HEADER {
            return Err("a record is cut short");
        }
        if u64_at(all, 0) != self.next.bits() {
            return Err("a record has the wrong number");
        }
        let durability = match u32_at(all, 20) {
            0 => Durability::Process,
            POWER => Durability::Power,
            _ => return Err("a record has unknown flags"),
        };
        let body = &all[RECORD_HEADER..];
        let len = usize::try_from(u64_at(all, 8)).ok().filter(|&len| len <= body.len());
        let Some(len) = len else { return Err("a record reaches outside its frame") };
        let (bytes, rest) = body.split_at(len);
        let changes = Changes::checked(bytes, u64::from(u32_at(all, 16)));
        let Some(changes) = changes else { return Err("a record holds something else than its changes") };
        let lsn = self.next;
        self.rest = rest;
        self.next = lsn.next();
        if lsn == self.last && !rest.is_empty() {
            return Err("a frame goes on after its last record");
        }
        Ok(Record { lsn, durability, changes, bytes })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next > self.last {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.next = self.last.next();
        }
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(first: Lsn, last: Lsn) -> FrameHeader {
        FrameHeader { segment: 3, first, last, prev: Lsn::ZERO, after_checkpoint: 0 }
    }

    #[test]
    fn a_sealed_frame_is_plausible_in_its_segment_only() {
        let header = FrameHeader { after_checkpoint: 9, ..header(Lsn::new(1, 1), Lsn::new(1, 4)) };
        let mut frame = vec![0; 64 + 24];
        header.seal(&mut frame, None, Seed::of(&[7; 16]));
        let bytes: BlockHeader = frame[..64].try_into().unwrap();
        assert_eq!(FrameHeader::plausible(&bytes, 3), Some(header));
        assert_eq!(FrameHeader::plausible(&bytes, 4), None);
    }

    #[test]
    fn only_the_next_record_follows() {
        let follows = |prev, first| FrameHeader { prev, ..header(first, first) }.follows_prev();
        assert!(follows(Lsn::ZERO, Lsn::new(0, 1)));
        assert!(follows(Lsn::ZERO, Lsn::new(1, 1)));
        assert!(follows(Lsn::new(1, 5), Lsn::new(1, 6)));
        assert!(follows(Lsn::new(1, 5), Lsn::new(4, 1)));
        assert!(!follows(Lsn::new(1, 5), Lsn::new(1, 7)));
        assert!(!follows(Lsn::new(1, 5), Lsn::new(2, 2)));
        assert!(!follows(Lsn::ZERO, Lsn::new(1, 2)));
    }

    proptest! {
        #[test]
        fn any_payload_is_records_or_refused(payload in prop::collection::vec(any::<u8>(), 0..200), count in 1u64..5) {
            let header = header(Lsn::new(1, 1), Lsn::new(1, count));
            let good = Records::new(&header, &payload).take_while(Result::is_ok).count();
            prop_assert!(good as u64 <= count);
        }
    }
}
