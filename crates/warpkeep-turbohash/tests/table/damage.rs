//! Damaged bytes give an error that names the fault; never a panic, never another table.

use std::sync::Arc;

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::{Coherent, Heap, HeapOptions, Image};
use warpkeep_turbohash::{Table, TableError};

use crate::rig::{Kind, get, heap, put, spec};

fn opened(image: &Arc<Image<Coherent>>, header: u64) -> Result<Table<Coherent>, TableError> {
    let heap = Heap::recover::<TableError>(image, HeapOptions::default(), |marker| {
        Table::mark(image, marker, header)
    })?;
    Table::attach(&Arc::new(heap), header)
}

#[test]
fn every_damaged_bit_of_header_and_directory_is_noticed() {
    let heap = heap(2000);
    let table = Table::create(&heap, &Kind::References.spec(3, 100)).unwrap();
    put(&table, &Kind::References.key(1), &Kind::References.value(1, 1), 1).unwrap();
    let (image, header) = (Arc::clone(heap.image()), table.header());
    drop((table, heap));
    let directory = image.load(header + 48);
    let words = (0..8).map(|word| header + 8 * word).chain((0..3).map(|shard| directory + 8 * shard));
    let mut refused = 0;
    for at in words {
        let good = image.load(at);
        for bit in 0..64 {
            image.store(at, good ^ 1 << bit);
            let error =
                opened(&image, header).err().unwrap_or_else(|| panic!("bit {bit} of the word at {at}"));
            assert!(matches!(error, TableError::Image(_)), "{error}");
            refused += 1;
        }
        image.store(at, good);
    }
    assert_eq!(refused, 64 * 11);
    let table = opened(&image, header).unwrap();
    assert!(get(&table, &Kind::References.key(1)).is_some());
    for nowhere in [0, 8, header + 8, header + 4, u64::MAX - 7, image.len()] {
        assert!(opened(&image, nowhere).is_err());
    }
}

#[test]
fn references_that_lead_nowhere_are_noticed() {
    let heap = heap(2000);
    let variable = spec(KeySpec::variable(40).unwrap(), ValueSpec::variable(200).unwrap(), 1, 10);
    for spec in [Kind::References.spec(1, 10), variable] {
        let table = Table::create(&heap, &spec).unwrap();
        put(&table, &7_u64.to_le_bytes(), &[1; 16], 1).unwrap();
        let (image, header) = (Arc::clone(heap.image()), table.header());
        let bucket = (image.load(image.load(header + 48)) & ((1 << 48) - 1)) >> 7 << 8;
        let slot = bucket + 32;
        assert_eq!(image.load(slot), table.lock_key(&7_u64.to_le_bytes()).bits(), "the first slot");
        let record = image.load(slot + 8);
        for wrong in [0, 8, 3, record + 1, header, image.len(), u64::MAX, 1 << 47] {
            image.store(slot + 8, wrong);
            let error = opened(&image, header).err().unwrap_or_else(|| panic!("a record at {wrong}"));
            assert!(matches!(error, TableError::Image(_)), "{error}");
        }
        image.store(slot + 8, record);
        // A slot that counts although it was never filled.
        let commit = image.load(bucket);
        image.store(bucket, commit | 1 << 9);
        assert!(opened(&image, header).is_err());
        image.store(bucket, commit);
        assert_eq!(opened(&image, header).unwrap().len(), 1);
    }
}

