//! Adverse input: colliding keys, full tables, damaged slots.

use warpkeep_core::{KeySpec, ValueSpec, unmix64};
use warpkeep_gphash::{Geometry, Inspection, Table, TableError};

use crate::rig::{Kind, default_spec, get, heap, put, remove, spec};

/// With one hash per key, keys whose hashes have the same upper half have the same buckets, however large the table is.
/// (With two hashes, such keys would have to be searched for.)
#[test]
fn colliding_keys_end_in_an_error_and_others_stay_intact() {
    let heap = heap(4000);
    let geometry = Geometry::new(2, 1, 16).unwrap();
    let spec = spec(KeySpec::U64, ValueSpec::fixed(16).unwrap(), geometry, 1000);
    let table = Table::create(&heap, &spec).unwrap();
    for key in 0..500_u64 {
        put(&table, &key.to_le_bytes(), &[1; 16], 1).unwrap();
    }
    let hostile = |number: u64| unmix64(spec.seed, 0x1234_5678_0000_0000 | number);
    let mut accepted = 0;
    let error = loop {
        match put(&table, &hostile(accepted).to_le_bytes(), &[2; 16], 2) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 10_000, "the table is never full");
    };
    assert!(matches!(error, TableError::Full), "{error}");
    assert!(error.to_string().contains("capacity"), "{error}");
    let chunks = heap.usage().chunks;
    assert!(chunks < 200, "the table kept doubling: {chunks} chunks");
    for number in 0..accepted {
        assert!(get(&table, &hostile(number).to_le_bytes()).is_some());
    }
    for key in 0..500_u64 {
        assert_eq!(get(&table, &key.to_le_bytes()), Some((1, vec![1; 16])));
        put(&table, &key.to_le_bytes(), &[3; 16], 3).unwrap();
    }
    for number in 0..accepted {
        assert!(remove(&table, &hostile(number).to_le_bytes()));
    }
    put(&table, &hostile(0).to_le_bytes(), &[4; 16], 4).unwrap();
}

#[test]
fn a_table_fills_to_the_paper_s_load_factor() {
    let heap = heap(200_000);
    let value = ValueSpec::fixed(8).unwrap();
    let table = Table::create(&heap, &spec(KeySpec::U64, value, Geometry::default(), 200_000)).unwrap();
    let mut key = 0_u64;
    // Until the first key without a free slot in levels and overflow.
    let full = loop {
        let lock = table.lock_key(&key.to_le_bytes());
        let mut stage = table.stage([lock]);
        let seat = stage.seat(&key.to_le_bytes(), lock);
        match stage.put(&seat, &key.to_le_bytes(), &[0; 8], 1) {
            Ok(()) => drop(stage.publish()),
            Err(TableError::Full) => break table.stats(),
            Err(error) => panic!("{error}"),
        }
        key += 1;
    };
    assert!(full.load_factor >= 0.92, "{full:?}");
}

/// An inspection finds items that no lookup reaches.
#[test]
fn an_inspection_finds_what_is_misplaced_or_doubled() {
    for kind in Kind::ALL {
        let heap = heap(2000);
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 500)).unwrap();
        for key in 0..400 {
            put(&table, &kind.key(key), &kind.value(key, 1), 1).unwrap();
        }
        let (image, header) = (std::sync::Arc::clone(heap.image()), table.header());
        let look = || Table::inspect(&image, header).unwrap();
        assert_eq!(look(), Inspection { items: 400, ..Inspection::default() }, "{kind:?}");
        // Copies a bucket over the next one, directly in the image.
        let top = image.load(image.load(header + 64) + 32 + 16);
        let bucket = kind.bucket_bytes();
        let (from, to) = (top, top + bucket);
        let before: Vec<u64> = (0..bucket / 8).map(|word| image.load(from + 8 * word)).collect();
        let items = before[..8].iter().filter(|&&state| state != 0).count() as u64;
        let overwritten = (0..8).filter(|slot| image.load(to + 8 * slot) != 0).count() as u64;
        for (word, value) in before.into_iter().enumerate() {
            image.store(to + 8 * word as u64, value);
        }
        let found = look();
        assert_eq!(found.items, 400 - overwritten + items, "{kind:?}");
        assert_eq!(found.misplaced, items, "{kind:?}");
        assert!(!found.is_clean());
    }
}

/// Space suffices for the first level but not for the second.
#[test]
fn a_table_that_does_not_fit_returns_its_space() {
    let heap = heap(2000);
    let before = heap.usage();
    let items = before.total_bytes().max(2000 * 32 * 1024) / 8 * 7 / 10;
    let refused = Table::create(&heap, &default_spec(items)).err().expect("there is not enough space");
    assert!(matches!(refused, TableError::Image(_)), "{refused}");
    assert_eq!(heap.usage().extents, before.extents);
}
