//! The crash explorer over a table on persistent memory: put, replace, remove, growth, recovery.
//!
//! In a program of its own: what a table frees waits for the readers of the whole process, so other tests would decide
//! when it happens.

#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests that do not crash")]
mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpkeep_core::{hash_bytes, reduce, second_hash};
use warpkeep_crashlab::{Crash, Explorer, LabMemory, MemoryModel, Recorder, Reopen, Trace, mutation_gate_of};
use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_image::{Clear, Format, Heap, HeapOptions, Image, MIN_CHUNK, Surroundings};

use rig::{Kind, get, put, remove};

const CHUNKS: u64 = 16;
const ROOT: usize = 0;
/// No script has a key beyond.
const KEYS: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(u64),
    Remove(u64),
    /// Grow now, and see it through.
    Grow,
    /// Begin to grow.
    Begin,
    /// Drain one bucket.
    Drain,
    /// Shrink now, and see it through.
    Shrink,
    /// Move all records.
    Defragment,
}
use Step::{Begin, Defragment, Drain, Grow, Put, Remove, Shrink};

/// What is done to a table, and what the table is.
struct Script {
    geometry: fn() -> Geometry,
    capacity: u64,
    steps: &'static [Step],
}

/// A table of two buckets in the top level, filled, made to grow, and used on.
const FILLED: Script = Script {
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

fn surroundings() -> Surroundings {
    Surroundings { persistent: true, pid: 1, ..Surroundings::default() }
}

/// A table too large for what is left in it, made smaller and used on.
const SHRUNK: Script = Script {
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
        Put(7),
        Shrink,
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

/// A table of two buckets in the top level, of whose first five items could be in the second, and all others could not:
/// each of those moves on when its slot is all that is left.
const CROWDED: Script = Script {
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
const AT_HOME_IN_BOTH: usize = 10;

/// The numbers of the keys of the crowded table, by kind.
static CROWD: LazyLock<Vec<Vec<u64>>> = LazyLock::new(|| Kind::ALL.map(crowd).to_vec());

fn crowd(kind: Kind) -> Vec<u64> {
    let buckets_of = |number: &u64| {
        let hash = hash_bytes(rig::SEED, &kind.key(*number));
        (reduce(hash, 2), reduce(second_hash(hash), 2))
    };
    // From 2 on: the first are special in some kinds.
    let both = (2..).filter(|number| buckets_of(number) == (0, 1)).take(AT_HOME_IN_BOTH);
    let first = (2..).filter(|number| buckets_of(number) == (0, 0)).take(KEYS as usize - AT_HOME_IN_BOTH);
    both.chain(first).collect()
}

fn is_crowded(script: &Script) -> bool {
    std::ptr::eq(script.steps, CROWDED.steps)
}

/// The key that a script means by a number.
fn key_of((kind, script): Case, number: u64) -> Vec<u8> {
    let place = Kind::ALL.iter().position(|&other| other == kind).expect("one of all");
    kind.key(if is_crowded(script) { CROWD[place][number as usize] } else { number })
}

/// Takes a step. Growth is another thread's work than writing: a fence covers only the flushes of its own thread.
fn take(
    case: Case,
    trace: &Trace,
    table: &Table<Recorder>,
    number: usize,
    step: Step,
) -> Result<(), TableError> {
    let thread = u32::from(matches!(step, Grow | Begin | Drain | Shrink | Defragment));
    trace.as_thread(thread, || match step {
        Put(key) => {
            let version = number as u64 + 1;
            put(table, &key_of(case, key), &case.0.value(key, version), version).map(|_| ())
        }
        Remove(key) => {
            remove(table, &key_of(case, key));
            Ok(())
        }
        Grow => table.grow(),
        Begin => table.begin_growth(),
        Shrink => table.shrink().map(|_| ()),
        Defragment => {
            let moved = table.defragment(&table.heap().begin_clearing(Clear::All)).map(|_| ());
            // The space of what was moved is used again by what comes next.
            (0..100).for_each(|_| crossbeam_epoch::pin().flush());
            moved
        }
        Drain => {
            // Not before everybody has left who goes by the old levels.
            for _ in 0..1000 {
                crossbeam_epoch::pin().flush();
                if table.may_drain() {
                    break;
                }
            }
            table.maintain(1).map(|_| ())
        }
    })
}

fn expected(script: &Script, count: usize) -> BTreeMap<u64, usize> {
    let mut items = BTreeMap::new();
    for (number, &step) in script.steps.iter().enumerate().take(count) {
        match step {
            Put(key) => {
                items.insert(key, number);
            }
            Remove(key) => {
                items.remove(&key);
            }
            Grow | Begin | Drain | Shrink | Defragment => {}
        }
    }
    items
}

fn scenario((kind, script): Case, trace: &Trace) -> Case {
    trace.pause();
    let memory = LabMemory::new(trace, CHUNKS * MIN_CHUNK, CHUNKS * MIN_CHUNK);
    let recorder = memory.recorder();
    let format = Format { store_id: [3; 16], chunk_size: MIN_CHUNK, hash_seed: 3 };
    let image = Image::format(Arc::new(memory), recorder, Path::new("lab"), &format, surroundings()).unwrap();
    image.begin(1).unwrap();
    let image = Arc::new(image);
    let heap = Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(())).unwrap();
    // Space that was used before is not empty.
    let dirty: Vec<u64> = std::iter::from_fn(|| heap.allocate_extent(1).ok()).collect();
    for &extent in &dirty {
        for word in 0..16 {
            image.store(extent + 8 * word, 0x0bad_0bad_0bad_0bad);
        }
    }
    dirty.into_iter().for_each(|extent| heap.free_extent(extent).unwrap());
    trace.resume();
    let spec = kind.spec((script.geometry)(), script.capacity);
    let table = Table::create(&Arc::new(heap), &spec).unwrap();
    image.set_root(ROOT, Some(table.header())).unwrap();
    trace.ack(0);
    for (number, &step) in script.steps.iter().enumerate() {
        take((kind, script), trace, &table, number, step).unwrap();
        trace.ack(number as u64 + 1);
    }
    let displaced = table.stats().displaced;
    assert!(displaced > 0 || !is_crowded(script), "{kind:?}: nobody had to move on");
    (kind, script)
}

fn check((kind, script): Case, reopen: &Reopen<'_>) -> Result<(), String> {
    let text = |error: TableError| error.to_string();
    let Some(memory) = reopen.memory() else {
        return Ok(());
    };
    let recorder = memory.recorder();
    let attached = Image::attach(Arc::new(memory), recorder, Path::new("lab"), surroundings(), true);
    let image = Arc::new(attached.map_err(|error| error.to_string())?.image);
    let Some(header) = image.root(ROOT).map_err(|error| error.to_string())? else {
        return if reopen.acked().is_empty() { Ok(()) } else { Err("the table is gone".into()) };
    };
    let heap = Heap::recover::<TableError>(&image, HeapOptions::default(), |marker| {
        Table::mark(&image, marker, header)
    });
    let heap = Arc::new(heap.map_err(text)?);
    let table = reopen.trace().as_thread(2, || Table::attach(&heap, header)).map_err(text)?;
    let read = |table: &Table<Recorder>| -> Result<BTreeMap<u64, usize>, String> {
        let mut items = BTreeMap::new();
        for key in 0..KEYS {
            let Some((version, bytes)) = get(table, &key_of((kind, script), key)) else {
                continue;
            };
            if bytes != kind.value(key, version) {
                return Err(format!("key {key} has version {version} with {bytes:?}"));
            }
            items.insert(key, version as usize - 1);
        }
        Ok(items)
    };
    let items = read(&table)?;
    let done = reopen.acked().len().saturating_sub(1);
    let Some(count) = [done, (done + 1).min(script.steps.len())]
        .into_iter()
        .find(|&count| expected(script, count) == items)
    else {
        return Err(format!("{items:?} after {done} steps, not {:?}", expected(script, done)));
    };
    if table.len() != items.len() as u64 {
        return Err(format!("{} items counted, {} there", table.len(), items.len()));
    }
    // Header, levels and one record an item, if it has one. An item that was being moved has one record, too.
    let usage = heap.usage();
    if usage.used_blocks() != 2 + kind.blocks() * items.len() as u64 {
        return Err(format!("{} items, but in use are {usage}", items.len()));
    }
    let mut scanned = BTreeMap::new();
    let scan = table.scan::<String>(1, |change| {
        let number = (0..KEYS).find(|&number| key_of((kind, script), number) == change.key);
        scanned.insert(number.ok_or("a key that was never put")?, change.version as usize - 1);
        Ok(())
    });
    scan?;
    if scanned != items {
        return Err(format!("{items:?} found, but {scanned:?} scanned"));
    }
    // Work goes on where it stopped, and is crashed in its turn.
    for number in reopen.acked().len()..=count {
        reopen.ack(number as u64);
    }
    if is_crowded(script) {
        // What moved on is written again before anything takes the slots that were left.
        for (&key, &number) in items.iter().filter(|&(&key, _)| key < AT_HOME_IN_BOTH as u64) {
            take((kind, script), reopen.trace(), &table, number, Put(key)).map_err(text)?;
        }
    }
    for (number, &step) in script.steps.iter().enumerate().skip(count).take(2) {
        take((kind, script), reopen.trace(), &table, number, step).map_err(text)?;
        reopen.ack(number as u64 + 1);
    }
    if read(&table)? != expected(script, (count + 2).min(script.steps.len())) {
        return Err("work after recovery went wrong".into());
    }
    Ok(())
}

fn explorer() -> Explorer {
    Explorer::new([
        Crash::Process,
        Crash::PowerPersistent(MemoryModel::X86Lines),
        Crash::PowerPersistent(MemoryModel::Words),
    ])
    .per_boundary(64)
    .per_recovery(8)
    // The epochs that free records are the process's, so runs beside each other would not be repeatable.
    .threads(1)
}

/// One test at a time, for the same reason.
static ALONE: Mutex<()> = Mutex::new(());

/// A kind of slots, and what is done to a table of them.
type Case = (Kind, &'static Script);

const SCRIPTS: [(&str, &Script); 4] =
    [("filled", &FILLED), ("drained", &DRAINED), ("shrunk", &SHRUNK), ("crowded", &CROWDED)];

fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    Kind::ALL.into_iter().flat_map(|kind| SCRIPTS.map(|(name, script)| (name, (kind, script))))
}

#[test]
fn every_crash_is_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, case) in cases() {
        let trace = Trace::new();
        scenario(case, &trace);
        let exploration = explorer().explore(&trace, |reopen| check(case, reopen));
        let _ = writeln!(std::io::stdout().lock(), "explored a table, {:?}, {name}: {exploration}", case.0);
        exploration.assert_clean();
    }
}

#[test]
fn every_missing_flush_and_fence_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut caught, mut missed) = (BTreeSet::new(), BTreeSet::new());
    // A site is caught by any of them; these reach all sites.
    let cases: [Case; 7] = [
        (Kind::Packed, &FILLED),
        (Kind::Packed, &DRAINED),
        (Kind::Packed, &SHRUNK),
        (Kind::Packed, &CROWDED),
        (Kind::KeyedInline, &FILLED),
        (Kind::KeyedInline, &DRAINED),
        (Kind::Reference, &FILLED),
    ];
    for case in cases {
        let explorer = explorer().per_boundary(32).per_recovery(16);
        let gate = mutation_gate_of(
            &explorer,
            |site| site.name.starts_with("gphash.") && !caught.contains(&site),
            |trace| scenario(case, trace),
            |case, reopen| check(*case, reopen),
        );
        gate.baseline.assert_clean();
        caught.extend(gate.caught);
        missed.extend(gate.missed);
    }
    missed.retain(|site| !caught.contains(site));
    let of = caught.len() + missed.len();
    let _ = writeln!(std::io::stdout().lock(), "mutation gate of the table: {} of {of} caught", caught.len());
    assert!(missed.is_empty(), "not noticed when missing: {missed:?}");
}
