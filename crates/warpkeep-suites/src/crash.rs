//! Crash scenarios of a table on persistent memory. The steps are specific to the index; the crashes, and the
//! invariants afterwards, are the same for all.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use warpkeep_crashlab::{
    Crash, Explorer, LabMemory, MemoryModel, Recorder, Reopen, Site, Trace, explores_fully, mutation_gate_of,
};
use warpkeep_image::{Clear, Format, Heap, HeapOptions, Image, ImageError, MIN_CHUNK, Surroundings};
use warpkeep_record::{Full as _, Kept, Lookup as _, Staged as _, Staging, Upkeep as _};

use crate::{get, put, remove};

const ROOT: usize = 0;

/// A step on a table of type `T`.
pub enum Step<T: Staging<Recorder>> {
    /// Put a key.
    Put(u64),
    /// Remove a key.
    Remove(u64),
    /// Put many keys, one by one.
    PutAll(Vec<u64>),
    /// Puts and removes in one stage.
    Batch(&'static [u64], &'static [u64]),
    /// Grow now, and see it through.
    Grow,
    /// Shrink now, and see it through.
    Shrink,
    /// Move all records, found slot by slot.
    Defragment,
    /// Move all records, found block by block.
    Vacate,
    /// Free replaced records, so that later steps reuse their space.
    Settle,
    /// Upkeep that only this index has.
    Upkeep(fn(&T) -> Result<(), T::Error>),
}

/// A table, and the steps that are done to it.
pub trait Scenario: Copy + Send + Sync {
    /// The table.
    type Table: Kept<Recorder, Error: From<ImageError>>;

    /// Its name in reports.
    fn name(&self) -> String;
    /// Chunks of the image.
    fn chunks(&self) -> u64;
    /// Words at the beginning of every chunk that are dirty beforehand, where the table's first bytes will lie.
    /// More of them give more crashes to try.
    fn dirty_words(&self) -> u64;
    /// The table, empty.
    fn create(
        &self,
        heap: &Arc<Heap<Recorder>>,
    ) -> Result<Self::Table, <Self::Table as Staging<Recorder>>::Error>;
    /// The steps.
    fn steps(&self) -> Vec<Step<Self::Table>>;
    /// The number of steps before the first crash.
    fn spared(&self) -> usize {
        0
    }
    /// No step has a key beyond.
    fn keys(&self) -> u64;
    /// The key that a step means by a number.
    fn key(&self, number: u64) -> Vec<u8>;
    /// The value that is put under a key with a version.
    fn value(&self, number: u64, version: u64) -> Vec<u8>;
    /// Blocks of the heap that are in use with `items` items.
    fn blocks(&self, items: u64) -> u64;
    /// Keys that are put again right after a recovery, before any other write takes the slots that were left.
    fn put_again(&self) -> std::ops::Range<u64> {
        0..0
    }
    /// Panics if the steps did not have their intended effect.
    fn assert_meant(&self, _table: &Self::Table) {}
}

fn surroundings() -> Surroundings {
    Surroundings { persistent: true, pid: 1, ..Surroundings::default() }
}

type ErrorOf<C> = <<C as Scenario>::Table as Staging<Recorder>>::Error;

/// Takes a step. Maintenance runs in another thread than writes: a fence covers only the flushes of its own thread.
fn take<C: Scenario>(
    case: C,
    trace: &Trace,
    table: &C::Table,
    number: usize,
    step: &Step<C::Table>,
) -> Result<(), ErrorOf<C>> {
    let version = number as u64 + 1;
    let put_one = |key: u64| put(table, &case.key(key), &case.value(key, version), version).map(|_| ());
    let writes = matches!(step, Step::Put(_) | Step::Remove(_) | Step::PutAll(_) | Step::Batch(..));
    trace.as_thread(u32::from(!writes), || match step {
        Step::Put(key) => put_one(*key),
        Step::PutAll(keys) => keys.iter().try_for_each(|&key| put_one(key)),
        Step::Remove(key) => {
            remove(table, &case.key(*key));
            Ok(())
        }
        Step::Batch(puts, removes) => take_batch(case, table, (puts, removes), version),
        Step::Grow => table.grow(),
        Step::Shrink => table.shrink().map(|_| ()),
        Step::Defragment => table.defragment(&table.heap().begin_clearing(Clear::All)).map(|_| ()),
        Step::Vacate => {
            let clearing = table.heap().begin_clearing(Clear::All);
            table.vacate(&clearing, &mut clearing.blocks_in_use()).map(|_| ())
        }
        Step::Settle => {
            (0..4).for_each(|_| table.heap().reclaim());
            Ok(())
        }
        Step::Upkeep(upkeep) => upkeep(table),
    })
}

