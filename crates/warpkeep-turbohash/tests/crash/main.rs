//! The crash explorer over a table on persistent memory: put, replace, remove, batches, shards built anew, recovery.
//!
//! In a program of its own: what a table frees waits for the readers of the whole process, so other tests would decide
//! when it happens.

#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests that do not crash")]
mod rig;
mod scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use warpkeep_crashlab::{Crash, Explorer, LabMemory, MemoryModel, Recorder, Reopen, Trace, mutation_gate_of};
use warpkeep_image::{Clear, Format, Heap, HeapOptions, Image, MIN_CHUNK, Surroundings};
use warpkeep_turbohash::{Table, TableError};

use rig::{Kind, get, put, remove};
use scripts::{MOVERS, SCRIPTS, Script, Step, load};

const CHUNKS: u64 = 24;
const ROOT: usize = 0;

/// A kind of slots, and what is done to a table of them.
type Case = (Kind, &'static Script);

fn surroundings() -> Surroundings {
    Surroundings { persistent: true, pid: 1, ..Surroundings::default() }
}

/// Takes a step. Upkeep is another thread's work than writing: a fence covers only the flushes of its own thread.
fn take(
    (kind, script): Case,
    trace: &Trace,
    table: &Table<Recorder>,
    number: usize,
    step: &Step,
) -> Result<(), TableError> {
    let version = number as u64 + 1;
    let key = |key: u64| kind.key(script.key(kind, key));
    let thread = u32::from(!matches!(step, Step::Load | Step::Put(_) | Step::Remove(_) | Step::Batch(..)));
    trace.as_thread(thread, || match *step {
        Step::Put(number) => put(table, &key(number), &kind.value(number, version), version).map(|_| ()),
        Step::Load => {
            let mut all = load(kind);
            all.try_for_each(|number| {
                put(table, &key(number), &kind.value(number, version), version).map(|_| ())
            })
        }
        Step::Remove(number) => {
            remove(table, &key(number));
            Ok(())
        }
        Step::Batch(puts, removes) => loop {
            let numbers = puts.iter().chain(removes);
            let mut stage = table.stage(numbers.map(|&number| table.hash_of(&key(number))));
            let mut staged = Ok(());
            for &number in removes {
                let seat = stage.seat(&key(number), table.hash_of(&key(number)));
                stage.remove(&seat);
            }
            for &number in puts {
                let seat = stage.seat(&key(number), table.hash_of(&key(number)));
                staged = stage.put(&seat, &key(number), &kind.value(number, version), version);
                if staged.is_err() {
                    break;
                }
            }
            match staged {
                Err(TableError::Full) => {
                    let seen = stage.seen();
                    drop(stage);
                    table.make_room(seen)?;
                }
                staged => {
                    staged?;
                    stage.publish();
                    return Ok(());
                }
            }
        },
        Step::Grow => table.grow(),
        Step::Shrink => table.shrink().map(|_| ()),
        Step::Collect => table.collect().map(|_| ()),
        Step::Settle => {
            // The space of what was replaced is used again by what comes next.
            (0..1000).for_each(|_| crossbeam_epoch::pin().flush());
            Ok(())
        }
        Step::Defragment => table.defragment(&table.heap().begin_clearing(Clear::All)).map(|_| ()),
    })
}

/// The step that gave each key what it has.
fn expected((kind, script): Case, count: usize) -> BTreeMap<u64, usize> {
    let mut items = BTreeMap::new();
    for (number, step) in script.steps.iter().enumerate().take(count) {
        match *step {
            Step::Put(key) => {
                items.insert(key, number);
            }
            Step::Load => items.extend(load(kind).map(|key| (key, number))),
            Step::Remove(key) => {
                items.remove(&key);
            }
            Step::Batch(puts, removes) => {
                items.extend(puts.iter().map(|&key| (key, number)));
                items.retain(|key, _| !removes.contains(key));
            }
            Step::Grow | Step::Shrink | Step::Collect | Step::Settle | Step::Defragment => {}
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
        for word in 0..128 {
            image.store(extent + 8 * word, 0x0bad_cafe_1234_5678);
        }
    }
    dirty.into_iter().for_each(|extent| heap.free_extent(extent).unwrap());
    if script.spared == 0 {
        trace.resume();
    }
    let spec = kind.spec(script.shards, script.capacity(kind));
    let table = Table::create(&Arc::new(heap), &spec).unwrap();
    image.set_root(ROOT, Some(table.header())).unwrap();
    trace.ack(0);
    for (number, step) in script.steps.iter().enumerate() {
        take((kind, script), trace, &table, number, step).unwrap();
        trace.ack(number as u64 + 1);
        if number + 1 == script.spared {
            trace.resume();
        }
    }
    (script.meant)(&table.stats());
    (kind, script)
}

fn check(case: Case, reopen: &Reopen<'_>) -> Result<(), String> {
    let (kind, script) = case;
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
        for key in 0..script.keys {
            let Some((version, bytes)) = get(table, &kind.key(script.key(kind, key))) else {
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
    let (before, after) = (expected(case, done), expected(case, (done + 1).min(script.steps.len())));
    // Of a batch under way each key is as it was or as it will be.
    let good = |key: &u64| [&before, &after].iter().any(|expected| expected.get(key) == items.get(key));
    if let Some(bad) = (0..script.keys).find(|key| !good(key)) {
        return Err(format!("key {bad}: {items:?} after {done} steps, not {before:?} or {after:?}"));
    }
    if table.len() != items.len() as u64 {
        return Err(format!("{} items counted, {} there", table.len(), items.len()));
    }
    // Header, directory and shards, and one record an item, if it has one.
    let usage = heap.usage();
    if usage.used_blocks() != 2 + u64::from(script.shards) + kind.blocks() * items.len() as u64 {
        return Err(format!("{} items, but in use are {usage}", items.len()));
    }
    let found = Table::inspect(&image, header).map_err(text)?;
    if !found.is_clean() || found.moving > 0 || found.items != items.len() as u64 {
        return Err(format!("{} items, but {found:?}", items.len()));
    }
    let mut scanned = BTreeMap::new();
    table.scan::<String>(1, |change| {
        let number = (0..script.keys).find(|&number| kind.key(script.key(kind, number)) == change.key);
        scanned.insert(number.ok_or("a key that was never put")?, change.version as usize - 1);
        Ok(())
    })?;
    if scanned != items {
        return Err(format!("{items:?} found, but {scanned:?} scanned"));
    }
    // Work goes on where it stopped, and is crashed in its turn.
    let count = if items == after { (done + 1).min(script.steps.len()) } else { done };
    for number in reopen.acked().len()..=count {
        reopen.ack(number as u64);
    }
    if script.is_crowded() {
        // What moved on is written again before anything takes the slots that were left.
        for (&key, &number) in items.range(MOVERS).take(3) {
            take(case, reopen.trace(), &table, number, &Step::Put(key)).map_err(text)?;
        }
    }
    for (number, step) in script.steps.iter().enumerate().skip(count).take(2) {
        take(case, reopen.trace(), &table, number, step).map_err(text)?;
        reopen.ack(number as u64 + 1);
    }
    let (found, wanted) = (read(&table)?, expected(case, (count + 2).min(script.steps.len())));
    if found != wanted {
        return Err(format!("work after recovery: {found:?}, not {wanted:?}"));
    }
    Ok(())
}

fn explorer() -> Explorer {
    Explorer::new([
        Crash::Process,
        Crash::PowerPersistent(MemoryModel::X86Lines),
        Crash::PowerPersistent(MemoryModel::Words),
    ])
    .per_boundary(8)
    .per_recovery(2)
    // The epochs that free records are the process's, so runs beside each other would not be repeatable.
    .threads(1)
}

/// One test at a time, for the same reason.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_crash_is_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in [Kind::Values, Kind::References, Kind::Variable] {
        // Lengths make no difference to which slots are taken.
        let scripts = if kind == Kind::Variable { &SCRIPTS[..1] } else { &SCRIPTS };
        for &(name, script) in scripts {
            let trace = Trace::new();
            let case = scenario((kind, script), &trace);
            let exploration = explorer().explore(&trace, |reopen| check(case, reopen));
            let _ = writeln!(
                std::io::stdout().lock(),
                "explored a TurboHash table, {kind:?}, {name}: {exploration}"
            );
            exploration.assert_clean();
        }
    }
}

#[test]
fn every_missing_flush_and_fence_is_noticed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut caught, mut missed) = (BTreeSet::new(), BTreeSet::new());
    // A site is caught by any of them.
    let cases = SCRIPTS.iter().map(|&(_, script)| (Kind::References, script));
    for case in cases.chain([(Kind::Values, SCRIPTS[0].1)]) {
        let explorer = explorer().per_boundary(16).per_recovery(8);
        let gate = mutation_gate_of(
            &explorer,
            |site| site.name.starts_with("turbohash.") && !caught.contains(&site),
            |trace| scenario(case, trace),
            |case, reopen| check(*case, reopen),
        );
        gate.baseline.assert_clean();
        caught.extend(gate.caught);
        missed.extend(gate.missed);
    }
    missed.retain(|site| !caught.contains(site));
    let of = caught.len() + missed.len();
    let _ = writeln!(
        std::io::stdout().lock(),
        "mutation gate of the TurboHash table: {} of {of} caught",
        caught.len()
    );
    assert!(missed.is_empty(), "not noticed when missing: {missed:?}");
}
