//! A device that is lost, in the middle of each kernel that writes: the CPU takes the table over at once, or whoever opens it next.

use std::collections::BTreeSet;

use warpkeep_device::{Device, DeviceError, Mode};
use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_image::Coherent;

use crate::bench::{Bench, Model, batch_of, reopened, tell};
use crate::crash::{KEYS, begin_growth, filled, outgoing, whole};
use crate::rig::{Kind, get, put, remove};

/// What the device is doing when it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum During {
    Stage,
    Publish,
    Drain,
}

struct Outcome {
    table: Table<Coherent>,
    model: Model,
    done: Result<(), TableError>,
    arrivals: BTreeSet<u64>,
}

/// A table with a device that does one thing; it is lost after so many steps of it, or not at all. Gives the table, what it must hold,
/// what came of it, and the steps at which a store reached the image.
fn lost(kind: Kind, during: During, after: Option<u64>) -> Outcome {
    let device = Device::simulated(Mode::seeded(5)).unwrap();
    let (table, model) = filled(kind, Geometry::default(), 1, 28);
    if during == During::Drain {
        begin_growth(&table);
    }
    let mut bench = Bench::over(&device, kind, table);
    bench.model = model;
    // Some replaced, some new: not all of these find a place.
    let mut rows = bench.puts(20..34, 77);
    rows[3].op = warpkeep_core::Op::Delete;
    let simulator = device.simulator().unwrap();
    let now = || device.last_run().map_or(0, |report| report.now);
    let began;
    let done = if during == During::Drain {
        began = now();
        simulator.crash_at(after.map(|steps| began + steps));
        let buckets = outgoing(&bench.table);
        bench.engine.turn().maintain(&bench.table, buckets).map(|_| ())
    } else {
        let batch = batch_of(&rows);
        let mut turn = bench.engine.turn();
        if during == During::Stage {
            began = now();
            simulator.crash_at(after.map(|steps| began + steps));
            turn.stage(&bench.table, &batch, 100).map(|_| ())
        } else {
            let mut stage = turn.stage(&bench.table, &batch, 100).unwrap();
            for (index, row) in rows.iter().enumerate() {
                match stage.change(index) {
                    None => {}
                    Some(true) => drop(bench.model.remove(&row.number)),
                    Some(false) => {
                        bench.model.insert(row.number, (100 + index as u64, row.value.clone()));
                    }
                }
            }
            began = now();
            simulator.crash_at(after.map(|steps| began + steps));
            stage.publish()
        }
    };
    let log = simulator.take_store_log();
    let arrivals = log.iter().filter_map(|store| store.arrived?.checked_sub(began)).collect();
    let Bench { table, engine, image, model, .. } = bench;
    drop((engine, image));
    Outcome { table, model, done, arrivals }
}

fn has(table: &Table<Coherent>, kind: Kind, model: &Model) {
    for number in 0..KEYS {
        assert_eq!(get(table, &kind.key(number)).as_ref(), model.get(&number), "key {number}");
    }
    assert_eq!(table.len(), model.len() as u64);
}

/// Goes on with the CPU.
fn go_on(table: &Table<Coherent>, kind: Kind, model: &mut Model) {
    has(table, kind, model);
    for number in (0..KEYS).step_by(3) {
        put(table, &kind.key(number), &kind.value(number, 500), 500).unwrap();
        model.insert(number, (500, kind.value(number, 500)));
        assert_eq!(remove(table, &kind.key(number + 1)), model.remove(&(number + 1)).is_some());
    }
    has(table, kind, model);
    // Moved and changed once more, nothing comes back.
    table.grow().unwrap();
    has(table, kind, model);
    table.grow().unwrap();
    has(table, kind, model);
}

/// Loses a device at every step that brings something to the image, and goes on each time.
pub(crate) fn losses(during: During) {
    let mut count = 0;
    for kind in Kind::ALL {
        let whole_run = lost(kind, during, None);
        whole_run.done.unwrap();
        // Just after a store, and before the next: a step that brings the last ends the launch.
        let mut points = whole_run.arrivals;
        points.pop_last();
        for after in points {
            for at_once in [true, false] {
                let Outcome { mut table, mut model, done, .. } = lost(kind, during, Some(after));
                let error = done.expect_err("the power went");
                assert!(matches!(error, TableError::Device(DeviceError::Lost { .. })), "{error}");
                if at_once {
                    table.take_over();
                    go_on(&table, kind, &mut model);
                }
                table = reopened(table);
                whole(&table, kind, &model).unwrap_or_else(|what| panic!("{kind:?} after {after}: {what}"));
                if !at_once {
                    go_on(&table, kind, &mut model);
                }
                count += 1;
            }
        }
    }
    tell(&format!("{during:?}: {count} devices lost"));
}
