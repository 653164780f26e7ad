//! One table, two engines: what the CPU wrote the device reads, changes and moves, and back, in the middle of growing and
//! shrinking.

use std::sync::Arc;

use warpkeep_device::Device;
use warpkeep_gphash::{Geometry, Table};
use warpkeep_image::Coherent;

use crate::bench::{Bench, Dice, Model, Space, open};
use crate::rig::{Kind, get, heap, put, remove};

const KEYS: u64 = 300;

fn on_the_cpu(
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

/// Begins to move items, as soon as nobody goes by the levels before, and moves those of some buckets.
fn grow_a_little(table: &Table<Coherent>, buckets: u64) {
    table.begin_growth().unwrap();
    while !table.may_drain() {
        table.heap().reclaim();
        std::thread::yield_now();
    }
    table.maintain(buckets).unwrap();
    assert!(table.stats().growing);
}

/// Gives the device what the CPU has done, and lets it work.
fn on_the_device(
    device: &Device,
    table: Table<Coherent>,
    kind: Kind,
    state: (Model, u64),
    dice: &mut Dice,
) -> Bench {
    let mut bench = Bench::over(device, kind, table);
    (bench.model, bench.version) = state;
    bench.check(KEYS);
    bench.inspect();
    for _ in 0..3 {
        bench.batch(dice, KEYS, 40);
        bench.engine.turn().maintain(&bench.table, 2).unwrap();
        bench.check(KEYS);
        bench.inspect();
    }
    bench
}

pub(crate) fn growing_tables_go_from_hand_to_hand(device: &Device, space: Space) {
    let geometries = [Geometry::default(), Geometry::new(1, 4, 8).unwrap(), Geometry::new(4, 2, 4).unwrap()];
    for (seed, kind) in Kind::ALL.into_iter().enumerate() {
        let (mut dice, geometry) = (Dice(seed as u64), geometries[seed % geometries.len()]);
        let mut table = Table::create(&space(200), &spec(kind, geometry)).unwrap();
        let (mut model, mut version) = (Model::new(), 0);
        // The first two keys are the special ones where there are such.
        for number in [0, 1] {
            version += 1;
            put(&table, &kind.key(number), &kind.value(number, version), version).unwrap();
            model.insert(number, (version, kind.value(number, version)));
        }
        for round in 0..3 {
            on_the_cpu(&table, kind, &mut model, &mut dice, 120, &mut version);
            grow_a_little(&table, 1 + round);
            on_the_cpu(&table, kind, &mut model, &mut dice, 10, &mut version);
            let mut bench = on_the_device(device, table, kind, (model, version), &mut dice);
            if round == 1 {
                // Seen through by the device; otherwise the CPU gets it half done.
                bench.settle(3);
                assert!(!bench.table.stats().growing);
                bench.batch(&mut dice, KEYS, 40);
                bench.check(KEYS);
                bench.inspect();
            }
            version = bench.version;
            (_, table, model) = bench.reopened();
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

/// A table that has begun to shrink, and has moved nothing yet: as a crash would leave it.
fn shrinking(table: &Table<Coherent>) -> Table<Coherent> {
    std::thread::scope(|scope| {
        // Nothing is moved while somebody may go by the levels before.
        let pinned = table.heap().pin();
        let shrunk = scope.spawn(|| table.shrink().unwrap());
        while !table.stats().shrinking {
            assert!(!shrunk.is_finished(), "it is not too large");
            std::thread::yield_now();
        }
        let copy = crate::snapshot::image_of(&crate::snapshot::bytes_of(table.heap().image()), 150).unwrap();
        drop(pinned);
        open(&copy, table.header()).unwrap()
    })
}

pub(crate) fn shrinking_tables_go_from_hand_to_hand(device: &Device, _space: Space) {
    for (seed, kind) in Kind::ALL.into_iter().enumerate() {
        let mut dice = Dice(40 + seed as u64);
        let mut spec = spec(kind, Geometry::default());
        spec.capacity = 600;
        // In memory: a copy of a file that is in use is not to be trusted.
        let table = Table::create(&heap(200), &spec).unwrap();
        let (mut model, mut version) = (Model::new(), 0);
        on_the_cpu(&table, kind, &mut model, &mut dice, 150, &mut version);
        let table = shrinking(&table);
        assert!(table.stats().shrinking);
        on_the_cpu(&table, kind, &mut model, &mut dice, 10, &mut version);
        let bench = on_the_device(device, table, kind, (model, version), &mut dice);
        bench.settle(5);
        assert!(!bench.table.stats().shrinking);
        bench.check(KEYS);
        bench.inspect();
        let (kind, table, mut model) = bench.reopened();
        let mut version = version + 1000;
        on_the_cpu(&table, kind, &mut model, &mut dice, 50, &mut version);
        let image = Arc::clone(table.heap().image());
        let inspection = Table::inspect(&image, table.header()).unwrap();
        assert!(inspection.is_clean() && inspection.items == model.len() as u64, "{inspection:?}");
    }
}

/// The two 8-byte keys whose fingerprints mean something else lie in the header, wherever they were written.
pub(crate) fn special_keys_go_from_hand_to_hand(device: &Device, space: Space) {
    let kind = Kind::Inline;
    let table = Table::create(&space(200), &spec(kind, Geometry::default())).unwrap();
    put(&table, &kind.key(0), &kind.value(0, 1), 1).unwrap();
    let mut bench = Bench::over(device, kind, table);
    bench.model.insert(0, (1, kind.value(0, 1)));
    bench.version = 1;
    // The first is replaced and the second is new; a slot of the header is never full for its own key.
    assert!(bench.run(&bench.puts(0..6, 2)).is_empty());
    bench.check(8);
    bench.inspect();
    let mut rows = bench.puts(0..2, 3);
    rows.iter_mut().for_each(|row| row.op = warpkeep_core::Op::Delete);
    assert!(bench.run(&rows).is_empty());
    bench.check(8);
    assert!(bench.run(&bench.puts(0..2, 4)).is_empty());
    let (kind, table, mut model) = bench.reopened();
    assert!(remove(&table, &kind.key(1)));
    model.remove(&1);
    let mut bench = Bench::over(device, kind, table);
    bench.model = model;
    bench.version = 100;
    bench.check(8);
    bench.inspect();
}
