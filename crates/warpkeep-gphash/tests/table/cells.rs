//! Tables that store short variable keys in padded cells: their headers, damaged cells, and tables of older programs.

use std::sync::Arc;

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::{Coherent, Image};

use crate::rig::{Kind, get, heap, put, remove, spec_in};
use crate::tiles::{opened, reseal, states};

const CELLS: u64 = 0x20 << 8;
/// The flags of tiles and of cells.
const BITS: u64 = 0xe0 << 8;

fn variable(max: u32) -> KeySpec {
    KeySpec::variable(max).unwrap()
}

/// An empty table, closed.
fn made(key: KeySpec, value: ValueSpec) -> (Arc<Image<Coherent>>, u64) {
    let heap = heap(200);
    let spec = spec_in(Layout::Packed, key, value, Geometry::default(), 20);
    let table = Table::create(&heap, &spec).unwrap();
    (Arc::clone(heap.image()), table.header())
}

#[test]
fn headers_say_whether_keys_lie_in_cells() {
    let fixed = |len| ValueSpec::fixed(len).unwrap();
    for (key, value, row) in [
        (variable(7), fixed(8), Some(8)),
        (variable(24), fixed(100), Some(32)),
        (variable(63), fixed(256), Some(64)),
        // Keys too long, or records of variable length.
        (variable(64), fixed(8), None),
        (variable(24), ValueSpec::variable(100).unwrap(), None),
    ] {
        let (image, header) = made(key, value);
        let word = image.load(header + 48);
        assert_eq!(word & CELLS != 0, row.is_some(), "{key}, {value}");
        let table = opened(&image, header).unwrap();
        assert_eq!(table.key_row_len(), row);
        assert_eq!(
            table.key_cells().map(|cells| (cells.row_len(), cells.max_len())),
            row.map(|row| (row, key.max_len()))
        );
        drop(table);
        if row.is_none() {
            reseal(&image, header, 48, word | CELLS);
            let error = opened(&image, header).err().expect("such a table has no cells");
            assert!(error.to_string().contains("cells"), "{error}");
        }
    }
}

/// Older programs did not know cells: their records have a length field.
#[test]
fn tables_from_before_key_cells_stay_usable() {
    for value_len in [12, 128] {
        let (image, header) = made(variable(24), ValueSpec::fixed(value_len).unwrap());
        // The table is empty, so only its header has to change.
        reseal(&image, header, 48, image.load(header + 48) & !BITS);
        let value = |number: u64| vec![number as u8; value_len as usize];
        let mut table = opened(&image, header).unwrap();
        assert_eq!((table.key_cells(), table.key_row_len()), (None, None));
        for round in 0..3 {
            for number in 100 * round..100 * (round + 1) {
                put(&table, &Kind::Cells.key(number), &value(number), number + 1).unwrap();
            }
            assert!(remove(&table, &Kind::Cells.key(100 * round)));
            drop(table);
            let inspection = Table::inspect(&image, header).unwrap();
            assert!(inspection.is_clean() && inspection.items == 99 * (round + 1), "{inspection:?}");
            table = opened(&image, header).unwrap();
            for number in 0..100 * (round + 1) {
                let expected = (number % 100 != 0).then(|| (number + 1, value(number)));
                assert_eq!(get(&table, &Kind::Cells.key(number)), expected);
            }
        }
        assert_eq!(table.key_cells(), None);
    }
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let heap = heap(200);
    let table = Table::create(&heap, &Kind::Cells.spec(Geometry::default(), 20)).unwrap();
    for len in [25, 32, 64, 300] {
        let key = vec![0; len];
        assert_eq!(get(&table, &key), None);
        assert!(matches!(put(&table, &key, &[1; 16], 1), Err(TableError::Image(_))));
        assert!(!remove(&table, &key));
    }
    assert_eq!((table.len(), heap.usage().used_blocks()), (0, 2));
}

/// Changes each byte of each cell: nothing panics, no get returns the item for another key, and an inspection finds it.
#[test]
fn damaged_cells_are_noticed() {
    let kind = Kind::Cells;
    let heap = heap(200);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 20)).unwrap();
    let numbers = [0, 3, 24, 33, 70];
    for number in numbers {
        put(&table, &kind.key(number), &kind.value(number, 1), number + 1).unwrap();
    }
    let (image, header) = (Arc::clone(heap.image()), table.header());
    drop((table, heap));
    for state in states(&image, header) {
        let record = (image.load(state) & ((1 << 45) - 1)) << 3;
        let number = u64::from_le_bytes({
            let mut bytes = [0; 8];
            image.read(record, &mut bytes);
            bytes
        });
        for at in 0..32 {
            let word = record + 16 + at / 8 * 8;
            let good = image.load(word);
            for change in [0x01, 0x80, 0xff_u64] {
                image.store(word, good ^ change << (8 * (at % 8)));
                let inspection = Table::inspect(&image, header).unwrap();
                assert!(inspection.misplaced == 1 && inspection.items == 5, "{number}, {at}: {inspection:?}");
                let table = opened(&image, header).unwrap();
                assert_eq!(get(&table, &kind.key(number)), None, "{number}, {at}");
                let mut seen = 0;
                table
                    .scan(0, |change| {
                        assert!(change.key.len() <= 24);
                        seen += 1;
                        Ok::<(), TableError>(())
                    })
                    .unwrap();
                assert_eq!(seen, 5);
                drop(table);
                image.store(word, good);
            }
        }
    }
    assert!(Table::inspect(&image, header).unwrap().is_clean());
}
