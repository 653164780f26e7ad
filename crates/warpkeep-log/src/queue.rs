//! Records that are appended but not yet durable, in the groups they will be written in. No I/O happens here.

use std::collections::VecDeque;
use std::sync::Arc;

use warpkeep_core::{Durability, Lsn};

use crate::batch::ChangeBatch;
use crate::block::Summed;
use crate::error::LogError;
use crate::frame;
use crate::frame_buffer::FrameBuffer;
use crate::laid::{self, BEFORE_CHANGES, LaidRecord};
use crate::layout::{BLOCK_HEADER, PAGE};

/// A group takes no more records above this size: it is large enough for the disk, and while it is written the next one fills. Its
/// buffer is kept, because fresh memory costs more than what is copied to it.
const GROUP_BYTES: usize = 4 << 20;
/// Idle buffers that are kept. A buffer that a large batch has enlarged is returned to the system.
const IDLE_BUFFERS: usize = 4;
const BUFFER_BYTES: usize = GROUP_BYTES + PAGE as usize;
/// Buffers kept for large laid-out records: a caller that appends one is likely to append more. Larger ones are
/// returned to the system.
const LARGE_BUFFERS: usize = 2;
const LARGE_BYTES: usize = 256 << 20;

/// Records that will be one frame.
pub(crate) struct Group {
    /// Counts groups; waiters are woken by it.
    pub(crate) seq: u64,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    /// The frame: room for its header, then the records.
    pub(crate) frame: FrameBuffer,
    /// The part whose checksum is already known; such a group takes no more records.
    pub(crate) summed: Option<Summed>,
    /// The space the records would take if each had a frame of its own.
    worst_footprint: u64,
}

/// The group that is being written.
struct InFlight {
    seq: u64,
    last: Lsn,
    bytes: u64,
    worst_footprint: u64,
}

pub(crate) struct Queue {
    epoch: u64,
    /// The last record appended.
    last: Lsn,
    /// The last record that is durable.
    durable: Lsn,
    /// The last record whose effects come before it is durable.
    last_process: Lsn,
    groups: VecDeque<Group>,
    in_flight: Option<InFlight>,
    next_seq: u64,
    max_payload: usize,
    /// Bytes appended and not durable.
    backlog: u64,
    worst_footprint: u64,
    /// The same for records that were promised room and are not appended yet.
    promised: u64,
    idle_buffers: Vec<Vec<u8>>,
    large_buffers: Vec<Vec<u8>>,
    /// The checkpoint number that frames carry until it completes; 0: no checkpoint is owed.
    after_checkpoint: u64,
    /// Bytes left in the segment, and why there is no next one.
    room: u64,
    no_segment: Option<Arc<LogError>>,
}

impl Queue {
    pub(crate) fn new(epoch: u64, last: Lsn, after_checkpoint: u64, segment_bytes: u64) -> Queue {
        Queue {
            epoch,
            last,
            durable: last,
            last_process: Lsn::ZERO,
            groups: VecDeque::new(),
            in_flight: None,
            next_seq: 0,
            max_payload: usize::try_from(segment_bytes - PAGE).unwrap_or(usize::MAX) - BLOCK_HEADER,
            backlog: 0,
            worst_footprint: 0,
            promised: 0,
            idle_buffers: Vec::new(),
            large_buffers: Vec::new(),
            after_checkpoint,
            room: segment_bytes - PAGE,
            no_segment: None,
        }
    }

    pub(crate) fn last(&self) -> Lsn {
        self.last
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.backlog
    }

    pub(crate) fn after_checkpoint(&self) -> u64 {
        self.after_checkpoint
    }

    /// Records that the owed checkpoint is complete.
    pub(crate) fn checkpoint_done(&mut self) {
        self.after_checkpoint = 0;
    }

