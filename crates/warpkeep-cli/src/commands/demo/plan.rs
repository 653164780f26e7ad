//! The plan of all writes: parent and child derive it from the same seed, so the parent knows which rows must be
//! there from the child's progress alone.

use std::collections::BTreeSet;

use warpkeep::Durability;
use warpkeep_core::{Seed, mix64};

/// Bytes in a row: its stamp, and thirty numbers that depend on seed, key and stamp.
pub(crate) const ROW_BYTES: usize = 128;
const NUMBERS: u64 = 30;

/// One write of one writer, and the name of its contents. The initially loaded rows have number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    /// Of the rows as they were loaded.
    pub(crate) const LOADED: Stamp = Stamp(0);

    pub(crate) fn new(round: u32, writer: u32, number: u32) -> Stamp {
        Stamp(u64::from(round) << 40 | u64::from(writer & 0xff) << 32 | u64::from(number))
    }

    pub(crate) fn round(self) -> u32 {
        (self.0 >> 40) as u32
    }

    pub(crate) fn writer(self) -> u32 {
        (self.0 >> 32 & 0xff) as u32
    }

    pub(crate) fn number(self) -> u32 {
        self.0 as u32
    }
}

/// The rows, and their writers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) rows: u64,
    pub(crate) writers: u32,
}

/// The effect of a write: it gives these rows new numbers.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) stamp: Stamp,
    pub(crate) durability: Durability,
    pub(crate) keys: BTreeSet<u64>,
}

impl Plan {
    /// A write. A writer writes only to its own rows, so rows change in the order of their writer's steps.
    pub(crate) fn step(&self, stamp: Stamp) -> Step {
        let draw = |what: u64| mix64(Seed(mix64(Seed(self.seed), stamp.0)), what);
        let durability = if draw(0).is_multiple_of(4) { Durability::Power } else { Durability::Process };
        let count = match durability {
            Durability::Power => 1 + draw(1) % 8,
            Durability::Process => 16 + draw(1) % 33,
        };
        let writers = u64::from(self.writers);
        let own = self.rows / writers;
        let keys = (0..count).map(|at| draw(2 + at) % own * writers + u64::from(stamp.writer())).collect();
        Step { stamp, durability, keys }
    }

    fn numbers(&self, key: u64, stamp: Stamp) -> impl Iterator<Item = [u8; 4]> {
        let of_row = Seed(mix64(Seed(mix64(Seed(self.seed), stamp.0)), key));
        (0..NUMBERS).map(move |at| {
            // From -1 to 1, as embeddings have them.
            let number = (mix64(of_row, at) >> 40) as f32 / (1 << 23) as f32 - 1.0;
            number.to_le_bytes()
        })
    }

    /// Replaces the contents of `out` by a row.
    pub(crate) fn row(&self, key: u64, stamp: Stamp, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&stamp.0.to_le_bytes());
        self.numbers(key, stamp).for_each(|number| out.extend_from_slice(&number));
    }

    /// Which write these bytes are the whole work of; `None` if they are of none.
    pub(crate) fn stamp_of(&self, key: u64, bytes: &[u8]) -> Option<Stamp> {
        let (stamp, numbers) = bytes.split_first_chunk::<8>()?;
        let stamp = Stamp(u64::from_le_bytes(*stamp));
        let whole = bytes.len() == ROW_BYTES
            && numbers.chunks_exact(4).zip(self.numbers(key, stamp)).all(|(found, right)| *found == right);
        whole.then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 5, rows: 1000, writers: 4 };

    #[test]
    fn a_row_tells_its_origin_and_every_flipped_byte() {
        let stamp = Stamp::new(3, 2, 77);
        assert_eq!((stamp.round(), stamp.writer(), stamp.number()), (3, 2, 77));
        let mut row = Vec::new();
        PLAN.row(9, stamp, &mut row);
        assert_eq!(row.len(), ROW_BYTES);
        assert_eq!(PLAN.stamp_of(9, &row), Some(stamp));
        assert_eq!(PLAN.stamp_of(8, &row), None);
        assert_eq!(PLAN.stamp_of(9, &row[..100]), None);
        for at in 0..row.len() {
            row[at] ^= 4;
            assert_eq!(PLAN.stamp_of(9, &row), None, "byte {at}");
            row[at] ^= 4;
        }
    }

    #[test]
    fn writers_keep_to_their_rows_and_mix_both_words() {
        let mut power = 0;
        for number in 0..1000 {
            let step = PLAN.step(Stamp::new(1, number % 4, number));
            assert!(step.keys.iter().all(|key| key % 4 == u64::from(number % 4) && *key < 1000));
            assert!(!step.keys.is_empty());
            power += u32::from(step.durability == Durability::Power);
        }
        assert!((150..350).contains(&power), "{power} of 1000");
    }
}
