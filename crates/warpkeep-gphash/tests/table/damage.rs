//! Slots without a record, or with the record of another slot, are detected at opening.

use std::sync::Arc;

use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_image::{Coherent, Image};

use crate::rig::{Kind, get, heap, put};
use crate::tiles::{opened, states};

/// A table with two items, and the offsets of their states.
fn two_items(kind: Kind) -> (Arc<Image<Coherent>>, u64, [u64; 2]) {
    let heap = heap(2000);
    let table = Table::create(&heap, &kind.spec(Geometry::default(), 20)).unwrap();
    (6..8).for_each(|key| assert!(put(&table, &kind.key(key), &kind.value(key, 1), key).is_ok()));
    let (image, header) = (Arc::clone(heap.image()), table.header());
    drop((table, heap));
    let states = states(&image, header);
    (image, header, states.try_into().expect("two items"))
}

fn refused(image: &Arc<Image<Coherent>>, header: u64, why: &str) {
    let error = opened(image, header).err().unwrap_or_else(|| panic!("opened: {why}"));
    assert!(matches!(error, TableError::Image(_)), "{why}: {error}");
}

#[test]
fn a_state_with_a_tag_and_no_record_is_noticed() {
    for kind in [Kind::Packed, Kind::Tiled, Kind::Cells] {
        let (image, header, [first, second]) = two_items(kind);
        let good = image.load(first);
        image.store(first, good & u64::MAX << 45);
        refused(&image, header, "a tag without a record");
        image.store(first, image.load(second));
        refused(&image, header, "the record of another");
        image.store(first, good);
        let table = opened(&image, header).unwrap();
        (6..8).for_each(|key| assert!(get(&table, &kind.key(key)).is_some()));
    }
}

/// The slot that the last displaced item left may refer to the record of another slot, if that is the same item.
#[test]
fn a_record_is_shared_by_the_two_halves_of_a_move_and_by_no_others() {
    const JOURNAL: u64 = 72;
    let kind = Kind::Packed;
    let (image, header, [first, _]) = two_items(kind);
    let good = image.load(first);
    // The same item in the next slot of its bucket, as a move leaves it.
    let free =
        (0..8).map(|slot| first / 64 * 64 + 8 * slot).find(|&at| image.load(at) == 0).expect("a free slot");
    image.store(free, good);
    image.store(header + JOURNAL, first);
    let table = opened(&image, header).unwrap();
    assert_eq!((table.len(), image.load(first), image.load(free)), (2, 0, good));
    drop(table);
    image.store(first, good);
    image.store(header + JOURNAL, 0);
    refused(&image, header, "an item in two slots without a displacement");
}
