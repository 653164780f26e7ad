//! Doubling a table, without and with concurrent users.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
use warpkeep_gphash::{Geometry, Layout, Progress as Growing, Table, TableError, TableSpec};
use warpkeep_image::{Coherent, CreateOptions, Heap, HeapOptions, Image};

use super::waits::{Scheduler, Waits};
use super::{add_waits, case_name};
use crate::compare::warpkeep_image_bytes;
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{Amount, BenchError, Progress, pinned};

/// Buckets drained at a time, as in the background thread of a store.
const SLICE: u64 = 256;
/// Puts at a time while a table is filled.
const BLOCK: u64 = 64;
/// Operations before the growth, to compare with.
const CALM: u64 = 100_000;
/// One put in this many is an insert.
const INSERT_SHARE: u64 = 3;

/// Bytes of an image whose table doubles twice, and takes inserts meanwhile.
pub(super) fn image_bytes(workload: &Workload) -> u64 {
    warpkeep_image_bytes(workload) + workload.items * 8 * 12
}

pub(super) fn run(
    workload: &Workload,
    scratch: &Scratch,
    repeat: u32,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let case = case_name(workload.items);
    for under_load in [false, true] {
        let directory = scratch.fresh_image()?;
        let table = filled(workload, directory.path(), progress)?;
        progress.begin(&format!("{case}: growing"), Amount::Count(1));
        match under_load {
            false => {
                let begun = Instant::now();
                table.grow()?;
                let seconds = begun.elapsed().as_secs_f64();
                report.add(&case, "alone", repeat, "seconds", Unit::Seconds, seconds);
                report.add(
                    &case,
                    "alone",
                    repeat,
                    "items a second",
                    Unit::PerSecond,
                    workload.items as f64 / seconds,
                );
            }
            true => {
                let (calm_gets, calm_puts, _) =
                    use_table(workload, &table, workload.items, |done| done >= CALM)?;
                add_waits(report, &case, "before", repeat, "get", &calm_gets);
                add_waits(report, &case, "before", repeat, "put", &calm_puts);
                let (seconds, gets, puts) = grow_under_load(workload, &table)?;
                report.add(&case, "under load", repeat, "seconds", Unit::Seconds, seconds);
                add_waits(report, &case, "under load", repeat, "get", &gets);
                add_waits(report, &case, "under load", repeat, "put", &puts);
            }
        }
        progress.finish();
        check(workload, &table)?;
    }
    Ok(())
}

/// A table with all items, at the load that it was made for.
fn filled(
    workload: &Workload,
    directory: &std::path::Path,
    progress: &dyn Progress,
) -> Result<Table<Coherent>, BenchError> {
    progress.begin(&format!("{}: filling", case_name(workload.items)), Amount::Count(workload.items));
    let create = CreateOptions { len: image_bytes(workload), ..CreateOptions::default() };
    let image = Arc::new(Image::create(&directory.join("image"), Coherent, &create)?);
    image.begin(1)?;
    let heap = Arc::new(Heap::recover::<TableError>(&image, HeapOptions::default(), |_| Ok(()))?);
    let spec = TableSpec {
        key: KeySpec::U64,
        value: ValueSpec::fixed(workload.value_bytes as u32).map_err(warpkeep::Error::from)?,
        geometry: Geometry::default(),
        capacity: workload.items,
        layout: Layout::Packed,
        merge: MergeRule::None,
        seed: Seed(workload.seed),
    };
    let table = Table::create(&heap, &spec)?;
    for first in (0..workload.items).step_by(BLOCK as usize) {
        if first.is_multiple_of(BLOCK * 1024) {
            progress.check()?;
        }
        let numbers = first..(first + BLOCK).min(workload.items);
        progress.advance(numbers.end - numbers.start);
        put(workload, &table, numbers, 0)?;
    }
    progress.finish();
    Ok(table)
}

