//! Records have checksums: bytes that were not written are never returned as a value.

use std::io::Write as _;

use warpkeep_record::{Damage, DamagedItem};
use warpkeep_suites::flips::no_flip_gives_out_another_item;
use warpkeep_turbohash::Table;

use crate::rig::{Kind, heap, put};

fn filled(kind: Kind, items: u64) -> Table<warpkeep_image::Coherent> {
    let table = Table::create(&heap(400), &kind.spec(1, items)).unwrap();
    for number in 0..items {
        put(&table, &kind.key(number), &kind.value(number, 1), number + 1).unwrap();
    }
    table
}

fn damaged(table: &Table<warpkeep_image::Coherent>) -> Vec<DamagedItem> {
    let mut damaged = Vec::new();
    let looked = table.scan_checked::<()>(1, |item| {
        damaged.extend(item.err().cloned());
        Ok(())
    });
    looked.unwrap();
    damaged
}

#[test]
fn no_flipped_bit_gives_out_another_item() {
    const FLIPS: u64 = 1500;
    for kind in [Kind::References, Kind::Keyed, Kind::Variable, Kind::Tiled] {
        let table = filled(kind, 60);
        assert!(table.has_checksums());
        let came = no_flip_gives_out_another_item(&table, FLIPS);
        writeln!(std::io::stdout().lock(), "flips of a table, turbohash, {kind:?}: {came:?}").unwrap();
        assert!(came.told > FLIPS / 2, "{came:?}");
    }
    assert!(!filled(Kind::Values, 1).has_checksums());
}

#[test]
fn what_is_damaged_is_told_with_its_key_and_place() {
    let kind = Kind::References;
    let table = filled(kind, 3);
    assert_eq!(damaged(&table), []);
    let image = table.heap().image();
    let bucket = (image.load(image.load(table.header() + 48)) & ((1 << 48) - 1)) >> 7 << 8;
    for slot in 0..3 {
        let reference = bucket + 32 + 16 * slot + 8;
        let record = image.load(reference);
        image.store(record, image.load(record) ^ 1 << 40);
        let found = damaged(&table);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(one.key_belongs && (0..3).any(|number| kind.key(number) == one.key), "{one}");
        assert_eq!((one.record, one.bucket, one.slot as u64), (Some(record), bucket, slot));
        assert!(matches!(one.damage, Damage::Checksum { .. }), "{one}");
        image.store(record, image.load(record) ^ 1 << 40);
        // The record of another key; records here hold no key, so only the checksum shows it.
        image.store(reference, image.load(bucket + 32 + 16 * ((slot + 1) % 3) + 8));
        assert!(matches!(damaged(&table)[0].damage, Damage::Checksum { .. }));
        image.store(reference, image.len());
        assert_eq!(damaged(&table)[0].damage, Damage::NoRecord);
        image.store(reference, record);
        // Another hash, and another tag.
        for (at, bit) in [(reference - 8, 60), (bucket + 8, 8 * slot)] {
            image.store(at, image.load(at) ^ 1 << bit);
            assert_eq!(damaged(&table).len(), 1, "slot {slot}, the word at {at}");
            image.store(at, image.load(at) ^ 1 << bit);
        }
    }
    assert_eq!(damaged(&table), []);
}
