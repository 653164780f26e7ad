//! The cuckoo index of a table that a device only reads: Mega-KV's index, from hashes of keys to records.
//!
//! # Problem
//!
//! Kernels that look for keys of any length compare them with the records, over the link. The [device
//! index](super::index) has a column of keys instead, which keys of any length do not fit.
//!
//! # How
//!
//! A [`CuckooIndex`] in device memory has eight bytes for each item: a signature of the key's hash, and the record. The
//! device finds the records of a batch, and the host compares the keys there and reads the values.
//!
//! # Invariants
//!
//! * A signature is never trusted: a value is answered only if the record has the whole key.
//! * The index may lack items: those that found no place, that lie too far behind in the image, or whose hash another
//!   item has, too. The CPU looks up every key that the index does not lead to.
//! * A record in the index is its key's current one. The CPU records changes in the [change
//!   feed](super::change_feed::ChangeFeed), and they are applied before a batch searches. A change removes all entries that
//!   match its hash before it adds one.
//! * Records that a search finds are not freed before the batch ends: the batch has pinned an epoch since before it
//!   applied the changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_containers::{
    ContainerError, CuckooIndex, CuckooIndexOptions, IndexAnswer, IndexOp, IndexOpKind, IndexStatus,
    NO_LOCATION,
};
use warpkeep_device::Device;
use warpkeep_image::{Guard, Persist};
use warpkeep_record::prefetch;

use crate::bucket::Body;
use crate::gpu::change_feed::ChangeFeed;
use crate::gpu::engine::DeviceEngine;
use crate::gpu::params::IndexChange;
use crate::{Table, TableError, Value};

/// Records begin at multiples of this, so locations count such units.
const UNIT: u64 = 8;
/// Keys that are searched at once, under one epoch.
const CHUNK_KEYS: usize = 1 << 16;
/// Items that are added at once when an index is built.
const BUILD_ITEMS: usize = 1 << 16;
/// The least and the largest number of items that there is room for: there are not more locations.
const ITEMS: (u64, u64) = (1 << 10, NO_LOCATION as u64);
/// Records that are prefetched before one is read.
const PREFETCH_DISTANCE: usize = 16;

/// The cuckoo index of an engine, if it has one.
#[derive(Default)]
pub(crate) struct RecordSignatures(Mutex<Option<State>>);

struct State {
    index: Arc<CuckooIndex>,
    /// With more items another index is built.
    capacity: u64,
    feed: Arc<ChangeFeed>,
}

impl RecordSignatures {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Device memory of the index.
    pub(crate) fn bytes(&self) -> u64 {
        let index = self.state().as_ref().map(|state| Arc::clone(&state.index));
        index.and_then(|index| index.stats().ok()).map_or(0, |stats| stats.bytes)
    }