fn put(
    workload: &Workload,
    table: &Table<Coherent>,
    numbers: std::ops::Range<u64>,
    generation: u64,
) -> Result<(), BenchError> {
    let mut value = vec![0; workload.value_bytes];
    let mut key = [0; 8];
    let lock = |number: u64| {
        let mut key = [0; 8];
        workload.write_key(number, &mut key);
        table.lock_key(&key)
    };
    loop {
        let mut stage = table.stage(numbers.clone().map(lock));
        let staged = numbers.clone().try_for_each(|number| {
            workload.write_key(number, &mut key);
            workload.write_value(number, generation, &mut value);
            let seat = stage.seat(&key, lock(number));
            stage.put(&seat, &key, &value, generation + 1)
        });
        match staged {
            Ok(()) => {
                stage.publish();
                return Ok(());
            }
            Err(TableError::Full) => {
                let seen = stage.seen();
                drop(stage);
                table.make_room(seen)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gets, updates and inserts in turn, each timed, until asked to stop; returns latencies of gets and of puts, and
/// the number after the last one inserted.
fn use_table(
    workload: &Workload,
    table: &Table<Coherent>,
    first_insert: u64,
    stop: impl Fn(u64) -> bool,
) -> Result<(Waits, Waits, u64), BenchError> {
    let (mut gets, mut puts) = (Waits::new(), Waits::new());
    let mut scheduler = Scheduler::watch();
    let mut row = vec![0; workload.value_bytes];
    let mut next_insert = first_insert;
    for (done, number) in workload.draws(7).enumerate() {
        let done = done as u64;
        if stop(done) {
            break;
        }
        let mut key = [0; 8];
        workload.write_key(number, &mut key);
        let begun = Instant::now();
        if done.is_multiple_of(2) {
            let found = table.get(&key, |value| value.copy_to(&mut row));
            gets.record(begun.elapsed(), scheduler.preempted());
            if found.is_none() || !workload.is_of(number, &row) {
                return Err(BenchError::Wrong(format!("item {number} is gone while its table grows")));
            }
            continue;
        }
        // Few inserts, so that this growth is timed and not the next one.
        let number = match (done / 2).is_multiple_of(INSERT_SHARE) && next_insert < workload.items * 11 / 10 {
            true => {
                next_insert += 1;
                next_insert - 1
            }
            false => number,
        };
        put(workload, table, number..number + 1, 1)?;
        puts.record(begun.elapsed(), scheduler.preempted());
    }
    Ok((gets, puts, next_insert))
}

fn grow_under_load(workload: &Workload, table: &Table<Coherent>) -> Result<(f64, Waits, Waits), BenchError> {
    let grown = AtomicBool::new(false);
    // The calm operations have inserted, too.
    let first_insert = table.len();
    std::thread::scope(|scope| {
        // A small table has doubled before a thread is awake: at least some operations are timed.
        let user = scope.spawn(|| {
            pinned::to_core(1);
            use_table(workload, table, first_insert, |done| done >= 1000 && grown.load(Ordering::Acquire))
        });
        let growth = || -> Result<f64, BenchError> {
            let begun = Instant::now();
            table.begin_growth()?;
            while matches!(table.maintain(SLICE)?, Growing::Working | Growing::Busy) {
                std::thread::yield_now();
            }
            Ok(begun.elapsed().as_secs_f64())
        };
        let seconds = growth();
        // Also after an error, or the other thread would go on for ever.
        grown.store(true, Ordering::Release);
        let used = user.join().map_err(|_| BenchError::Wrong("a thread panicked".to_owned()))?;
        let (gets, puts, _) = used?;
        Ok((seconds?, gets, puts))
    })
}

/// Whether all items are there.
fn check(workload: &Workload, table: &Table<Coherent>) -> Result<(), BenchError> {
    let mut row = vec![0; workload.value_bytes];
    let wrong = (0..workload.items).step_by((workload.items / 10_000).max(1) as usize).find(|&number| {
        let mut key = [0; 8];
        workload.write_key(number, &mut key);
        table.get(&key, |value| value.copy_to(&mut row)).is_none() || !workload.is_of(number, &row)
    });
    match wrong {
        None => Ok(()),
        Some(number) => Err(BenchError::Wrong(format!("item {number} is gone after its table has grown"))),
    }
}
