//! The crash explorer over a table on persistent memory: put, replace, remove, growth, recovery.

#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests that do not crash")]
mod rig;

use std::sync::{Arc, LazyLock};

use warpkeep_core::{reduce, second_hash};
use warpkeep_crashlab::Recorder;
use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_image::Heap;
use warpkeep_suites::crash::{
    Scenario, Thoroughness, every_crash_is_survived, every_missing_flush_and_fence_is_noticed,
};

use rig::Kind;

/// The keys of the scripts are below this.
const KEYS: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64),
    Remove(u64),
    /// Grow, to the end.
    Grow,
    /// Begin to grow.
    Begin,
    /// Drain one bucket.
    Drain,
    /// Shrink, to the end.
    Shrink,
    /// Move all records.
    Defragment,
    /// Free replaced records.
    Settle,
}
use Step::{Begin, Defragment, Drain, Grow, Put, Remove, Settle, Shrink};

/// A table and the work on it.
struct Script {
    name: &'static str,
    geometry: fn() -> Geometry,
    capacity: u64,
    steps: &'static [Step],
}

/// A table of two buckets in the top level, filled, made to grow, and used on.
const FILLED: Script = Script {
    name: "filled",
    geometry: Geometry::default,
    capacity: 1,
    steps: &[
        Put(1),
        Put(2),
        Put(3),
        Put(1),
        Remove(2),
        Put(4),
        Put(5),
        Put(6),
        Put(7),
        Put(8),
        Put(9),
        Put(10),
        Put(11),
        Put(12),
        Put(13),
        Put(14),
        Put(15),
        Put(16),
        Put(17),
        Put(18),
        Put(19),
        Put(20),
        Put(21),
        Put(22),
        Put(23),
        Grow,
        // Freed blocks are reused at once, so that a crash shows whether they were still referenced.
        Settle,
        Put(24),
        Remove(3),
        Put(5),
        Remove(9),
        Put(2),
        Put(25),
        Put(26),
        Remove(1),
    ],
};

/// A table of one level, drained bucket by bucket while its items are replaced and removed.
const DRAINED: Script = Script {
    name: "drained",
    geometry: || Geometry::new(1, 4, 8).expect("a geometry"),
    capacity: 20,
    steps: &[
        Put(1),
        Put(2),
        Put(3),
        Put(4),
        Put(5),
        Put(6),
        Put(7),
        Put(8),
        Put(9),
        Put(10),
        Begin,
        Drain,
        Put(1),
        Put(2),
        Put(3),
        Put(4),
        Put(5),
        Put(6),
        Drain,
        Remove(7),
        Put(8),
        Put(9),
        Put(10),
        Put(1),
        Put(2),
        Put(3),
        Put(11),
        Drain,
        Put(12),
        Put(4),
        Remove(5),
        Put(6),
        Drain,
        Put(1),
        Drain,
        Put(2),
        Put(13),
        Put(14),
    ],
};

/// A table too large for its remaining items: shrunk, and used on.
const SHRUNK: Script = Script {
    name: "shrunk",
    geometry: Geometry::default,
    capacity: 60,
    steps: &[
        Put(0),
        Put(1),
        Put(2),
        Put(3),
        Put(4),
        Put(5),
        Put(6),
        Put(7),
        Put(8),
        Remove(2),
        Defragment,
        Settle,
        Put(7),
        Shrink,
        Settle,
        Put(9),
        Put(3),
        Remove(4),
        Remove(0),
        Put(10),
        Put(1),
        Remove(5),
        Put(0),
        Shrink,
        Put(11),
    ],
};

/// A table of two buckets in the top level. Its first five items can be in both buckets, all others in the first alone,
/// so that the five are displaced when the first bucket is full.
const CROWDED: Script = Script {
    name: "crowded",
    geometry: Geometry::default,
    capacity: 1,
    steps: &[
        Put(0),
        Put(1),
        Put(2),
        Put(3),
        Put(4),
        Put(10),
        Put(11),
        Put(12),
        Put(13),
        Put(14),
        Put(15),
        Put(16),
        Put(17),
        Put(18),
        Put(19),
        Put(20),
        Put(21),
        Put(0),
        Put(22),
        Put(1),
        Put(23),
        Remove(2),
        Remove(0),
        Remove(12),
        Put(24),
        Put(25),
        Put(5),
        Put(2),
    ],
};
/// Keys of the crowded table below this can be in both buckets of the top level, the others in the first alone.
const KEYS_OF_BOTH: usize = 10;

/// The key numbers of the crowded table, by kind.
static CROWD: LazyLock<Vec<Vec<u64>>> = LazyLock::new(|| Kind::ALL.map(crowd).to_vec());

