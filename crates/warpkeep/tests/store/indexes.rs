//! Stores whose tables have different indexes.

use std::path::Path;

use warpkeep::{
    Durability, Error, IndexKind, IndexOptions, KeySpec, Origin, Status, Store, StoreOptions, TableOptions,
    ValueSpec,
};

/// Both indexes in one store, through a crash of the process, a lost image, and a drop.
#[test]
fn tables_of_both_indexes_stand_side_by_side() {
    let home = tempfile::tempdir().unwrap();
    let mut store = Store::open(home.path()).unwrap();
    let options = |index| TableOptions::new(KeySpec::U64, ValueSpec::U64).capacity(10).index(index);
    for index in IndexKind::ALL {
        store.create_table(index.name(), options(index)).unwrap();
    }
    for round in 1..=4_u64 {
        for index in IndexKind::ALL {
            let table = store.table(index.name()).unwrap();
            assert_eq!((table.index(), table.geometry().is_some()), (index, index == IndexKind::GpHash));
            let mut batch = table.batch();
            for key in 0..500 {
                batch.fetch_add(key, key * round).unwrap();
            }
            assert_eq!(table.run(&batch, Durability::Power).unwrap().first_error(), None);
        }
        drop(store);
        if round == 2 {
            std::fs::remove_file(home.path().join("image")).unwrap();
        }
        let options = StoreOptions { abandon_image: round == 2, ..StoreOptions::default() };
        store = Store::open_with(home.path(), options).unwrap();
        let origin = if round == 2 { Origin::Rebuilt } else { Origin::Reattached };
        assert_eq!(store.report().origin, origin);
    }
    for index in IndexKind::ALL {
        let table = store.table(index.name()).unwrap();
        assert_eq!((table.index(), table.len()), (index, 500));
        for key in 0..500_u64 {
            assert_eq!(table.get(key).unwrap(), Some((key * 10).to_le_bytes().to_vec()), "{index}");
        }
    }
    store.drop_table("turbohash").unwrap();
    store.compact().unwrap();
    store.close().unwrap();
    assert_eq!(Store::open(home.path()).unwrap().tables(), ["gphash"]);
}

#[test]
fn a_number_of_shards_is_kept_or_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let shards =
        |shards| TableOptions::new(KeySpec::U64, ValueSpec::U64).index(IndexOptions::turbohash(shards));
    let refused = store.create_table("t", shards(u32::MAX)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("shards"), "{refused}");
    assert!(store.tables().is_empty());
    let table = store.create_table("t", shards(4)).unwrap();
    let warpkeep::TableStats::TurboHash(stats) = table.stats().unwrap() else {
        panic!("it has another index")
    };
    assert_eq!(stats.shards, 4);
}

/// Too many keys with one home: the error gives the remedy for such a table.
#[test]
fn a_full_turbohash_table_is_told_in_its_own_words() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).index(IndexOptions::turbohash(1));
    let table = store.create_table("t", options).unwrap();
    // The seed is in the image: a program that can read it can construct colliding keys.
    let seed = seed_of(home.path(), table.id());
    let hostile = |number: u64| warpkeep_core::unmix64(seed, number);
    let refused = (0..10_000).find_map(|number| table.put(hostile(number), 1, Durability::Process).err());
    let refused = refused.expect("somewhere it must end");
    assert!(matches!(refused, Error::TurboHash(_)), "{refused:?}");
    assert!(refused.to_string().contains("another seed or more capacity"), "{refused}");
    let mut batch = table.batch();
    batch.put(hostile(20_000), 1).unwrap();
    batch.put(7, 7).unwrap();
    let statuses = table.run(&batch, Durability::Process).unwrap();
    assert_eq!(statuses.statuses(), [Status::TableFull, Status::Created]);
}

/// The seed of a table's hashes, from the static header of the image.
fn seed_of(home: &Path, table: u32) -> warpkeep_core::Seed {
    let image = std::fs::read(home.join("image")).unwrap();
    let seed = u64::from_le_bytes(image[40..48].try_into().unwrap());
    warpkeep_core::Seed(seed).derive(u64::from(table))
}
