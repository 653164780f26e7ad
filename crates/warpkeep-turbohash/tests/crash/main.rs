//! The crash explorer over a table on persistent memory: put, replace, remove, batches, rebuilt shards, recovery.

#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests that do not crash")]
mod rig;
mod scripts;

use std::sync::Arc;

use warpkeep_crashlab::Recorder;
use warpkeep_image::Heap;
use warpkeep_suites::crash::{
    Scenario, Step, Thoroughness, every_crash_is_survived, every_missing_flush_and_fence_is_noticed,
};
use warpkeep_turbohash::{Table, TableError};

use rig::Kind;
use scripts::{MOVERS, SCRIPTS, Script};

/// A kind of slots, and the script for a table of them.
#[derive(Clone, Copy)]
struct Case(Kind, &'static Script);

impl Scenario for Case {
    type Table = Table<Recorder>;

    fn name(&self) -> String {
        format!("turbohash, {:?}, {}", self.0, self.1.name)
    }

    fn chunks(&self) -> u64 {
        24
    }

    /// Four buckets.
    fn dirty_words(&self) -> u64 {
        128
    }

    fn create(&self, heap: &Arc<Heap<Recorder>>) -> Result<Table<Recorder>, TableError> {
        Table::create(heap, &self.0.spec(self.1.shards, self.1.capacity(self.0)))
    }

    fn steps(&self) -> Vec<Step<Table<Recorder>>> {
        self.1.steps.iter().map(|step| step.of(self.0)).collect()
    }

    fn spared(&self) -> usize {
        self.1.spared
    }

    fn keys(&self) -> u64 {
        self.1.keys
    }

    fn key(&self, number: u64) -> Vec<u8> {
        self.0.key(self.1.key(self.0, number))
    }

    fn value(&self, number: u64, version: u64) -> Vec<u8> {
        self.0.value(number, version)
    }

    /// Header, directory and shards, and one record an item, if it has one.
    fn blocks(&self, items: u64) -> u64 {
        2 + u64::from(self.1.shards) + self.0.blocks() * items
    }

    /// Some of the displaced keys.
    fn put_again(&self) -> std::ops::Range<u64> {
        if self.1.is_crowded() { MOVERS.start..MOVERS.start + 3 } else { 0..0 }
    }

    fn assert_meant(&self, table: &Table<Recorder>) {
        (self.1.meant)(&table.stats());
    }
}

#[test]
fn crashes_are_survived() {
    // Lengths make no difference to which slots are taken.
    let scripts = |kind| match kind {
        Kind::Variable | Kind::Tiled => &SCRIPTS[..1],
        _ => &SCRIPTS[..],
    };
    let kinds = [Kind::Values, Kind::References, Kind::Variable, Kind::Tiled];
    let cases = kinds.into_iter().flat_map(|kind| scripts(kind).iter().map(move |script| Case(kind, script)));
    every_crash_is_survived(cases, Thoroughness { per_boundary: 8, per_recovery: 2 });
}

#[test]
fn missing_flushes_and_fences_are_noticed() {
    // A site is caught by any of them.
    let cases = SCRIPTS.iter().map(|script| Case(Kind::References, script));
    let cases = cases.chain([Case(Kind::Values, SCRIPTS[0])]);
    let cases = cases.chain([SCRIPTS[0], SCRIPTS[2], SCRIPTS[3]].map(|script| Case(Kind::Tiled, script)));
    let thoroughness = Thoroughness { per_boundary: 16, per_recovery: 24 };
    every_missing_flush_and_fence_is_noticed(cases, "turbohash.", thoroughness);
}
