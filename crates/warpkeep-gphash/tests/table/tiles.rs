//! Tables with records in tiles: headers and slot words are checked before they are used.

use std::sync::Arc;

use warpkeep_core::ValueSpec;
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::{Clear, Coherent, Heap, HeapOptions, Image};

use crate::rig::{Kind, get, heap, put, remove, spec_in};

const TILED: u64 = 0x80 << 8;
const CLOSE: u64 = 0x40 << 8;

pub(crate) fn opened(image: &Arc<Image<Coherent>>, header: u64) -> Result<Table<Coherent>, TableError> {
    let heap = Heap::recover::<TableError>(image, HeapOptions::default(), |marker| {
        Table::mark(image, marker, header)
    })?;
    Table::attach(&Arc::new(heap), header)
}

/// Stores a word of a header, and the new checksum.
pub(crate) fn reseal(image: &Image<Coherent>, header: u64, at: u64, word: u64) {
    image.store(header + at, word);
    let mut bytes = [0; 48];
    image.read(header + 16, &mut bytes);
    image.store(header + 8, u64::from(crc32c::crc32c(&bytes)));
}

/// The offsets of the states that are not empty.
pub(crate) fn states(image: &Image<Coherent>, header: u64) -> Vec<u64> {
    let levels = image.load(header + 64);
    // The overflow, and two levels of buckets of eight.
    let runs = (0..3).map(|run| levels + 32 + 16 * run);
    let words = runs.flat_map(|run| (0..8 * image.load(run + 8)).map(move |word| (run, word)));
    words.map(|(run, word)| image.load(run) + 8 * word).filter(|&at| image.load(at) != 0).collect()
}

#[test]
fn headers_say_whether_records_lie_in_tiles() {
    let value = |len| ValueSpec::fixed(len).unwrap();
    let keys = [warpkeep_core::KeySpec::U64, warpkeep_core::KeySpec::fixed(128).unwrap()];
    for (layout, key, len, tiled) in [
        (Layout::Packed, keys[0], 128, true),
        (Layout::Packed, keys[0], 384, true),
        (Layout::InPlace, keys[0], 128, true),
        (Layout::InPlace, keys[1], 128, true),
        // Tails longer than a line gain nothing.
        (Layout::Packed, keys[1], 128, false),
        (Layout::Packed, keys[0], 120, false),
        (Layout::Packed, keys[0], 192, false),
        (Layout::Packed, keys[0], 8192, false),
    ] {
        let heap = heap(200);
        let table = Table::create(&heap, &spec_in(layout, key, value(len), Geometry::default(), 20)).unwrap();
        let (image, header) = (Arc::clone(heap.image()), table.header());
        drop((table, heap));
        let word = image.load(header + 48);
        assert_eq!(word & TILED != 0, tiled, "{layout:?}, {key:?}, {len}");
        assert!(opened(&image, header).is_ok());
        // Tiles that are not possible; flags and bytes of a newer version.
        let nonsense = if tiled { Vec::new() } else { vec![(48, word | TILED)] };
        // The flag of short tails without the flag of tiles.
        let newer = [
            (48, if word & CLOSE == 0 { word | CLOSE } else { word ^ TILED }),
            (48, word | 0x0f << 8),
            // Cells for fixed keys.
            (48, word | 0x20 << 8),
            (48, word | 1 << 16),
            (48, word | 1 << 63),
            (56, 1),
        ];
        for (at, wrong) in nonsense.into_iter().chain(newer) {
            let good = image.load(header + at);
            reseal(&image, header, at, wrong);
            let error = opened(&image, header).err().unwrap_or_else(|| panic!("{wrong:#x} at {at}"));
            let is_explained =
                ["newer", "tiles", "cells"].into_iter().any(|word| error.to_string().contains(word));
            assert!(is_explained, "{error}");
            reseal(&image, header, at, good);
        }
        assert!(opened(&image, header).is_ok());
    }
}

#[test]
fn words_that_name_no_record_are_noticed() {
    let heap = heap(200);
    let table = Table::create(&heap, &Kind::Tiled.spec(Geometry::default(), 20)).unwrap();
    for number in 0..6 {
        put(&table, &Kind::Tiled.key(number), &Kind::Tiled.value(number, 1), number + 1).unwrap();
    }
    let (image, header) = (Arc::clone(heap.image()), table.header());
    drop((table, heap));
    let states = states(&image, header);
    assert_eq!(states.len(), 6);
    for at in states {
        let good = image.load(at);
        let record = (good & ((1 << 45) - 1)) << 3;
        let (value, within) = (record & !127, record % 128 / 8);
        assert!(within < 16 && value.is_multiple_of(128));
        // Another record number, one that is too large, another line of the tile, and the tails.
        let numbers = (0..16).filter(|&other| other != within).map(|other| value + 8 * other);
        let others = [value + 128 + 8 * within, value - 128 * within + 2048, header, 64, image.len()];
        for wrong in numbers.chain(others) {
            image.store(at, good >> 45 << 45 | wrong >> 3);
            let error = opened(&image, header).err().unwrap_or_else(|| panic!("{wrong} for {record}"));
            assert!(matches!(error, TableError::Image(_)), "{error}");
        }
        image.store(at, good);
    }
    let table = opened(&image, header).unwrap();
    for number in 0..6 {
        assert_eq!(get(&table, &Kind::Tiled.key(number)), Some((number + 1, Kind::Tiled.value(number, 1))));
    }
}

/// Records of a tile move one by one, while their neighbours stay or are reused.
#[test]
fn tiles_are_defragmented() {
    for kind in [Kind::Tiled, Kind::LongTiled] {
        let heap = heap(400);
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 3000)).unwrap();
        for number in 0..2000 {
            put(&table, &kind.key(number), &kind.value(number, 1), 1).unwrap();
        }
        for number in (0..2000).filter(|number| number % 5 != 0) {
            assert!(remove(&table, &kind.key(number)));
        }
        // Opening frees the removed records. Other tests, which share their epochs with this one, cannot delay that.
        let (image, header) = (Arc::clone(heap.image()), table.header());
        drop((table, heap));
        let table = opened(&image, header).unwrap();
        let free = table.heap().usage().free_chunks;
        let moved = table.defragment(&table.heap().begin_clearing(Clear::Surplus)).unwrap();
        assert!(moved > 0);
        for number in 0..2000 {
            let expected = (number % 5 == 0).then(|| (1, kind.value(number, 1)));
            assert_eq!(get(&table, &kind.key(number)), expected, "{kind:?}, {number}");
        }
        drop(table);
        let table = opened(&image, header).unwrap();
        assert!(table.heap().usage().free_chunks > free, "{:?}", table.heap().usage());
        assert_eq!(table.len(), 400);
    }
}