#[test]
fn names_that_no_record_of_a_tile_has_are_noticed() {
    let heap = heap(2000);
    let kind = Kind::Tiled;
    let table = Table::create(&heap, &kind.spec(1, 10)).unwrap();
    put(&table, &kind.key(6), &kind.value(6, 1), 1).unwrap();
    put(&table, &kind.key(7), &kind.value(7, 1), 2).unwrap();
    let (image, header) = (Arc::clone(heap.image()), table.header());
    let bucket = (image.load(image.load(header + 48)) & ((1 << 48) - 1)) >> 7 << 8;
    let slot = bucket + 32 + 16;
    assert_eq!(image.load(slot), table.lock_key(&kind.key(7)).bits(), "the second slot");
    drop((table, heap));
    let record = image.load(slot + 8);
    let (value, within) = (record & !127, record % 128 / 8);
    assert_eq!(within, 1, "the second of its tile");
    let numbers = (0..16).filter(|&other| other != within).map(|other| value + 8 * other);
    // Another line of the tile, the tails, another slab, and the first record, which has an item.
    let others = [value + 128 + 8, value - 128 + 512, header, record + 4, value - 128];
    for wrong in numbers.chain(others) {
        image.store(slot + 8, wrong);
        let error = opened(&image, header).err().unwrap_or_else(|| panic!("a record at {wrong}"));
        assert!(matches!(error, TableError::Image(_)), "{error}");
    }
    image.store(slot + 8, record);
    let table = opened(&image, header).unwrap();
    assert_eq!(get(&table, &kind.key(7)), Some((2, kind.value(7, 1))));
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for (kind, flag) in [(Kind::References, 0x80_u64), (Kind::Tiled, 0x80), (Kind::References, 0x40)] {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(1, 10)).unwrap();
        let (image, header) = (Arc::clone(heap.image()), table.header());
        drop((table, heap));
        for (at, wrong) in [(40, flag << 32), (40, 1 << 40), (56, 1)] {
            let good = image.load(header + at);
            let seal = |word: u64| {
                image.store(header + at, word);
                let mut bytes = [0; 48];
                image.read(header + 16, &mut bytes);
                image.store(header + 8, u64::from(crc32c::crc32c(&bytes)));
            };
            seal(good ^ wrong);
            let error =
                opened(&image, header).err().unwrap_or_else(|| panic!("{kind:?}: {wrong:#x} at {at}"));
            assert!(error.to_string().contains("newer") || error.to_string().contains("tiles"), "{error}");
            seal(good);
        }
        assert!(opened(&image, header).is_ok());
    }
}

/// The word determines which slots count, and opening the table relies on it: bits of slots that do not exist, of a
/// slot that is deleted and was never filled, of a bucket without a spare slot.
#[test]
fn commit_words_that_no_table_stores_are_noticed() {
    for kind in Kind::ALL {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(1, 10)).unwrap();
        (0..3).for_each(|key| assert!(put(&table, &kind.key(key), &kind.value(key, 1), 1).is_ok()));
        let (image, header) = (Arc::clone(heap.image()), table.header());
        let bucket = (image.load(image.load(header + 48)) & ((1 << 48) - 1)) >> 7 << 8;
        drop((table, heap));
        let good = image.load(bucket);
        let beyond = (kind.slots()..16).flat_map(|slot| [1 << slot, 1 << (16 + slot), 0x1_0001 << slot]);
        let never_filled = (3..kind.slots()).map(|slot| 1 << (16 + slot));
        for wrong in beyond.chain(never_filled) {
            image.store(bucket, good | wrong);
            let error = opened(&image, header).err().unwrap_or_else(|| panic!("{kind:?}: {wrong:#x}"));
            assert!(matches!(error, TableError::Image(_)), "{error}");
        }
        image.store(bucket, good | ((1 << kind.slots()) - 1));
        assert!(opened(&image, header).is_err(), "{kind:?}: no slot to spare");
        image.store(bucket, good);
        let table = opened(&image, header).unwrap();
        // Later damage makes no reader or writer fail.
        image.store(bucket, good | 0xffff_ffff & !0x7_0007);
        let mut seen = 0;
        table
            .scan(1, |_| {
                seen += 1;
                Ok::<(), ()>(())
            })
            .unwrap();
        assert_eq!(seen, 3, "{kind:?}");
        (0..3).for_each(|key| assert!(get(&table, &kind.key(key)).is_some()));
        image.store(bucket, good | ((1 << kind.slots()) - 1));
        // A writer that finds no slot to spare gives an error, or builds the shard anew and is right.
        if put(&table, &kind.key(1), &kind.value(1, 2), 2).is_ok() {
            assert_eq!(get(&table, &kind.key(1)), Some((2, kind.value(1, 2))), "{kind:?}: no slot to spare");
        }
    }
}
