//! What the host and a kernel tell each other while the kernel runs: words in pinned memory, by `kernels/hosts.h`.
//!
//! Every word says which launch it is of. So what an earlier one has left there says nothing, and nobody has to wipe the board before each launch,
//! which takes a tenth of the time of a small batch: the words are in the caches of other cores.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_device::{Device, DevicePtr};

use crate::TableError;
use crate::gpu::columns::Column;
use crate::gpu::params::{TAG_SHIFT, VERDICT_WORDS};

/// Launches whose words are told apart. After so many the board is wiped.
const TAGS: u64 = (1 << (u64::BITS - TAG_SHIFT)) - 1;
/// Words before all others; the first says when the board was last wiped.
const HEAD: usize = 8;

/// The board of one launch.
pub(super) struct Board<'b> {
    /// What its words have in their upper bits.
    tag: u64,
    /// For each key, the record.
    told: &'b [AtomicU64],
    /// For each block, what the host says of it: in lines of their own.
    verdicts: &'b [AtomicU64],
    at: DevicePtr,
}

impl<'b> Board<'b> {
    /// Has room for so many keys and blocks. The column is used for nothing else.
    pub(super) fn take_room(
        column: &mut Column,
        device: &Device,
        keys: usize,
        blocks: usize,
    ) -> Result<(), TableError> {
        column.host::<u64>(device, Board::verdicts_from(keys) + VERDICT_WORDS * blocks)?;
        Ok(())
    }

    /// The board of a launch with so many keys, for which there is room. The number of a launch is never that of another.
    pub(super) fn new(column: &'b Column, keys: usize, launch: u64) -> Board<'b> {
        let words = column.shared_words();
        // New memory is zeros, and wiped, too.
        let (tag, era) = ((launch % TAGS + 1) << TAG_SHIFT, launch / TAGS + 1);
        if words[0].load(Ordering::Relaxed) != era {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            words[0].store(era, Ordering::Relaxed);
        }
        let (told, verdicts) = words.split_at(Board::verdicts_from(keys));
        Board { tag, told: &told[HEAD..][..keys], verdicts, at: column.host_ptr() }
    }

    fn verdicts_from(keys: usize) -> usize {
        HEAD + keys.next_multiple_of(VERDICT_WORDS)
    }

    /// What the kernel puts into its words, and where it has the records, and the verdicts.
    pub(super) fn for_kernel(&self) -> (u64, DevicePtr, DevicePtr) {
        let from = Board::verdicts_from(self.told.len());
        (self.tag, self.at.offset(8 * HEAD as u64), self.at.offset(8 * from as u64))
    }

    /// The record that the kernel has told of a key, if it has.
    #[inline(always)]
    pub(super) fn record(&self, key: usize) -> Option<u64> {
        let word = self.told[key].load(Ordering::Acquire) ^ self.tag;
        (word >> TAG_SHIFT == 0).then_some(word)
    }

    /// Says something of a block, after all that was done for it.
    pub(super) fn say(&self, block: usize, verdict: u64) {
        self.verdicts[VERDICT_WORDS * block].store(self.tag | verdict, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_launches_say_nothing() {
        let device = Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let mut column = Column::default();
        Board::take_room(&mut column, &device, 100, 4).unwrap();
        let tell = |board: &Board<'_>, key: usize, record: u64| {
            board.told[key].store(board.tag | record, Ordering::Relaxed);
        };
        for launch in [0, 1, TAGS - 1, TAGS, TAGS + 1, 3 * TAGS] {
            let board = Board::new(&column, 100, launch);
            assert!((0..100).all(|key| board.record(key).is_none()), "{launch}");
            let records = [0, 1, 1 << 20, (1 << TAG_SHIFT) - 8];
            records.into_iter().enumerate().for_each(|(key, record)| tell(&board, 7 * key, record));
            assert!(
                records.into_iter().enumerate().all(|(key, record)| board.record(7 * key) == Some(record))
            );
            assert_eq!(board.record(99), None);
            board.say(3, 1);
            assert_eq!(board.verdicts[3 * VERDICT_WORDS].load(Ordering::Relaxed), board.tag | 1);
        }
        // One with as many tags later, which has the same: what was left is wiped.
        let (first, later) = (5 * TAGS + 3, 6 * TAGS + 3);
        let board = Board::new(&column, 100, first);
        tell(&board, 50, 4096);
        let board = Board::new(&column, 100, later);
        assert_eq!((board.record(50), board.tag), (None, Board::new(&column, 9, first).tag));
    }
}
