//! Up against the wall: a full image, many rounds of deleting, tables larger than any image.

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::Coherent;
use warpkeep_record::{Budget, Kept as _, Lookup as _, Progress, Upkeep as _};

use crate::{Items, Subject, get, heap, put, remove, reopen, settled};

/// A full image refuses writes with an error, no process ends, and deletes make room.
///
/// # Panics
/// If anything is lost.
pub fn a_full_image_refuses_and_stays_good<S: Subject>(subject: S) {
    let heap = heap(60);
    let items = (KeySpec::U64, ValueSpec::fixed(1000).expect("a length"));
    let table: S::Table<Coherent> =
        subject.create(&heap, items, 3000).unwrap_or_else(|error| panic!("{error}"));
    let mut count = 0_u64;
    let error = loop {
        match put(&table, &count.to_le_bytes(), &[count as u8; 1000], 1) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("the image"), "{error}");
    assert!(count > 500);
    assert_eq!(table.len(), count);
    for key in 0..count {
        assert_eq!(get(&table, &key.to_le_bytes()), Some((1, vec![key as u8; 1000])));
    }
    for key in 0..200 {
        assert!(remove(&table, &u64::to_le_bytes(key)));
    }
    // Freed records are given back a little later: when no reader can hold them.
    assert!(settled(&heap, || put(&table, &u64::to_le_bytes(0), &[9; 1000], 2).is_ok()), "{}", heap.usage());
    for key in 0..50 {
        put(&table, &u64::to_le_bytes(key), &[9; 1000], 2).expect("there is room again");
    }
    drop(heap);
    let table = reopen(table);
    assert_eq!(table.len(), count - 150);
    assert!(table.inspection().expect("it can be read").is_clean());
}

/// Deleting and reinserting items for many rounds takes no more room than the first round.
///
/// # Panics
/// If it does.
pub fn deleting_and_reinserting_does_not_grow<S: Subject>(subject: S) {
    let items = Items::Rows;
    let heap = heap(4000);
    let table: S::Table<Coherent> =
        subject.create(&heap, items.specs(), 8000).unwrap_or_else(|error| panic!("{error}"));
    let slots = S::slots(&table);
    for round in 0..60_u64 {
        for key in 0..4000 {
            put(&table, &items.key(key + 4000 * round), &items.value(key, 1), 1).expect("there is room");
        }
        for key in 0..4000 {
            assert!(remove(&table, &items.key(key + 4000 * round)));
            if key % 100 == 0 {
                table.maintain(Budget::items(512)).expect("there is room");
            }
        }
        while table.maintain(Budget::items(512)).expect("there is room") == Progress::Working {}
    }
    assert!(table.is_empty());
    assert_eq!(S::slots(&table), slots);
}

/// Impossible tables are refused and leave nothing behind.
///
/// # Panics
/// If they are not.
pub fn a_table_beyond_any_image_is_refused_and_leaves_nothing_behind<S: Subject>(subject: S) {
    let heap = heap(2000);
    let before = heap.usage();
    for capacity in [1 << 40, 1 << 60, u64::MAX] {
        assert!(subject.create(&heap, Items::Rows.specs(), capacity).is_err(), "{capacity}");
    }
    assert_eq!((heap.usage().extents, heap.usage().used_blocks()), (before.extents, before.used_blocks()));
}
