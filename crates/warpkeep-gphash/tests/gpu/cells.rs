//! Tables that keep keys of any length in cells: what is written straight through, and rows that are no cells. In other ways they are tried where
//! all kinds of tables are.

use std::sync::Arc;

use warpkeep_core::{Op, Status};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, GetRows, PublishBy, RowOps, StraightRows, WriteRows};
use warpkeep_gphash::{Geometry, Table, TableError};

use crate::bench::{Bench, Space, open};
use crate::rig::{Kind, put};
use crate::straight::{mirrored_of, mixed};

/// A test for each case, with a function that brings the device.
macro_rules! cells_cases {
    ($on:path) => {
        all_cases! {
            $on;
            cells: straight_batches_of_cells_do_what_a_map_does, rows_that_are_no_cells_are_told,
                tables_made_before_there_were_cells_are_read
        }
    };
}

pub(crate) fn straight_batches_of_cells_do_what_a_map_does(device: &Device, space: Space) {
    let words = [PublishBy::Device, PublishBy::Device, PublishBy::Host(2)];
    for (seed, (part, words)) in (400..).zip([None, Some(9), Some(9)].into_iter().zip(words)) {
        for kind in [Kind::Cells, Kind::TiledCells] {
            mixed(device, space, kind, Geometry::default(), seed, 12, (part, words));
        }
    }
}

/// Rows in device memory that are no cells, among those that are: nothing is written for them, and nothing is found.
pub(crate) fn rows_that_are_no_cells_are_told(device: &Device, space: Space) {
    for kind in [Kind::Cells, Kind::TiledCells] {
        let bench = mirrored_of(kind, device, space, Geometry::default(), 200);
        let good: Vec<u8> = (0..40).flat_map(|number| kind.key_row(number)).collect();
        let len = bench.table.key_row_len().unwrap();
        let (longest, mut rows) = (bench.table.key_spec().max_len(), good.clone());
        // Longer than keys may be; longer than the cell; something behind the key, in its word or in another.
        for (number, at, to) in
            [(1, len - 1, longest + 1), (2, len - 1, 255), (3, len - 2, 1), (4, kind.key(4).len(), 7)]
        {
            rows[number * len + at] = to as u8;
        }
        let values: Vec<u8> = (0..40).flat_map(|number| kind.value(number, 1)).collect();
        let (stream, values) = (device.stream().unwrap(), device.upload(&values).unwrap());
        let statuses = device.allocate_zeroed(40).unwrap();
        let (keys, good) = (device.upload(&rows).unwrap(), device.upload(&good).unwrap());
        let is_bad = |number: u64| (1..=4).contains(&number);
        let straight = StraightRows {
            op: Op::Put,
            count: 40,
            keys: keys.ptr(),
            values: values.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns are as long as the rows say, and nobody else has them.
        let wrote = unsafe { bench.engine.turn().write_straight(&bench.table, &straight, 1, &stream) };
        assert_eq!(wrote.unwrap().map(|wrote| (wrote.created, wrote.by_cpu)), Some((36, 0)));
        let told = |status: &[u8], good: Status| {
            (0..40).all(|number| {
                let expected = if is_bad(number) { Status::Malformed } else { good };
                status[number as usize] == expected as u8
            })
        };
        assert!(told(&statuses.to_vec().unwrap(), Status::Created), "{:?}", statuses.to_vec::<u8>());
        // The same, staged.
        let writes = WriteRows {
            count: 40,
            ops: RowOps::Uniform(Op::Put),
            keys: keys.ptr(),
            values: values.ptr(),
            arguments: DevicePtr::NULL,
        };
        {
            let mut turn = bench.engine.turn();
            // SAFETY: the same.
            let mut stage = unsafe { turn.stage_rows(&bench.table, &writes, 100, &stream).unwrap() };
            let statuses: Vec<u8> = stage.statuses().iter().map(|&status| status as u8).collect();
            assert!(told(&statuses, Status::Ok), "{statuses:?}");
            stage.publish().unwrap();
        }
        assert_eq!(bench.table.len(), 36);
        // What lies in the log, or is left to the CPU, is of keys alone.
        // SAFETY: the same.
        let copied = unsafe { bench.engine.copy_rows(&bench.table, &writes, &stream).unwrap() };
        for number in 0..40 {
            let key = copied.operation(number as usize).map(|operation| operation.key.to_vec());
            assert_eq!(key, (!is_bad(number)).then(|| kind.key(number)));
        }
        for (rows, found) in [(&keys, Status::NotFound), (&good, Status::NotFound)] {
            let gets = GetRows {
                count: 40,
                keys: rows.ptr(),
                statuses: statuses.ptr(),
                versions: DevicePtr::NULL,
                values: DevicePtr::NULL,
            };
            // SAFETY: the same.
            unsafe { bench.engine.get_rows(&bench.table, &gets, &stream).unwrap().finish().unwrap() };
            for (number, status) in (0..40).zip(statuses.to_vec::<u8>().unwrap()) {
                let expected = if is_bad(number) { found } else { Status::Ok };
                assert_eq!(status, expected as u8, "{number}");
            }
        }
        let inspection = Table::inspect(bench.table.heap().image(), bench.table.header()).unwrap();
        assert!(inspection.is_clean() && inspection.items == 36, "{inspection:?}");
    }
}

/// Their records say how long they are: the device reads them, and the CPU writes.
pub(crate) fn tables_made_before_there_were_cells_are_read(device: &Device, space: Space) {
    let kind = Kind::Cells;
    let made = Table::create(&space(200), &kind.spec(Geometry::default(), 100)).unwrap();
    let (image, header) = (Arc::clone(made.heap().image()), made.header());
    drop(made);
    // Nothing is in it yet, so nothing but its header says what it is.
    let word = image.load(header + 48);
    assert_ne!(word & 0x20 << 8, 0);
    image.store(header + 48, word & !(0x20 << 8));
    let mut bytes = [0; 48];
    image.read(header + 16, &mut bytes);
    image.store(header + 8, u64::from(crc32c::crc32c(&bytes)));
    let table = open(&image, header).unwrap();
    assert_eq!((table.key_cells(), table.key_row_len()), (None, None));
    for number in 0..60 {
        put(&table, &kind.key(number), &kind.value(number, 1), number + 1).unwrap();
    }
    let on_device = Arc::new(DeviceImage::new(device, table.heap().image()).unwrap());
    let engine = DeviceEngine::new(&on_device, &table).unwrap();
    assert!(!engine.writes(&table));
    assert!(matches!(engine.load_mirror(&table), Err(TableError::NotForDevices { .. })));
    let mut bench = Bench { kind, table, engine, image: on_device, model: Default::default(), version: 60 };
    bench.model.extend((0..60).map(|number| (number, (number + 1, kind.value(number, 1)))));
    bench.check_lookups(100);
    bench.inspect();
    bench.reopened();
}
