//! A device that is lost within each kernel that writes. The CPU takes the table over at once, or the next opening
//! recovers it.

use std::collections::BTreeSet;

use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_image::Coherent;
use warpkeep_suites::device::report;

use crate::crash::{KEYS, begin_growth, check_whole, filled, outgoing};
use crate::harness::{Harness, Model, batch_of, reopened};
use crate::rig::{Kind, get, put, remove};

/// The kernel within which the device is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    Stage,
    Publish,
    Drain,
}

struct Outcome {
    table: Table<Coherent>,
    model: Model,
    result: Result<(), TableError>,
    /// The steps, counted from the launch, at which a store reached the image.
    arrivals: BTreeSet<u64>,
}

/// Runs one kind of kernel on a table and loses the device after `after` steps of it, or not at all.
fn lost(kind: Kind, during: During, after: Option<u64>) -> Outcome {
    let device = Device::simulated(Mode::seeded(5)).unwrap();
    let (table, model) = filled(kind, Geometry::default(), 1, 28);
    if during == During::Drain {
        begin_growth(&table);
    }
    let mut harness = Harness::over(&device, kind, table);
    harness.model = model;
    // Some keys are present and some are new; not all of the new ones find a slot.
    let mut rows = harness.puts(20..34, 77);
    rows[3].op = warpkeep_core::Op::Delete;
    let simulator = device.simulator().unwrap();
    let now = || device.last_run().map_or(0, |report| report.now);
    let begin;
    let result = if during == During::Drain {
        begin = now();
        simulator.crash_at(after.map(|steps| begin + steps));
        let buckets = outgoing(&harness.table);
        harness.engine.write_lock().maintain(&harness.table, buckets).map(|_| ())
    } else {
        let batch = batch_of(&rows);
        let mut lock = harness.engine.write_lock();
        if during == During::Stage {
            begin = now();
            simulator.crash_at(after.map(|steps| begin + steps));
            lock.stage(&harness.table, &batch, 100).map(|_| ())
        } else {
            let mut stage = lock.stage(&harness.table, &batch, 100).unwrap();
            for (index, row) in rows.iter().enumerate() {
                match stage.change(index) {
                    None => {}
                    Some(true) => drop(harness.model.remove(&row.number)),
                    Some(false) => {
                        harness.model.insert(row.number, (100 + index as u64, row.value.clone()));
                    }
                }
            }
            begin = now();
            simulator.crash_at(after.map(|steps| begin + steps));
            stage.publish()
        }
    };
    let log = simulator.take_store_log();
    let arrivals = log.iter().filter_map(|store| store.arrived?.checked_sub(begin)).collect();
    let Harness { table, engine, image, model, .. } = harness;
    drop((engine, image));
    Outcome { table, model, result, arrivals }
}

fn check(table: &Table<Coherent>, kind: Kind, model: &Model) {
    for number in 0..KEYS {
        assert_eq!(get(table, &kind.key(number)).as_ref(), model.get(&number), "key {number}");
    }
    assert_eq!(table.len(), model.len() as u64);
}

/// Works on the table with the CPU.
fn continue_on_the_cpu(table: &Table<Coherent>, kind: Kind, model: &mut Model) {
    check(table, kind, model);
    for number in (0..KEYS).step_by(3) {
        put(table, &kind.key(number), &kind.value(number, 500), 500).unwrap();
        model.insert(number, (500, kind.value(number, 500)));
        assert_eq!(remove(table, &kind.key(number + 1)), model.remove(&(number + 1)).is_some());
    }
    check(table, kind, model);
    // No removed item reappears when the others move.
    table.grow().unwrap();
    check(table, kind, model);
    table.grow().unwrap();
    check(table, kind, model);
}

/// Loses a device after every store to the image, and continues without it.
pub(crate) fn losses(during: During) {
    let mut count = 0;
    for kind in Kind::ALL {
        let whole_run = lost(kind, during, None);
        whole_run.result.unwrap();
        // The last store ends the launch, so the device cannot be lost after it.
        let mut points = whole_run.arrivals;
        points.pop_last();
        for after in points {
            for at_once in [true, false] {
                let Outcome { mut table, mut model, result, .. } = lost(kind, during, Some(after));
                let error = result.expect_err("the device is lost");
                assert!(matches!(error, TableError::Device(DeviceError::Lost { .. })), "{error}");
                if at_once {
                    table.take_over();
                    table.release_from_device();
                    continue_on_the_cpu(&table, kind, &mut model);
                }
                table = reopened(table);
                check_whole(&table, kind, &model)
                    .unwrap_or_else(|what| panic!("{kind:?} after {after}: {what}"));
                if !at_once {
                    continue_on_the_cpu(&table, kind, &mut model);
                }
                count += 1;
            }
        }
    }
    report(&format!("{during:?}: {count} devices lost"));
}