fn crowd(kind: Kind) -> Vec<u64> {
    let buckets_of = |number: &u64| {
        let hash = kind.hash(*number);
        (reduce(hash, 2), reduce(second_hash(hash), 2))
    };
    // From 2 on: the first two are special in some kinds.
    let both = (2..).filter(|number| buckets_of(number) == (0, 1)).take(KEYS_OF_BOTH);
    let first = (2..).filter(|number| buckets_of(number) == (0, 0)).take(KEYS as usize - KEYS_OF_BOTH);
    both.chain(first).collect()
}

fn is_crowded(script: &Script) -> bool {
    std::ptr::eq(script.steps, CROWDED.steps)
}

/// A kind of table, and a script.
#[derive(Clone, Copy)]
struct Case(Kind, &'static Script);

impl Step {
    /// The step in the explorer's terms.
    fn of(self) -> warpkeep_suites::crash::Step<Table<Recorder>> {
        use warpkeep_suites::crash::Step as ExplorerStep;
        match self {
            Put(key) => ExplorerStep::Put(key),
            Remove(key) => ExplorerStep::Remove(key),
            Grow => ExplorerStep::Grow,
            Shrink => ExplorerStep::Shrink,
            Defragment => ExplorerStep::Defragment,
            Settle => ExplorerStep::Settle,
            Begin => ExplorerStep::Upkeep(Table::begin_growth),
            Drain => ExplorerStep::Upkeep(|table| {
                // Not before all readers have left the old levels.
                for _ in 0..1000 {
                    table.heap().reclaim();
                    if table.may_drain() {
                        break;
                    }
                }
                table.maintain(1).map(|_| ())
            }),
        }
    }
}

impl Scenario for Case {
    type Table = Table<Recorder>;

    fn name(&self) -> String {
        format!("gphash, {:?}, {}", self.0, self.1.name)
    }

    fn chunks(&self) -> u64 {
        16
    }

    fn dirty_words(&self) -> u64 {
        16
    }

    fn create(&self, heap: &Arc<Heap<Recorder>>) -> Result<Table<Recorder>, TableError> {
        Table::create(heap, &self.0.spec((self.1.geometry)(), self.1.capacity))
    }

    fn steps(&self) -> Vec<warpkeep_suites::crash::Step<Table<Recorder>>> {
        self.1.steps.iter().map(|step| step.of()).collect()
    }

    fn keys(&self) -> u64 {
        KEYS
    }

    fn key(&self, number: u64) -> Vec<u8> {
        let Case(kind, script) = *self;
        let index = Kind::ALL.iter().position(|&other| other == kind).expect("one of all");
        kind.key(if is_crowded(script) { CROWD[index][number as usize] } else { number })
    }

    fn value(&self, number: u64, version: u64) -> Vec<u8> {
        self.0.value(number, version)
    }

    /// Header, levels, and one record per item, for kinds with records. An item that is being moved has one record,
    /// too.
    fn blocks(&self, items: u64) -> u64 {
        2 + self.0.blocks() * items
    }

    /// The keys that are displaced.
    fn put_again(&self) -> std::ops::Range<u64> {
        0..if is_crowded(self.1) { KEYS_OF_BOTH as u64 } else { 0 }
    }

    fn assert_meant(&self, table: &Table<Recorder>) {
        assert!(!is_crowded(self.1) || table.stats().displaced > 0, "{:?}: no item was displaced", self.0);
    }
}

const SCRIPTS: [&Script; 4] = [&FILLED, &DRAINED, &SHRUNK, &CROWDED];

#[test]
fn crashes_are_survived() {
    let cases = Kind::ALL.into_iter().flat_map(|kind| SCRIPTS.map(|script| Case(kind, script)));
    let full = Thoroughness { per_boundary: 64, per_recovery: 8 };
    every_crash_is_survived(cases, Thoroughness { per_boundary: 12, per_recovery: 4 }.usual(full));
}

#[test]
fn missing_flushes_and_fences_are_noticed() {
    // Together these cases reach all sites. One that notices the absence of a site is enough.
    let cases = [
        Case(Kind::Packed, &FILLED),
        Case(Kind::Packed, &DRAINED),
        Case(Kind::Packed, &SHRUNK),
        Case(Kind::Packed, &CROWDED),
        Case(Kind::KeyedInline, &FILLED),
        Case(Kind::KeyedInline, &DRAINED),
        Case(Kind::Reference, &FILLED),
        Case(Kind::Tiled, &FILLED),
        Case(Kind::Tiled, &SHRUNK),
    ];
    let full = Thoroughness { per_boundary: 32, per_recovery: 16 };
    let usual = Thoroughness { per_boundary: 16, per_recovery: 16 };
    every_missing_flush_and_fence_is_noticed(cases, "gphash.", usual.usual(full));
}
