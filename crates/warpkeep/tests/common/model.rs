//! The expected contents of a store.

use std::collections::BTreeMap;

use warpkeep::engine::Items;
use warpkeep_image::{Persist, size_class};

use super::Store;

/// The cells that have a value.
pub(crate) type Model = BTreeMap<u64, Vec<u8>>;

/// Self-describing bytes: `tag`, again and again.
pub(crate) fn value_of(tag: u64, len: usize) -> Vec<u8> {
    tag.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The contents of the store, cell by cell.
pub(crate) fn content(store: &Store) -> Model {
    (0..store.items().count())
        .filter_map(|cell| store.get(cell).expect("a cell").map(|value| (cell, value)))
        .collect()
}

/// The contents of the store, with versions.
pub(crate) fn versions<P: Persist>(items: &impl Items<P>) -> BTreeMap<Vec<u8>, (u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let scanned = items.scan(&mut |change| {
        found.insert(change.key.to_vec(), (change.version, change.value.to_vec()));
        Ok(())
    });
    scanned.expect("a scan");
    found
}

/// Checks that the store holds exactly this.
pub(crate) fn check_holds(store: &Store, model: &Model) -> Result<(), String> {
    for cell in 0..store.items().count() {
        let found = store.get(cell).map_err(|error| format!("cell {cell}: {error}"))?;
        if found.as_ref() != model.get(&cell) {
            return Err(format!(
                "cell {cell}: {} instead of {}",
                shown(found.as_ref()),
                shown(model.get(&cell))
            ));
        }
    }
    Ok(())
}

/// The beginning of a value, for messages.
fn shown(value: Option<&Vec<u8>>) -> String {
    value.map_or("nothing".to_owned(), |value| {
        format!("{} bytes ({:02x?})", value.len(), &value[..value.len().min(8)])
    })
}

/// Whether the heap has exactly the blocks and chunks in use that live records need.
pub(crate) fn check_no_leak(store: &Store, model: &Model) -> Result<(), String> {
    let usage = store.heap().usage();
    let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
    for value in model.values() {
        *needed.entry(size_class(16 + value.len() as u64).expect("it was stored")).or_default() += 1;
    }
    let used: BTreeMap<u64, u64> =
        usage.classes.iter().filter(|class| class.used > 0).map(|class| (class.block, class.used)).collect();
    if used != needed {
        return Err(format!("blocks in use {used:?}, needed {needed:?}"));
    }
    let extent = (16 + 8 * store.items().count()).div_ceil(usage.chunk_size);
    if (usage.extents, usage.extent_chunks) != (1, extent) {
        return Err(format!("{} extents of {} chunks", usage.extents, usage.extent_chunks));
    }
    let in_slabs: u64 = usage
        .classes
        .iter()
        .map(|class| {
            // The fewest chunks that give a slab this many blocks.
            class.slabs * (class.blocks / class.slabs * class.block).div_ceil(usage.chunk_size)
        })
        .sum();
    let accounted = usage.free_chunks + usage.directory_chunks + usage.extent_chunks + in_slabs;
    match accounted == usage.chunks {
        true => Ok(()),
        false => Err(format!("{} chunks unaccounted for\n{usage}", usage.chunks.abs_diff(accounted))),
    }
}

#[track_caller]
pub(crate) fn assert_holds(store: &Store, model: &Model, when: &str) {
    if let Err(what) = check_holds(store, model) {
        panic!("{when}: {what}");
    }
}

#[track_caller]
pub(crate) fn assert_no_leak(store: &Store, model: &Model, when: &str) {
    if let Err(what) = check_no_leak(store, model) {
        panic!("{when}: {what}");
    }
}