    /// Whether every effect that readers may see is durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.promised == 0 && self.after_checkpoint == 0 && self.last_process <= self.durable
    }

    /// Whether a group is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether a group waits to be written.
    pub(crate) fn has_work(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Updates the state of the disk: the space left in the segment, and why there is no next one.
    pub(crate) fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    pub(crate) fn set_no_segment(&mut self, cause: Option<Arc<LogError>>) {
        self.no_segment = cause;
    }

    pub(crate) fn no_segment(&self) -> Option<&Arc<LogError>> {
        self.no_segment.as_ref()
    }

    /// The number the next record will have.
    pub(crate) fn next_lsn(&self, changes_len: usize, durability: Durability) -> Result<Lsn, LogError> {
        if durability == Durability::Power && self.after_checkpoint != 0 {
            return Err(LogError::CheckpointNeeded);
        }
        if let Some(cause) = &self.no_segment
            && !self.has_room_for(changes_len)
        {
            return Err(LogError::NoSegment { cause: Arc::clone(cause) });
        }
        if self.last.epoch() < self.epoch || self.last == Lsn::ZERO {
            Ok(Lsn::new(self.epoch, 1))
        } else if self.last.counter() < Lsn::MAX_COUNTER {
            Ok(self.last.next())
        } else {
            Err(LogError::LsnExhausted)
        }
    }

    /// Whether the segment has room for another record, after all queued and promised ones.
    pub(crate) fn has_room_for(&self, changes_len: usize) -> bool {
        self.worst_footprint + self.promised + worst_footprint(changes_len) <= self.room
    }

    /// Sets room aside for a record that [`Queue::next_lsn`] would accept now; returns the number of bytes.
    pub(crate) fn promise(&mut self, changes_len: usize) -> u64 {
        let footprint = worst_footprint(changes_len);
        self.promised += footprint;
        footprint
    }

    /// Bytes of records that were promised room and are not appended yet.
    pub(crate) fn promised(&self) -> u64 {
        self.promised
    }

    /// Releases a promise: the record is appended, or will not be.
    pub(crate) fn redeem(&mut self, footprint: u64) {
        self.promised -= footprint;
    }

    /// Whether the segment is nearly full: the next one should be ready by now.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.room.saturating_sub(self.worst_footprint + self.promised) < self.max_payload as u64 / 8
    }

    /// Appends a record with the number that [`Queue::next_lsn`] gave.
    pub(crate) fn push(&mut self, lsn: Lsn, batch: &ChangeBatch, durability: Durability) {
        let changes_len = batch.bytes().len();
        let len = frame::record_len(changes_len);
        let most = BLOCK_HEADER + self.max_payload.min(GROUP_BYTES - BLOCK_HEADER);
        let fits = |group: &Group| group.summed.is_none() && group.frame.len() + len <= most;
        if !self.groups.back().is_some_and(fits) {
            let memory = self.idle_buffers.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
            self.begin_group(lsn, FrameBuffer::zeros(memory, BLOCK_HEADER), None);
        }
        let Some(group) = self.groups.back_mut() else { return };
        let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        group.frame.append(|frame| frame::push_record(frame, lsn, batch.bytes(), count, durability));
        self.pushed(lsn, changes_len, durability);
    }

    /// The same with a laid-out record: it has a group of its own and is not copied. `crc` is the checksum of its
    /// changes.
    pub(crate) fn push_laid(&mut self, lsn: Lsn, record: LaidRecord, crc: u32, durability: Durability) {
        let (changes_len, count) = (record.changes_len(), record.count());
        let mut frame = record.into_frame();
        laid::head(&mut frame, lsn, count, durability);
        self.begin_group(lsn, frame, Some(Summed { from: BEFORE_CHANGES, crc }));
        self.pushed(lsn, changes_len, durability);
    }

    fn begin_group(&mut self, first: Lsn, frame: FrameBuffer, summed: Option<Summed>) {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.groups.push_back(Group { seq, first, last: first, frame, summed, worst_footprint: 0 });
    }

    /// Updates the last group for another record.
    fn pushed(&mut self, lsn: Lsn, changes_len: usize, durability: Durability) {
        if durability == Durability::Process {
            self.last_process = lsn;
        }
        let footprint = worst_footprint(changes_len);
        if let Some(group) = self.groups.back_mut() {
            group.last = lsn;
            group.worst_footprint += footprint;
        }
        self.worst_footprint += footprint;
        self.backlog += frame::record_len(changes_len) as u64;
        self.last = lsn;
    }

    /// Memory for laying out a record of `changes_len` bytes.
    pub(crate) fn take_buffer(&mut self, changes_len: usize) -> Vec<u8> {
        if BEFORE_CHANGES + changes_len + PAGE as usize <= BUFFER_BYTES {
            return self.idle_buffers.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        }
        // The largest buffer: a record that does not fit it needs new memory anyway.
        let largest = (0..self.large_buffers.len()).max_by_key(|&number| self.large_buffers[number].len());
        largest.map(|number| self.large_buffers.swap_remove(number)).unwrap_or_default()
    }

    /// Which group the record is in; the one being written, or a later one.
    pub(crate) fn group_of(&self, lsn: Lsn) -> u64 {
        match &self.in_flight {
            Some(in_flight) if lsn <= in_flight.last => in_flight.seq,
            _ => self.groups.iter().find(|group| lsn <= group.last).map_or(self.next_seq, |group| group.seq),
        }
    }

    /// The group being written, if any.
    pub(crate) fn group_in_flight(&self) -> Option<u64> {
        self.in_flight.as_ref().map(|in_flight| in_flight.seq)
    }

    /// Takes the oldest group to write it.
    pub(crate) fn take(&mut self) -> Option<Group> {
        debug_assert!(self.in_flight.is_none(), "one frame is in flight at a time");
        let group = self.groups.pop_front()?;
        self.in_flight = Some(InFlight {
            seq: group.seq,
            last: group.last,
            bytes: (group.frame.len() - BLOCK_HEADER) as u64,
            worst_footprint: group.worst_footprint,
        });
        Some(group)
    }

    /// The group taken last is durable.
    pub(crate) fn finish(&mut self, frame: FrameBuffer, laid: bool) {
        if let Some(in_flight) = self.in_flight.take() {
            self.durable = in_flight.last;
            self.backlog -= in_flight.bytes;
            self.worst_footprint -= in_flight.worst_footprint;
        }
        let buffer = frame.into_memory();
        match buffer.capacity() {
            0..=BUFFER_BYTES if self.idle_buffers.len() < IDLE_BUFFERS => self.idle_buffers.push(buffer),
            // Kept with its contents: the next laid-out record overwrites all of it, so it need not be cleared.
            0..=LARGE_BYTES if laid && self.large_buffers.len() < LARGE_BUFFERS => {
                self.large_buffers.push(buffer);
            }
            _ => {}
        }
    }

    /// The group taken last failed, and with it the log.
    pub(crate) fn abandon(&mut self) {
        self.in_flight = None;
    }
}