    /// The index with all changes of the CPU applied; `None` if there is none. `guard` was pinned before.
    fn acquire<P: Persist>(
        &self,
        device: &Device,
        table: &Table<P>,
        guard: &Guard,
    ) -> Result<Option<Arc<CuckooIndex>>, TableError> {
        let mut slot = self.state();
        let Some(state) = slot.as_mut() else { return Ok(None) };
        let changes = state.feed.pending().take_items();
        let has_room = table.len() <= state.capacity || state.capacity == ITEMS.1;
        let done = match changes {
            Some(changes) if has_room => {
                let applied = apply(&state.index, &changes);
                if applied.is_err() {
                    state.feed.pending().put_back(changes);
                }
                applied.map_err(error_of)
            }
            _ => match build(device, table, guard) {
                Ok((index, capacity)) => {
                    (state.index, state.capacity) = (index, capacity);
                    // Changes meanwhile; too many of them make the next batch build it again.
                    let Some(since) = state.feed.pending().take_items() else { return Ok(None) };
                    apply(&state.index, &since).map_err(error_of)
                }
                Err(error) => Err(error),
            },
        };
        match done {
            Ok(()) => Ok(Some(Arc::clone(&state.index))),
            Err(TableError::Device(error)) if error.is_out_of_memory() => {
                drop_index(&mut slot);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for RecordSignatures {
    fn drop(&mut self) {
        drop_index(&mut self.state());
    }
}

fn drop_index(slot: &mut Option<State>) {
    if let Some(state) = slot.take() {
        state.feed.subscribe(false);
    }
}

impl<P: Persist> DeviceEngine<P> {
    /// Builds the cuckoo index of a table that the device only reads; returns whether there is one. There is none if the
    /// device lacks the memory, or if slots hold the keys. The table is not in use yet.
    pub fn build_cuckoo_index(&self, table: &Table<P>) -> Result<bool, TableError> {
        let mut slot = self.signatures.state();
        drop_index(&mut slot);
        if table.shape.body != Body::Packed || self.writes(table) {
            return Ok(false);
        }
        let feed = Arc::clone(&table.changes);
        feed.subscribe(true);
        match build(self.device(), table, &table.heap.pin()) {
            Ok((index, capacity)) => {
                *slot = Some(State { index, capacity, feed });
                Ok(true)
            }
            Err(error) => {
                feed.subscribe(false);
                match error {
                    TableError::Device(error) if error.is_out_of_memory() => Ok(false),
                    error => Err(error),
                }
            }
        }
    }

    /// Looks keys up by the cuckoo index, and passes each answer to `each`, in order. Returns how many were answered: all
    /// of them, unless the index went for lack of memory.
    pub(super) fn get_by_signatures(
        &self,
        table: &Table<P>,
        keys: &[&[u8]],
        each: &mut impl FnMut(usize, Option<(u64, &[u8])>),
    ) -> Result<usize, TableError> {
        let mut hashes = Vec::new();
        let mut done = 0;
        for chunk in keys.chunks(CHUNK_KEYS) {
            // Before the changes are applied: what they lead to stays.
            let guard = &table.heap.pin();
            let Some(index) = self.signatures.acquire(self.device(), table, guard)? else { return Ok(done) };
            hashes.clear();
            hashes.extend(chunk.iter().map(|key| table.hash(key)));
            let found = match index.search(&hashes) {
                Err(ContainerError::Device(error)) if error.is_out_of_memory() => return Ok(done),
                found => found.map_err(error_of)?,
            };
            let first = done;
            answer_chunk(table, guard, chunk, &found, |index, value| each(first + index, value));
            done += chunk.len();
        }
        Ok(done)
    }
}

/// Answers keys by the records that a search found; the CPU looks up the others.
fn answer_chunk<P: Persist>(
    table: &Table<P>,
    guard: &Guard,
    keys: &[&[u8]],
    found: &[IndexAnswer],
    mut each: impl FnMut(usize, Option<(u64, &[u8])>),
) {
    let image = table.image();
    let fetch = |answer: &IndexAnswer| {
        let records = answer.locations().iter().map(|&location| u64::from(location) * UNIT);
        records.for_each(|record| prefetch::line(image.pointer(record, UNIT)));
    };
    found.iter().take(PREFETCH_DISTANCE).for_each(fetch);
    for (number, (&key, answer)) in keys.iter().zip(found).enumerate() {
        found.get(number + PREFETCH_DISTANCE).into_iter().for_each(fetch);
        let records =
            answer.locations().iter().map(|&location| table.form.at(image, u64::from(location) * UNIT));
        let mut records = records.filter(|record| record.has_key(image, key));
        match records.next() {
            Some(record) => {
                let value = Value::new(image, record.item());
                each(number, Some((value.version(), value.bytes())));
            }
            None => {
                let looked_up = table
                    .get_pinned(guard, key, |value| each(number, Some((value.version(), value.bytes()))));
                if looked_up.is_none() {
                    each(number, None);
                }
            }
        }
    }
}

/// An index of all items, and for how many there is room. Changes meanwhile are in the feed, which is subscribed.
fn build<P: Persist>(
    device: &Device,
    table: &Table<P>,
    guard: &Guard,
) -> Result<(Arc<CuckooIndex>, u64), TableError> {
    // Items that were recorded until now are read from the image.
    table.changes.pending().forget_items();
    let capacity = (table.len() + table.len() / 4).clamp(ITEMS.0, ITEMS.1);
    let index = CuckooIndex::new(device, &CuckooIndexOptions::default().items(capacity)).map_err(error_of)?;
    let (image, levels) = (table.image(), table.levels(guard));
    let (mut hashes, mut locations) = (Vec::new(), Vec::new());
    let mut key = Vec::new();
    for bucket in table.runs(levels).flat_map(|run| run.iter(&table.shape)) {
        for slot in 0..table.shape.slots() {
            let state = bucket.state(slot);
            let Some(record) = table.record_of(state).filter(|_| table.is_item(state)) else { continue };
            let Some(location) = location_of(record) else { continue };
            key.clear();
            table.form.at(image, record).append_key(image, &mut key);
            hashes.push(table.hash(&key));
            locations.push(location);
        }
        if hashes.len() >= BUILD_ITEMS {
            index.insert(&hashes, &locations).map_err(error_of)?;
            hashes.clear();
            locations.clear();
        }
    }
    // Those that find no place are left to the CPU.
    index.insert(&hashes, &locations).map_err(error_of)?;
    Ok((Arc::new(index), capacity))
}

/// Applies the last change of each hash.
fn apply(index: &CuckooIndex, changes: &[IndexChange]) -> Result<(), ContainerError> {
    if changes.is_empty() {
        return Ok(());
    }
    let hashes: Vec<u64> = changes.iter().map(|change| change.hash).collect();
    let found = index.search(&hashes)?;
    let mut ops = Vec::with_capacity(2 * changes.len());
    for (change, answer) in changes.iter().zip(&found) {
        let more = match answer.status {
            IndexStatus::Truncated => index.search_all(&[change.hash])?.concat(),
            _ => answer.locations().to_vec(),
        };
        ops.extend(more.into_iter().map(|location| IndexOp::delete(change.hash, location)));
        let location = location_of(change.record).filter(|_| change.record != 0);
        ops.extend(location.map(|location| IndexOp::insert(change.hash, location)));
    }
    let answers = index.apply(&ops)?;
    debug_assert!(
        ops.iter()
            .zip(&answers)
            .all(|(op, answer)| { op.kind != IndexOpKind::Delete || answer.status == IndexStatus::Deleted }),
        "an entry that was found is gone"
    );
    Ok(())
}

/// The location of a record; `None` if it lies too far behind in the image.
fn location_of(record: u64) -> Option<u32> {
    let location = u32::try_from(record / UNIT).ok()?;
    (record.is_multiple_of(UNIT) && location != NO_LOCATION).then_some(location)
}

fn error_of(error: ContainerError) -> TableError {
    match error {
        ContainerError::Device(error) => error.into(),
        // The columns of a batch have one length, and an index has at most as many cells as can be.
        error => TableError::CuckooIndex(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_removes_whatever_matches_its_hash_and_adds_its_record() {
        let index = CuckooIndex::on_cpu(&CuckooIndexOptions::default().items(1000)).unwrap();
        let (one, other) = (7 << 40 | 1, 8 << 40 | 2);
        let change = |hash, record| IndexChange { hash, record };
        apply(&index, &[change(one, 80), change(other, 160)]).unwrap();
        assert_eq!(index.search(&[one]).unwrap()[0].locations(), [10]);
        // As if several keys had this hash.
        index.insert(&[one; 3], &[11, 12, 13]).unwrap();
        apply(&index, &[change(one, 240)]).unwrap();
        assert_eq!(index.search_all(&[one, other]).unwrap(), [vec![30], vec![20]]);
        apply(&index, &[change(one, 0), change(other, UNIT << 32)]).unwrap();
        assert!(index.is_empty().unwrap(), "neither a deleted record nor one too far behind has an entry");
    }

    #[test]
    fn locations_count_units_up_to_the_last() {
        assert_eq!((location_of(0), location_of(64)), (Some(0), Some(8)));
        assert_eq!(location_of((u64::from(NO_LOCATION) - 1) * UNIT), Some(NO_LOCATION - 1));
        assert_eq!([u64::from(NO_LOCATION) * UNIT, UNIT << 32, 12].map(location_of), [None; 3]);
    }
}
