//! CPU and device alternate on one table: each reads, changes and moves the items of the other, while the table grows
//! or shrinks.

use std::sync::Arc;

use warpkeep_device::Device;
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;

use crate::harness::{Dice, Harness, Model, Space, open};
use crate::rig::{Kind, get, heap, put, remove};

const KEYS: u64 = 300;

fn write_on_the_cpu(
    table: &Table<Coherent>,
    kind: Kind,
    model: &mut Model,
    dice: &mut Dice,
    count: u64,
    version: &mut u64,
) {
    for _ in 0..count {
        let number = dice.below(KEYS);
        *version += 1;
        if dice.below(4) == 0 {
            assert_eq!(remove(table, &kind.key(number)), model.remove(&number).is_some(), "key {number}");
            continue;
        }
        let value = kind.value(number, *version);
        let is_new = put(table, &kind.key(number), &value, *version).unwrap();
        assert_eq!(is_new, model.insert(number, (*version, value)).is_none(), "key {number}");
    }
}

/// Begins a growth, waits until no reader uses the old levels, and moves the items of some buckets.
fn grow_a_little(table: &Table<Coherent>, buckets: u64) {
    table.begin_growth().unwrap();
    while !table.may_drain() {
        table.heap().reclaim();
        std::thread::yield_now();
    }
    table.maintain(buckets).unwrap();
    assert!(table.stats().growing);
}

/// Continues on a device with the table that the CPU has written.
fn work_on_the_device(
    device: &Device,
    table: Table<Coherent>,
    kind: Kind,
    state: (Model, u64),
    dice: &mut Dice,
) -> Harness {
    let mut harness = Harness::over(device, kind, table);
    (harness.model, harness.version) = state;
    harness.check(KEYS);
    harness.inspect();
    for _ in 0..3 {
        harness.batch(dice, KEYS, 40);
        harness.engine.write_lock().maintain(&harness.table, 2).unwrap();
        harness.check(KEYS);
        harness.inspect();
    }
    harness
}

pub(crate) fn cpu_and_device_alternate_on_a_growing_table(device: &Device, space: Space) {
    let geometries = [Geometry::default(), Geometry::new(1, 4, 8).unwrap(), Geometry::new(4, 2, 4).unwrap()];
    for (seed, kind) in Kind::ALL.into_iter().enumerate() {
        let (mut dice, geometry) = (Dice::new(seed as u64), geometries[seed % geometries.len()]);
        let mut table = Table::create(&space(200), &spec(kind, geometry)).unwrap();
        let (mut model, mut version) = (Model::new(), 0);
        // The first two keys are the special ones of some kinds.
        for number in [0, 1] {
            version += 1;
            put(&table, &kind.key(number), &kind.value(number, version), version).unwrap();
            model.insert(number, (version, kind.value(number, version)));
        }
        for round in 0..3 {
            write_on_the_cpu(&table, kind, &mut model, &mut dice, 120, &mut version);
            grow_a_little(&table, 1 + round);
            write_on_the_cpu(&table, kind, &mut model, &mut dice, 10, &mut version);
            let mut harness = work_on_the_device(device, table, kind, (model, version), &mut dice);
            if round == 1 {
                // In this round the device finishes the growth; in the others the CPU continues it.
                harness.finish_growth(3);
                assert!(!harness.table.stats().growing);
                harness.batch(&mut dice, KEYS, 40);
                harness.check(KEYS);
                harness.inspect();
            }
            version = harness.version;
            (_, table, model) = harness.reopened();
        }
        table.grow().unwrap();
        for (&number, item) in &model {
            assert_eq!(get(&table, &kind.key(number)).as_ref(), Some(item));
        }
    }
}

fn spec(kind: Kind, geometry: Geometry) -> warpkeep_gphash::TableSpec {
    let mut spec = kind.spec(geometry, 60);
    spec.merge = warpkeep_core::MergeRule::AddU64;
    spec
}

/// A table that has begun to shrink but moved nothing yet, as a crash would leave it.
fn shrinking(table: &Table<Coherent>) -> Table<Coherent> {
    std::thread::scope(|scope| {
        // The pinned epoch prevents moves.
        let pinned = table.heap().pin();
        let shrunk = scope.spawn(|| table.shrink().unwrap());
        while !table.stats().shrinking {
            assert!(!shrunk.is_finished(), "the table has shrunk without moves");
            std::thread::yield_now();
        }
        let copy = crate::snapshot::image_of(&crate::snapshot::bytes_of(table.heap().image()), 150).unwrap();
        drop(pinned);
        open(&copy, table.header()).unwrap()
    })
}

pub(crate) fn cpu_and_device_alternate_on_a_shrinking_table(device: &Device, _space: Space) {
    for (seed, kind) in Kind::ALL.into_iter().enumerate() {
        let mut dice = Dice::new(40 + seed as u64);
        let mut spec = spec(kind, Geometry::default());
        spec.capacity = 600;
        // In memory: a copy of a file in use is not reliable.
        let table = Table::create(&heap(200), &spec).unwrap();
        let (mut model, mut version) = (Model::new(), 0);
        write_on_the_cpu(&table, kind, &mut model, &mut dice, 150, &mut version);
        let table = shrinking(&table);
        assert!(table.stats().shrinking);
        write_on_the_cpu(&table, kind, &mut model, &mut dice, 10, &mut version);
        let harness = work_on_the_device(device, table, kind, (model, version), &mut dice);
        harness.finish_growth(5);
        assert!(!harness.table.stats().shrinking);
        harness.check(KEYS);
        harness.inspect();
        let (kind, table, mut model) = harness.reopened();
        let mut version = version + 1000;
        write_on_the_cpu(&table, kind, &mut model, &mut dice, 50, &mut version);
        let image = Arc::clone(table.heap().image());
        let inspection = Table::inspect(&image, table.header()).unwrap();
        assert!(inspection.is_clean() && inspection.items == model.len() as u64, "{inspection:?}");
    }
}

/// The two 8-byte keys whose fingerprints are reserved states have slots in the header, for both engines.
pub(crate) fn cpu_and_device_alternate_on_special_keys(device: &Device, space: Space) {
    let kind = Kind::Inline;
    let table = Table::create(&space(200), &spec(kind, Geometry::default())).unwrap();
    put(&table, &kind.key(0), &kind.value(0, 1), 1).unwrap();
    let mut harness = Harness::over(device, kind, table);
    harness.model.insert(0, (1, kind.value(0, 1)));
    harness.version = 1;
    // The first key is replaced and the second is new. The slots of the header are never occupied by other keys.
    assert!(harness.run(&harness.puts(0..6, 2)).is_empty());
    harness.check(8);
    harness.inspect();
    let mut rows = harness.puts(0..2, 3);
    rows.iter_mut().for_each(|row| row.op = warpkeep_core::Op::Delete);
    assert!(harness.run(&rows).is_empty());
    harness.check(8);
    assert!(harness.run(&harness.puts(0..2, 4)).is_empty());
    let (kind, table, mut model) = harness.reopened();
    assert!(remove(&table, &kind.key(1)));
    model.remove(&1);
    let mut harness = Harness::over(device, kind, table);
    harness.model = model;
    harness.version = 100;
    harness.check(8);
    harness.inspect();
}
