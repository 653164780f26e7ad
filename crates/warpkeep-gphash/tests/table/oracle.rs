//! Every geometry against a map. The suites that all indexes pass run the default one with every kind of items.

use std::sync::Arc;

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_gphash::{Geometry, Layout, Table, TableError};
use warpkeep_image::{Heap, Persist};
use warpkeep_suites::{Subject, oracle};

use crate::rig::{SPECIAL_KEYS, spec_in};

/// Tables of one geometry.
#[derive(Clone, Copy, Debug)]
struct Of(Geometry, Layout);

impl Subject for Of {
    type Table<P: Persist> = Table<P>;

    fn create<P: Persist>(
        self,
        heap: &Arc<Heap<P>>,
        (key, value): (KeySpec, ValueSpec),
        capacity: u64,
    ) -> Result<Table<P>, TableError> {
        Table::create(heap, &spec_in(self.1, key, value, self.0, capacity))
    }

    fn takes(self, (key, _): (KeySpec, ValueSpec)) -> bool {
        self.1 == Layout::Packed || key.fixed_len().is_some()
    }

    fn in_slots(self, (_, value): (KeySpec, ValueSpec)) -> bool {
        self.1 == Layout::InPlace && value.fixed_len().is_some_and(|len| len <= 8)
    }

    fn special_keys(self) -> &'static [u64] {
        &SPECIAL_KEYS
    }

    fn own_blocks(self) -> u64 {
        2
    }

    fn slots<P: Persist>(table: &Table<P>) -> u64 {
        table.spec().capacity
    }
}

fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for levels in [1, 2, 4] {
        for hashes in [1, 2, 4, 8] {
            all.extend((1..=5).filter_map(|bits| Geometry::new(levels, hashes, 1 << bits).ok()));
        }
    }
    all
}

/// The geometries rotate through the kinds of items.
#[test]
fn every_geometry() {
    for layout in [Layout::Packed, Layout::InPlace] {
        for (number, geometry) in geometries().into_iter().enumerate() {
            let subject = Of(geometry, layout);
            let mut kinds = oracle::kinds();
            kinds.retain(|&items| subject.takes(items));
            oracle::agrees_with_items(subject, &[kinds[number % kinds.len()]]);
        }
    }
}
