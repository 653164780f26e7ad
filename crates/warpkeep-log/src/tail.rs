//! The end of the log on disk: the segment that frames go to, and the older ones that may still be needed.

use std::collections::VecDeque;

use warpkeep_core::Lsn;

use crate::block::Seed;
use crate::error::LogError;
use crate::frame::{self, FrameHeader};
use crate::layout::{BLOCK_HEADER, PAGE};
use crate::queue::Group;
use crate::segment::{Segment, SegmentMaker};
use crate::site;

/// Frames above this size gain nothing from zeros written ahead of them: data dominates.
const SMALL_FRAME: u64 = 128 << 10;

/// A finished segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) number: u64,
    /// The last record in it.
    pub(crate) last: Lsn,
}

pub(crate) struct Tail {
    seed: Seed,
    segment: Segment,
    /// Where the next frame goes.
    offset: u64,
    /// The last record in the log.
    last: Lsn,
    /// The segment has been written up to here, with frames or zeros.
    filled: u64,
    fill_ahead: u64,
    zeros: Vec<u8>,
    finished: VecDeque<Finished>,
}

impl Tail {
    pub(crate) fn new(
        segment: Segment,
        finished: Vec<Finished>,
        last: Lsn,
        seed: Seed,
        fill_ahead: u64,
    ) -> Tail {
        let finished = finished.into();
        Tail { seed, segment, offset: PAGE, last, filled: PAGE, fill_ahead, zeros: Vec::new(), finished }
    }

    /// Writes and syncs the frame of a group.
    pub(crate) fn write(
        &mut self,
        maker: &SegmentMaker,
        group: &mut Group,
        after_checkpoint: u64,
    ) -> Result<(), LogError> {
        let Group { first, last, summed, ref mut frame, .. } = *group;
        let footprint = frame::footprint((frame.len() - BLOCK_HEADER) as u64);
        if footprint > self.room() {
            let next = maker.take(footprint)?;
            self.finished.push_back(Finished { number: self.segment.number, last: self.last });
            self.segment = next;
            self.offset = PAGE;
            self.filled = PAGE;
        }
        let header =
            FrameHeader { segment: self.segment.number, first, last, prev: self.last, after_checkpoint };
        header.seal(frame, summed, self.seed);
        frame.pad_to(footprint as usize);
        self.segment.file.write(frame, self.offset)?;
        let end = self.offset + footprint;
        self.fill(end, footprint)?;
        self.segment.file.sync(site::FRAME)?;
        self.offset = end;
        self.last = last;
        Ok(())
    }

    /// Writes zeros ahead of the frames, a block at a time. A write to preallocated space that was never written
    /// makes the file system update its metadata at the next sync, which makes small commits half as slow again.
    fn fill(&mut self, end: u64, footprint: u64) -> Result<(), LogError> {
        if end <= self.filled {
            return Ok(());
        }
        self.filled = end;
        let ahead = self.fill_ahead.min(self.segment.len - end);
        if ahead > 0 && footprint <= SMALL_FRAME {
            let len = self.zeros.len().max(ahead as usize);
            self.zeros.resize(len, 0);
            self.segment.file.write(&self.zeros[..ahead as usize], end)?;
            self.filled = end + ahead;
        }
        Ok(())
    }

    /// Bytes left in the segment.
    pub(crate) fn room(&self) -> u64 {
        self.segment.len - self.offset
    }

    /// Whether it is time to have the next segment ready.
    pub(crate) fn wants_spare(&self) -> bool {
        self.room() < self.segment.len / 2
    }

    /// The first segment that holds a record after `start`, or will.
    pub(crate) fn first_needed(&self, start: Lsn) -> u64 {
        self.finished.iter().find(|s| s.last > start).map_or(self.segment.number, |s| s.number)
    }

    /// The finished segments from `first` on; and of the current one its number and where its frames end.
    pub(crate) fn durable(&self, first: u64) -> (Vec<u64>, u64, u64) {
        let finished = self.finished.iter().map(|segment| segment.number).filter(|&number| number >= first);
        (finished.collect(), self.segment.number, self.offset)
    }

    /// Whether there are segments besides the current one.
    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Takes the segments before `first` off the list, so that the caller can remove their files.
    pub(crate) fn forget_before(&mut self, first: u64) -> Vec<u64> {
        let count = self.finished.partition_point(|s| s.number < first);
        self.finished.drain(..count).map(|s| s.number).collect()
    }
}