/// The space of a record that has a frame of its own.
pub(crate) fn worst_footprint(changes_len: usize) -> u64 {
    frame::footprint(frame::record_len(changes_len) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue, bytes: usize) -> Lsn {
        let mut batch = ChangeBatch::new();
        let value = vec![7; bytes];
        let change = warpkeep_core::Change {
            table: 1,
            kind: warpkeep_core::ChangeKind::Put,
            version: 1,
            key: b"",
            value: &value,
        };
        batch.push(&change).unwrap();
        let lsn = queue.next_lsn(batch.bytes().len(), Durability::Process).unwrap();
        queue.push(lsn, &batch, Durability::Process);
        lsn
    }

    #[test]
    fn groups_are_cut_at_the_size_of_a_segment() {
        let mut queue = Queue::new(1, Lsn::ZERO, 0, 16 << 10);
        let lsns: Vec<Lsn> = (0..10).map(|_| push(&mut queue, 3000)).collect();
        assert_eq!(lsns[9], Lsn::new(1, 10));
        let mut seen = Vec::new();
        while let Some(group) = queue.take() {
            assert!(frame::footprint((group.frame.len() - BLOCK_HEADER) as u64) <= (16 << 10) - PAGE);
            assert_eq!(queue.group_of(group.last), group.seq);
            seen.push((group.first.counter(), group.last.counter()));
            queue.finish(group.frame, false);
        }
        assert_eq!(seen, [(1, 4), (5, 8), (9, 10)]);
        assert_eq!((queue.backlog(), queue.worst_footprint), (0, 0));
        assert_eq!(queue.durable(), lsns[9]);
    }

    #[test]
    fn groups_stay_small_and_their_buffers_are_used_again() {
        let mut queue = Queue::new(1, Lsn::ZERO, 0, 64 << 20);
        for _ in 0..3 {
            for _ in 0..20 {
                push(&mut queue, 300 << 10);
            }
            // A record larger than a group has a group of its own, and its buffer is not kept.
            push(&mut queue, 2 * GROUP_BYTES);
            let mut sizes = Vec::new();
            while let Some(group) = queue.take() {
                sizes.push(group.frame.len());
                queue.finish(group.frame, false);
            }
            assert_eq!(sizes.len(), 3);
            assert!(sizes[0] <= GROUP_BYTES && sizes[0] > GROUP_BYTES - (400 << 10));
            assert!(sizes[2] > 2 * GROUP_BYTES);
            assert!(!queue.idle_buffers.is_empty());
            assert!(queue.idle_buffers.iter().all(|buffer| buffer.capacity() == BUFFER_BYTES));
        }
        assert_eq!(queue.backlog(), 0);
    }

    /// Records of a megabyte and more, alternately long and short: from the second long one on, all use the memory
    /// of the first.
    #[test]
    fn large_records_use_the_same_memory_again() {
        let mut queue = Queue::new(1, Lsn::ZERO, 0, 64 << 20);
        let form = laid::ChangeForm { table: 1, kind: warpkeep_core::ChangeKind::Put };
        let mut seen = Vec::new();
        for bytes in [20 << 20, 5 << 20, 20 << 20, 6 << 20, 19 << 20] {
            let pieces = [laid::PieceLen::of(1, 0, bytes)];
            let buffer = queue.take_buffer(bytes);
            let mut record = LaidRecord::new(buffer, form, &pieces, &ChangeBatch::new()).unwrap();
            for mut piece in record.pieces() {
                piece.push(1, b"", &vec![bytes as u8 | 1; bytes]);
                piece.finish();
            }
            let (lsn, crc) = (queue.next_lsn(bytes, Durability::Process).unwrap(), record.sum().unwrap());
            queue.push_laid(lsn, record, crc, Durability::Process);
            let mut group = queue.take().unwrap();
            let len = group.frame.len();
            group.frame.pad_to(len + 100);
            assert!(group.frame[len..] == [0; 100] && group.frame[len - 8] == bytes as u8 | 1);
            seen.push(group.frame.as_ptr());
            queue.finish(group.frame, true);
        }
        assert!(seen.iter().all(|at| *at == seen[0]), "{seen:?}");
        assert_eq!((queue.backlog(), queue.large_buffers.len()), (0, 1));
        // Of two buffers the larger one is taken, regardless of order.
        queue.finish(FrameBuffer::within(Vec::new(), 6 << 20, 0), true);
        let larger = queue.take_buffer(19 << 20);
        assert_eq!((larger.as_ptr(), queue.large_buffers.len()), (seen[0], 1));
    }

    #[test]
    fn numbers_run_out_with_an_error() {
        let batch = ChangeBatch::new();
        let mut queue = Queue::new(5, Lsn::new(5, Lsn::MAX_COUNTER - 1), 0, 16 << 10);
        let last = queue.next_lsn(0, Durability::Process).unwrap();
        assert_eq!(last, Lsn::new(5, Lsn::MAX_COUNTER));
        queue.push(last, &batch, Durability::Process);
        assert!(matches!(queue.next_lsn(0, Durability::Process), Err(LogError::LsnExhausted)));
    }

    #[test]
    fn without_a_next_segment_only_what_surely_fits_is_taken() {
        let mut queue = Queue::new(1, Lsn::ZERO, 0, 16 << 10);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        queue.set_no_segment(Some(Arc::new(LogError::io("write", "x", full))));
        for _ in 0..3 {
            push(&mut queue, 10);
        }
        let refused = queue.next_lsn(0, Durability::Process);
        assert!(matches!(refused, Err(error) if error.is_disk_full()));
        queue.set_no_segment(None);
        push(&mut queue, 10);
    }
}