fn take_batch<C: Scenario>(
    case: C,
    table: &C::Table,
    (puts, removes): (&[u64], &[u64]),
    version: u64,
) -> Result<(), ErrorOf<C>> {
    loop {
        let numbers = puts.iter().chain(removes);
        let mut stage = table.stage(numbers.map(|&number| table.lock_key(&case.key(number))));
        for &number in removes {
            let seat = stage.seat(&case.key(number), table.lock_key(&case.key(number)));
            stage.remove(&seat);
        }
        let staged = puts.iter().try_for_each(|&number| {
            let key = case.key(number);
            let seat = stage.seat(&key, table.lock_key(&key));
            stage.put(&seat, &key, &case.value(number, version), version)
        });
        match staged {
            Err(error) if error.is_full() => {
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
    }
}

/// For each key, the step that wrote its value.
fn expected<T: Staging<Recorder>>(steps: &[Step<T>], count: usize) -> BTreeMap<u64, usize> {
    let mut items = BTreeMap::new();
    for (number, step) in steps.iter().enumerate().take(count) {
        match step {
            Step::Put(key) => {
                items.insert(*key, number);
            }
            Step::PutAll(keys) => items.extend(keys.iter().map(|&key| (key, number))),
            Step::Remove(key) => {
                items.remove(key);
            }
            Step::Batch(puts, removes) => {
                items.extend(puts.iter().map(|&key| (key, number)));
                items.retain(|key, _| !removes.contains(key));
            }
            Step::Grow | Step::Shrink | Step::Defragment | Step::Vacate | Step::Settle | Step::Upkeep(_) => {}
        }
    }
    items
}

/// Does all steps on recorded memory.
fn record<C: Scenario>(case: C, trace: &Trace) -> C {
    trace.pause();
    let memory = LabMemory::new(trace, case.chunks() * MIN_CHUNK, case.chunks() * MIN_CHUNK);
    let recorder = memory.recorder();
    let format = Format { store_id: [3; 16], chunk_size: MIN_CHUNK, hash_seed: 3 };
    let image = Image::format(Arc::new(memory), recorder, Path::new("lab"), &format, surroundings());
    let image = Arc::new(image.expect("an image"));
    image.begin(1).expect("begun");
    let heap = Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(())).expect("a heap");
    // Space that was used before is not empty.
    let dirty: Vec<u64> = std::iter::from_fn(|| heap.allocate_extent(1).ok()).collect();
    for &extent in &dirty {
        for word in 0..case.dirty_words() {
            image.store(extent + 8 * word, 0x0bad_cafe_1234_5678);
        }
    }
    dirty.into_iter().for_each(|extent| heap.free_extent(extent).expect("it was allocated"));
    if case.spared() == 0 {
        trace.resume();
    }
    let table = case.create(&Arc::new(heap)).unwrap_or_else(|error| panic!("{error}"));
    image.set_root(ROOT, Some(table.header())).expect("a root");
    trace.ack(0);
    for (number, step) in case.steps().iter().enumerate() {
        take(case, trace, &table, number, step).unwrap_or_else(|error| panic!("step {number}: {error}"));
        trace.ack(number as u64 + 1);
        if number + 1 == case.spared() {
            trace.resume();
        }
    }
    case.assert_meant(&table);
    case
}

/// The contents of a table: for each key the step that put it.
fn read<C: Scenario>(case: C, table: &C::Table) -> Result<BTreeMap<u64, usize>, String> {
    let mut items = BTreeMap::new();
    for key in 0..case.keys() {
        let Some((version, bytes)) = get(table, &case.key(key)) else { continue };
        if bytes != case.value(key, version) {
            return Err(format!("key {key} has version {version} with {bytes:?}"));
        }
        items.insert(key, version as usize - 1);
    }
    Ok(items)
}

/// The invariants after a crash.
fn check<C: Scenario>(case: C, reopen: &Reopen<'_>) -> Result<(), String> {
    let steps = case.steps();
    let text = |error: ErrorOf<C>| error.to_string();
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let attached = Image::attach(Arc::new(memory), recorder, Path::new("lab"), surroundings(), true);
    let image = Arc::new(attached.map_err(|error| error.to_string())?.image);
    let Some(header) = image.root(ROOT).map_err(|error| error.to_string())? else {
        return if reopen.acked().is_empty() { Ok(()) } else { Err("the table is gone".into()) };
    };
    let heap = Heap::recover::<ErrorOf<C>>(&image, HeapOptions::default(), |marker| {
        C::Table::mark(&image, marker, header)
    });
    let heap = Arc::new(heap.map_err(text)?);
    let table = reopen.trace().as_thread(2, || C::Table::attach(&heap, header)).map_err(text)?;
    let items = read(case, &table)?;
    let done = reopen.acked().len().saturating_sub(1);
    let (before, after) = (expected(&steps, done), expected(&steps, (done + 1).min(steps.len())));
    // Of a batch under way each key is as it was or as it will be.
    let good = |key: &u64| [&before, &after].iter().any(|expected| expected.get(key) == items.get(key));
    if let Some(bad) = (0..case.keys()).find(|key| !good(key)) {
        return Err(format!("key {bad}: {items:?} after {done} steps, not {before:?} or {after:?}"));
    }
    if table.len() != items.len() as u64 {
        return Err(format!("{} items counted, {} there", table.len(), items.len()));
    }
    let usage = heap.usage();
    if usage.used_blocks() != case.blocks(items.len() as u64) {
        return Err(format!("{} items, but in use are {usage}", items.len()));
    }
    if !table.inspection().map_err(text)?.is_clean() {
        return Err("an item lies where nobody looks, or is there twice".into());
    }
    let mut scanned = BTreeMap::new();
    table.scan_checked::<String>(1, |item| {
        let change = item.map_err(ToString::to_string)?;
        let number = (0..case.keys()).find(|&number| case.key(number) == change.key);
        scanned.insert(number.ok_or("a key that was never put")?, change.version as usize - 1);
        Ok(())
    })?;
    if scanned != items {
        return Err(format!("{items:?} found, but {scanned:?} scanned"));
    }
    // Work continues where it stopped, and is crashed in its turn.
    let count = if items == after { (done + 1).min(steps.len()) } else { done };
    for number in reopen.acked().len()..=count {
        reopen.ack(number as u64);
    }
    for (&key, &number) in items.range(case.put_again()) {
        take(case, reopen.trace(), &table, number, &Step::Put(key)).map_err(text)?;
    }
    for (number, step) in steps.iter().enumerate().skip(count).take(2) {
        take(case, reopen.trace(), &table, number, step).map_err(text)?;
        reopen.ack(number as u64 + 1);
    }
    let (found, wanted) = (read(case, &table)?, expected(&steps, (count + 2).min(steps.len())));
    match found == wanted {
        true => Ok(()),
        false => Err(format!("work after recovery: {found:?}, not {wanted:?}")),
    }
}

/// How many crashes are tried at each boundary, and how many of each recovery.
#[derive(Clone, Copy, Debug)]
pub struct Thoroughness {
    /// Crashes at each boundary.
    pub per_boundary: usize,
    /// Crashes of each recovery.
    pub per_recovery: usize,
}

impl Thoroughness {
    /// This thoroughness, or `full` if the environment requests it: see [`explores_fully`]. Less thorough means
    /// fewer of the things at risk taken alone and fewer random mixtures, by the explorer's seed; at every boundary
    /// nothing, everything and some of them alone stay.
    pub fn usual(self, full: Thoroughness) -> Thoroughness {
        if explores_fully() { full } else { self }
    }
}

/// Enough for most sites of a mutation gate.
const SMALL_SAMPLE: Thoroughness = Thoroughness { per_boundary: 6, per_recovery: 3 };

fn explorer(thoroughness: Thoroughness) -> Explorer {
    Explorer::new([
        Crash::Process,
        Crash::PowerPersistent(MemoryModel::X86Lines),
        Crash::PowerPersistent(MemoryModel::Words),
    ])
    .per_boundary(thoroughness.per_boundary)
    .per_recovery(thoroughness.per_recovery)
}

fn say(line: &str) {
    // Bypasses the test harness, which would hide it; an error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Crashes every scenario at every boundary.
///
/// # Panics
/// If a crash is not survived.
pub fn every_crash_is_survived<C: Scenario>(cases: impl IntoIterator<Item = C>, thoroughness: Thoroughness) {
    for case in cases {
        let trace = Trace::new();
        record(case, &trace);
        let exploration = explorer(thoroughness).explore(&trace, |reopen| check(case, reopen));
        say(&format!("explored a table, {}: {exploration}", case.name()));
        exploration.assert_clean();
    }
}

/// Drops every flush and fence whose name begins with the prefix, in turn. One scenario that notices is enough. Most sites are
/// noticed by a small sample of crashes; those that are not are dropped again and explored as thoroughly as requested.
///
/// # Panics
/// If none does.
pub fn every_missing_flush_and_fence_is_noticed<C: Scenario>(
    cases: impl IntoIterator<Item = C>,
    sites: &str,
    thoroughness: Thoroughness,
) {
    let cases: Vec<C> = cases.into_iter().collect();
    let (mut caught, mut missed) = (BTreeSet::new(), BTreeSet::<Site>::new());
    for (sample, thoroughness) in [SMALL_SAMPLE, thoroughness].into_iter().enumerate() {
        let again = (sample > 0).then(|| missed.clone());
        for &case in &cases {
            if again.is_some() && missed.is_empty() {
                break;
            }
            let gate = mutation_gate_of(
                &explorer(thoroughness),
                |site| {
                    let is_wanted = again.as_ref().is_none_or(|again| again.contains(&site));
                    is_wanted && site.name.starts_with(sites) && !caught.contains(&site)
                },
                |trace| record(case, trace),
                |case, reopen| check(*case, reopen),
            );
            gate.baseline.assert_clean();
            caught.extend(gate.caught);
            missed.extend(gate.missed);
            missed.retain(|site| !caught.contains(site));
        }
    }
    let of = caught.len() + missed.len();
    say(&format!("mutation gate of tables, {sites}: {} of {of} caught", caught.len()));
    assert!(of > 0 && missed.is_empty(), "not noticed when missing: {missed:?}");
}
