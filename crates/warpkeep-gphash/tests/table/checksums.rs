//! Checksums of records: damaged bytes are never returned as a value.

use std::io::Write as _;
use std::sync::Arc;

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_gphash::{Geometry, Table};
use warpkeep_record::{Damage, DamagedItem};
use warpkeep_suites::flips::no_flip_gives_out_another_item;

use crate::rig::{Kind, get, heap, put, spec};
use crate::tiles::{opened, reseal, states};

const CHECKSUMS: u64 = 0x10 << 8;

fn filled(kind: Kind, items: u64) -> Table<warpkeep_image::Coherent> {
    let table = Table::create(&heap(400), &kind.spec(Geometry::default(), items)).unwrap();
    for number in 0..items {
        put(&table, &kind.key(number), &kind.value(number, 1), number + 1).unwrap();
    }
    table
}

fn damaged(table: &Table<warpkeep_image::Coherent>) -> Vec<DamagedItem> {
    let mut damaged = Vec::new();
    let scan = table.scan_checked::<()>(1, |item| {
        damaged.extend(item.err().cloned());
        Ok(())
    });
    scan.unwrap();
    damaged
}

#[test]
fn no_flipped_bit_gives_out_another_item() {
    const FLIPS: u64 = 1500;
    for kind in [
        Kind::Packed,
        Kind::LongPacked,
        Kind::Tiled,
        Kind::OddTiled,
        Kind::LongTiled,
        Kind::Cells,
        Kind::TiledCells,
    ] {
        let table = filled(kind, 60);
        assert!(table.has_checksums());
        let summary = no_flip_gives_out_another_item(&table, FLIPS);
        writeln!(std::io::stdout().lock(), "flips of a table, gphash, {kind:?}: {summary:?}").unwrap();
        assert!(summary.told > FLIPS / 2, "{summary:?}");
    }
    // Keys in slots, with records that belong to them.
    let table = filled(Kind::Reference, 60);
    let summary = no_flip_gives_out_another_item(&table, FLIPS);
    writeln!(std::io::stdout().lock(), "flips of a table, gphash, Reference: {summary:?}").unwrap();
    assert!(summary.told > FLIPS / 2, "{summary:?}");
}

#[test]
fn damage_is_reported_with_its_key_and_slot() {
    let kind = Kind::Tiled;
    let table = filled(kind, 6);
    assert_eq!(damaged(&table), []);
    let (image, header) = (Arc::clone(table.heap().image()), table.header());
    for at in states(&image, header) {
        let word = image.load(at);
        let record = (word & ((1 << 45) - 1)) << 3;
        let value = record & !127;
        image.store(value, image.load(value) ^ 1);
        let found = damaged(&table);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(one.key_belongs && (0..6).any(|number| kind.key(number) == one.key), "{one}");
        assert_eq!((one.record, one.bucket + 8 * one.slot as u64), (Some(record), at));
        assert!(matches!(one.damage, Damage::Checksum { .. }), "{one}");
        image.store(value, image.load(value) ^ 1);
        // The intact record of another key.
        let other = states(&image, header).into_iter().find(|&other| other != at).unwrap();
        let mask = (1 << 45) - 1;
        image.store(at, word & !mask | image.load(other) & mask);
        let found = damaged(&table);
        assert_eq!(found.iter().map(|item| item.damage).collect::<Vec<_>>(), [Damage::Misplaced]);
        image.store(at, word & !mask | image.len() >> 3);
        assert_eq!(damaged(&table)[0].damage, Damage::NoRecord);
        image.store(at, word);
    }
    assert_eq!(damaged(&table), []);
}

#[test]
fn headers_say_whether_there_are_checksums_and_older_tables_have_none() {
    for (kind, has) in
        [(Kind::Packed, true), (Kind::Reference, true), (Kind::Inline, false), (Kind::Tiled, true)]
    {
        let table = filled(kind, 10);
        assert_eq!(table.has_checksums(), has, "{kind:?}");
        assert_eq!(table.heap().image().load(table.header() + 48) & CHECKSUMS != 0, has, "{kind:?}");
    }
    // A table of an older program has neither the flag nor the checksums: none is written, and none is checked.
    let any =
        spec(KeySpec::variable(40).unwrap(), ValueSpec::variable(200).unwrap(), Geometry::default(), 10);
    let table = Table::create(&heap(400), &any).unwrap();
    let (image, header) = (Arc::clone(table.heap().image()), table.header());
    reseal(&image, header, 48, image.load(header + 48) & !CHECKSUMS);
    drop(table);
    let table = opened(&image, header).unwrap();
    assert!(!table.has_checksums());
    put(&table, b"key", &[7; 100], 1).unwrap();
    assert_eq!(get(&table, b"key"), Some((1, vec![7; 100])));
    let record = (image.load(states(&image, header)[0]) & ((1 << 45) - 1)) << 3;
    let value = record + 16 + 8;
    image.store(value, image.load(value) ^ 1);
    assert_eq!(damaged(&table), [], "without a checksum damage is not detected");
}
