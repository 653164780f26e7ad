//! The scripts for tables that are crashed.

use std::sync::LazyLock;

use warpkeep_core::hash_bytes;
use warpkeep_crashlab::Recorder;
use warpkeep_suites::crash;
use warpkeep_turbohash::{Table, TableStats};

use crate::rig::{Kind, SEED};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Put(u64),
    Remove(u64),
    /// All keys of a crowded table but a few that come later.
    Load,
    /// Puts and removes in one stage.
    Batch(&'static [u64], &'static [u64]),
    Grow,
    Shrink,
    Collect,
    /// Free replaced records.
    Settle,
    /// Move all records and shards.
    Defragment,
}
use Step::{Batch, Collect, Defragment, Grow, Load, Put, Remove, Settle, Shrink};

impl Step {
    /// The step as the explorer takes it.
    pub(crate) fn of(self, kind: Kind) -> crash::Step<Table<Recorder>> {
        match self {
            Put(key) => crash::Step::Put(key),
            Remove(key) => crash::Step::Remove(key),
            Load => crash::Step::PutAll(load(kind).collect()),
            Batch(puts, removes) => crash::Step::Batch(puts, removes),
            Grow => crash::Step::Grow,
            Shrink => crash::Step::Shrink,
            Collect => crash::Step::Upkeep(|table| table.collect().map(|_| ())),
            Settle => crash::Step::Settle,
            Defragment => crash::Step::Defragment,
        }
    }
}

pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) shards: u32,
    /// Buckets of a shard at the beginning.
    pub(crate) buckets: u64,
    /// The number of steps before the first crash.
    pub(crate) spared: usize,
    /// No step has a key beyond.
    pub(crate) keys: u64,
    pub(crate) steps: &'static [Step],
    /// Asserts that the script had its intended effect.
    pub(crate) meant: fn(&TableStats),
}

impl Script {
    pub(crate) fn capacity(&self, kind: Kind) -> u64 {
        u64::from(self.shards) * self.buckets * kind.slots() * 7 / 10
    }

    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self.steps, [Load, ..])
    }

    /// The number of the key that a step means.
    pub(crate) fn key(&self, kind: Kind, number: u64) -> u64 {
        let place = Kind::ALL.iter().position(|&other| other == kind).expect("one of all");
        if self.is_crowded() { CROWD[place][number as usize] } else { number }
    }
}

pub(crate) const SCRIPTS: [&Script; 4] = [&WRITTEN, &BATCHED, &REBUILT, &CROWDED];

/// Keys of the crowded table whose home is the last bucket of the scope, and that can move on.
pub(crate) const MOVERS: std::ops::Range<u64> = 20..33;

/// Keys that fill the sixteen buckets of a scope: first the movers, into the last of them, then others, whose home
/// is the first.
fn load(kind: Kind) -> impl Iterator<Item = u64> {
    let usable = kind.slots() - 1;
    MOVERS.take(usable as usize).chain(40..40 + 15 * usable)
}

/// The numbers of the keys of the crowded table, by kind.
static CROWD: LazyLock<Vec<Vec<u64>>> = LazyLock::new(|| Kind::ALL.map(crowd).to_vec());

fn crowd(kind: Kind) -> Vec<u64> {
    // Of one shard with 32 buckets.
    let home = |number: &u64| hash_bytes(SEED, &kind.key(*number)) >> 59;
    let mut last = (0..).filter(|number| home(number) == 15);
    let mut first = (0..).filter(|number| home(number) == 0);
    let mut next = |number: u64| if MOVERS.contains(&number) { last.next() } else { first.next() };
    (0..CROWDED.keys).filter_map(&mut next).collect()
}

/// One bucket, written until it is full, and its shard rebuilt by the writer that finds no place.
const WRITTEN: Script = Script {
    name: "written",
    shards: 1,
    buckets: 1,
    spared: 0,
    keys: 20,
    steps: &[
        Put(1),
        Put(2),
        Put(3),
        Put(1),
        Remove(2),
        Settle,
        Put(4),
        Put(5),
        Put(6),
        Put(7),
        Put(8),
        Put(9),
        Put(1),
        Remove(3),
        Settle,
        Put(10),
        Put(2),
        Put(11),
        Put(12),
        Put(13),
        Put(14),
        Put(15),
        Settle,
        Put(16),
        Put(1),
        Remove(5),
    ],
    meant: |stats| assert!(stats.grown > 0, "{stats:?}"),
};

/// Two shards, several changes at once: updates that share the spare slot, keys that go past a bucket filled by the
/// same batch, slots freed and reused.
const BATCHED: Script = Script {
    name: "batched",
    shards: 2,
    buckets: 2,
    spared: 0,
    keys: 40,
    steps: &[
        Batch(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[]),
        Batch(&[12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23], &[]),
        Batch(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[10, 11, 12]),
        Settle,
        Batch(&[24, 25, 26, 27, 28, 29, 30, 0, 1], &[13, 14, 15, 16, 17]),
        Remove(2),
        Batch(&[31, 32, 33, 34, 10, 11, 12, 13, 14], &[20, 21]),
        Put(3),
    ],
    meant: |stats| assert!(stats.items > 20, "{stats:?}"),
};

/// Shards made larger and smaller, rid of deleted items, moved, and written to in between.
const REBUILT: Script = Script {
    name: "rebuilt",
    shards: 2,
    buckets: 1,
    spared: 0,
    keys: 16,
    steps: &[
        Put(0),
        Put(1),
        Put(2),
        Put(3),
        Put(4),
        Put(5),
        Grow,
        Put(6),
        Put(1),
        Remove(3),
        Settle,
        Grow,
        Put(7),
        Put(0),
        Settle,
        Defragment,
        Settle,
        Put(8),
        Put(5),
        Put(4),
        Put(2),
        Remove(0),
        Settle,
        Put(9),
        Shrink,
        Put(10),
        Put(1),
        Remove(8),
        Collect,
        Put(11),
        Settle,
        Put(2),
    ],
    meant: |stats| assert!(stats.grown > 0 && stats.shrunk > 0, "{stats:?}"),
};

/// Sixteen consecutive full buckets, and keys whose home is the first of them: items of the last move on.
const CROWDED: Script = Script {
    name: "crowded",
    shards: 1,
    buckets: 32,
    spared: 1,
    keys: 240,
    steps: &[
        Load,
        Put(0),
        Put(20),
        Settle,
        Put(1),
        Remove(21),
        Settle,
        Put(2),
        Put(22),
        Settle,
        Put(20),
        Put(21),
        Settle,
        Remove(0),
        Put(3),
    ],
    meant: |stats| assert!(stats.displaced > 1 && stats.grown == 0, "{stats:?}"),
};
