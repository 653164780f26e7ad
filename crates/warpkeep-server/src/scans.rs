//! `SCAN`: where clients stand that go through the keys.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use warpkeep::{ScanPosition, Still, Table};

/// A client that pauses longer starts over.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most positions that are kept.
const MOST: usize = 4096;

/// Where clients stand, by the cursors they were given.
#[derive(Default)]
pub(crate) struct Scans {
    positions: HashMap<u64, (ScanPosition, Instant)>,
    last: u64,
    /// Where `RANDOMKEY` looks next.
    pub(crate) random: ScanPosition,
    draws: u64,
    /// Held while a client scans, so that no key moves and is missed.
    still: Option<Still>,
}

impl Scans {
    /// The position of a cursor. An unknown cursor starts over: keys may be returned twice, and none is missed.
    pub(crate) fn take(&mut self, cursor: u64, table: &Table) -> ScanPosition {
        if self.still.is_none() {
            self.still = Some(table.hold_still());
        }
        self.positions.remove(&cursor).map_or_else(ScanPosition::default, |(position, _)| position)
    }

    /// Keeps a position and gives its cursor.
    pub(crate) fn keep(&mut self, position: ScanPosition) -> u64 {
        if self.positions.len() >= MOST {
            let oldest =
                self.positions.iter().min_by_key(|(_, (_, since))| *since).map(|(&cursor, _)| cursor);
            oldest.map(|cursor| self.positions.remove(&cursor));
        }
        self.last += 1;
        self.positions.insert(self.last, (position, Instant::now()));
        self.last
    }

    /// A number that looks random.
    pub(crate) fn draw(&mut self) -> u64 {
        self.draws += 1;
        warpkeep_core::mix64(warpkeep_core::Seed(self.last), self.draws) >> 16
    }

    /// Drops the scans of clients that have not continued for a while.
    pub(crate) fn forget_old(&mut self) {
        if self.still.is_some() {
            self.positions.retain(|_, (_, since)| since.elapsed() < PATIENCE);
            if self.positions.is_empty() {
                self.still = None;
            }
        }
    }

    /// Whether there is no scan, and nothing held for one.
    #[cfg(test)]
    pub(crate) fn are_none(&self) -> bool {
        self.positions.is_empty() && self.still.is_none()
    }

    /// Drops all scans: the table was replaced.
    pub(crate) fn forget(&mut self) {
        self.positions.clear();
        self.random = ScanPosition::default();
        self.still = None;
    }
}
