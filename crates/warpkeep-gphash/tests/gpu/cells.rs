//! Tables that store short variable keys in padded cells: fused writes and malformed rows. The other tests run on these
//! tables among all kinds.

use std::sync::Arc;

use warpkeep_core::{Op, Status};
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::{DeviceEngine, DeviceImage, FusedRows, GetRows, PublishBy, RowOps, WriteRows};
use warpkeep_gphash::{Geometry, Table, TableError};

use crate::fused::{indexed_kind, mixed};
use crate::harness::{Harness, Space, open};
use crate::rig::{Kind, put};

/// A test for each case, run by a function that brings the device.
macro_rules! cells_cases {
    ($on:path) => {
        all_cases! {
            $on;
            cells:
                fused_writes_of_key_cells_agree_with_a_map, malformed_key_cells_are_reported,
                tables_from_before_key_cells_are_read
        }
    };
}

pub(crate) fn fused_writes_of_key_cells_agree_with_a_map(device: &Device, space: Space) {
    let publishers = [PublishBy::Device, PublishBy::Device, PublishBy::Host(2)];
    for (seed, (chunk, publish_by)) in (400..).zip([None, Some(9), Some(9)].into_iter().zip(publishers)) {
        for kind in [Kind::Cells, Kind::TiledCells] {
            mixed(device, space, kind, Geometry::default(), seed, 12, (chunk, publish_by));
        }
    }
}

/// Malformed cells among good ones: writes and gets skip them and report them.
pub(crate) fn malformed_key_cells_are_reported(device: &Device, space: Space) {
    for kind in [Kind::Cells, Kind::TiledCells] {
        let harness = indexed_kind(kind, device, space, Geometry::default(), 200);
        let good: Vec<u8> = (0..40).flat_map(|number| kind.key_row(number)).collect();
        let len = harness.table.key_row_len().unwrap();
        let (longest, mut rows) = (harness.table.key_spec().max_len(), good.clone());
        // Longer than keys may be; longer than the cell; nonzero padding, in the key's last word and in another.
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
        let fused = FusedRows {
            op: Op::Put,
            count: 40,
            keys: keys.ptr(),
            values: values.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns have forty rows and are used by this call only.
        let written = unsafe { harness.engine.write_lock().write_fused(&harness.table, &fused, 1, &stream) };
        assert_eq!(written.unwrap().map(|counts| (counts.created, counts.by_cpu)), Some((36, 0)));
        let are_expected = |statuses: &[u8], good: Status| {
            (0..40).all(|number| {
                let expected = if is_bad(number) { Status::Malformed } else { good };
                statuses[number as usize] == expected as u8
            })
        };
        assert!(are_expected(&statuses.to_vec().unwrap(), Status::Created), "{:?}", statuses.to_vec::<u8>());
        // The same in two phases.
        let writes = WriteRows {
            count: 40,
            ops: RowOps::Uniform(Op::Put),
            keys: keys.ptr(),
            values: values.ptr(),
            arguments: DevicePtr::NULL,
        };
        {
            let mut lock = harness.engine.write_lock();
            // SAFETY: the columns have forty rows, and live until the stage is dropped.
            let mut stage = unsafe { lock.stage_rows(&harness.table, &writes, 100, &stream).unwrap() };
            let statuses: Vec<u8> = stage.statuses().iter().map(|&status| status as u8).collect();
            assert!(are_expected(&statuses, Status::Ok), "{statuses:?}");
            stage.publish().unwrap();
        }
        assert_eq!(harness.table.len(), 36);
        // The log and the CPU get the keys without padding.
        // SAFETY: the columns have forty rows and are used by this call only.
        let copied = unsafe { harness.engine.copy_rows(&harness.table, &writes, &stream).unwrap() };
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
            // SAFETY: the columns have forty rows, and live until the reading has finished.
            unsafe { harness.engine.get_rows(&harness.table, &gets, &stream).unwrap().finish().unwrap() };
            for (number, status) in (0..40).zip(statuses.to_vec::<u8>().unwrap()) {
                let expected = if is_bad(number) { found } else { Status::Ok };
                assert_eq!(status, expected as u8, "{number}");
            }
        }
        let inspection = Table::inspect(harness.table.heap().image(), harness.table.header()).unwrap();
        assert!(inspection.is_clean() && inspection.items == 36, "{inspection:?}");
    }
}

/// Their records have a length field: the device reads them, and the CPU writes.
pub(crate) fn tables_from_before_key_cells_are_read(device: &Device, space: Space) {
    let kind = Kind::Cells;
    let made = Table::create(&space(200), &kind.spec(Geometry::default(), 100)).unwrap();
    let (image, header) = (Arc::clone(made.heap().image()), made.header());
    drop(made);
    // The table is empty, so only its header has to change.
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
    assert!(matches!(engine.build_index(&table), Err(TableError::NotForDevices { .. })));
    let mut harness =
        Harness { kind, table, engine, image: on_device, model: Default::default(), version: 60 };
    harness.model.extend((0..60).map(|number| (number, (number + 1, kind.value(number, 1)))));
    harness.check_lookups(100);
    harness.inspect();
    harness.reopened();
}
