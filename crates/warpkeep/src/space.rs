//! Makes space while a store is in use: records move together, so that chunks become free for other sizes of values
//! and for larger tables.

use std::time::Duration;

use warpkeep_image::{Heap, ImageError, Persist, Purpose, Vacate};

use crate::index::Index;
use crate::{Error, Keeper, Result, Table, Tables};

/// How often the epochs are advanced: unlinked records are free after this, unless a reader delays them.
const STEPS: usize = 4;
/// How long to wait for a reader before asking again.
const PAUSE: Duration = Duration::from_micros(50);
/// So often at the most.
const PAUSES: u32 = 400;
/// Runs of chunks that one writer empties for one write.
const RUNS: u32 = 16;

/// Lets unlinked records become free.
fn settle<P: Persist>(heap: &Heap<P>) {
    (0..STEPS).for_each(|_| heap.reclaim());
}

/// Empties a run of chunks for this many bytes. Blocks that find no room elsewhere are passed to `remove`, one by
/// one; returns whether there was such a run, and it is empty now.
fn vacate<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    bytes: u64,
    (how, purpose): (Vacate, Purpose),
    remove: impl FnOnce(&[(u64, u64)]),
) -> Result<bool> {
    let Some(clearing) = keeper.heap().begin_vacating(bytes, how, purpose) else { return Ok(false) };
    let mut blocks = clearing.blocks_in_use();
    for named in keeper.items().list() {
        if blocks.is_empty() {
            break;
        }
        named.table.vacate(&clearing, &mut blocks)?;
    }
    if how == Vacate::Remove {
        remove(&blocks);
        blocks.clear();
    }
    if blocks.is_empty() {
        clearing.is_vacated();
    }
    drop(clearing);
    settle(keeper.heap());
    Ok(true)
}

/// The background thread's work: keeps a few chunks free where the image cannot grow, and empties runs that could
/// not be allocated. Returns whether it did anything.
pub(crate) fn keep_reserve<P: Persist>(keeper: &Keeper<P, Tables<P>>) -> bool {
    let heap = keeper.heap();
    let wanted = heap.take_wanted();
    let purpose = if wanted > 0 { Purpose::Request } else { Purpose::Reserve };
    if wanted == 0 && !heap.wants_reserve() {
        return false;
    }
    // Records that cannot be moved now are tried again at the next request.
    vacate(keeper, wanted.max(1), (Vacate::Move, purpose), |_| ()).unwrap_or(false)
}

/// The steps taken so far to find space for one write.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Blocks that had been replaced or removed when it began, and whether they were waited for.
    awaited: Option<u64>,
    settled: bool,
    runs: u32,
    pauses: u32,
}

impl Search {
    /// Makes space after this error, if it was for lack of space and some may be found; returns whether to try
    /// again. The caller must hold nothing.
    pub(crate) fn goes_on<P: Persist>(&mut self, keeper: &Keeper<P, Tables<P>>, error: &Error) -> bool {
        let Error::Image(ImageError::OutOfSpace { wanted, .. }) = error else { return false };
        let heap = keeper.heap();
        let awaited = *self.awaited.get_or_insert_with(|| heap.count_retired(0));
        if !self.settled && heap.count_returned(0) < awaited {
            // Records that other threads have just replaced or removed may be enough; that takes microseconds,
            // unless a reader is idle.
            settle(heap);
            self.settled = heap.count_returned(0) >= awaited || !self.pauses();
            return true;
        }
        if self.runs < RUNS {
            self.runs += 1;
            if vacate(keeper, *wanted, (Vacate::Move, Purpose::Request), |_| ()).unwrap_or(false) {
                return true;
            }
        }
        if heap.is_space_coming() && self.pauses() {
            settle(heap);
            return true;
        }
        false
    }

    /// Waits a little for readers; `false` if that was done often enough.
    fn pauses(&mut self) -> bool {
        if self.pauses == PAUSES {
            return false;
        }
        self.pauses += 1;
        std::thread::sleep(PAUSE);
        true
    }
}

/// A possible item, as [`Table::sample`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version that the key had.
    pub version: u64,
    /// Bytes of the block that the item takes.
    pub bytes: u64,
}

impl<P: Persist> Table<P> {
    /// Returns up to `count` items picked at random, for a caller that removes some to make room: of all sizes, or
    /// only those that take as much space as an item with a key and a value of these lengths. It reads no other
    /// items, and holds nothing: the returned items may have changed or gone, and a key may come twice. Tables
    /// whose records do not have their keys return nothing.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let options = TableOptions::new(KeySpec::variable(250)?, ValueSpec::variable(1 << 20)?);
    /// let pages = store.create_table("pages", options)?;
    /// for number in 0..100 {
    ///     pages.put(format!("small-{number}").as_str(), &[1; 100], Durability::Process)?;
    ///     pages.put(format!("large-{number}").as_str(), &[1; 5000], Durability::Process)?;
    /// }
    /// let mut keys = Vec::new();
    /// pages.sample(Some((8, 5000)), 20, |item| keys.push(item.key.to_vec()))?;
    /// assert!(keys.len() == 20 && keys.iter().all(|key| key.starts_with(b"large-")));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn sample(
        &self,
        like: Option<(usize, usize)>,
        count: usize,
        each: impl FnMut(Sampled<'_>),
    ) -> Result<()> {
        let call = self.lease.enter()?;
        let heap = call.keeper.heap();
        let pool = match like {
            None => None,
            Some((key, value)) => {
                let pool = heap.class_pool(call.named.table.record_len(key, value));
                if pool.is_none() {
                    return Ok(());
                }
                pool
            }
        };
        call.named.table.guess_items(&heap.sample(pool, count), each);
        Ok(())
    }

    /// Frees whole chunks for an item with a key and a value of these lengths, whatever they hold: items are moved
    /// where there is room, and the others are passed to `remove`, which deletes them, or leaves them and has made
    /// no room. `false` if there are no chunks with items. Other tables' items are moved or stay.
    pub fn vacate(&self, key: usize, value: usize, remove: impl FnMut(&[u8])) -> Result<bool> {
        let call = self.lease.enter()?;
        let bytes = call.keeper.heap().slab_bytes(call.named.table.record_len(key, value));
        self.vacate_bytes(bytes, remove)
    }

    /// The same, for this many bytes in one piece.
    pub fn vacate_bytes(&self, bytes: u64, mut remove: impl FnMut(&[u8])) -> Result<bool> {
        let call = self.lease.enter()?;
        let how = (Vacate::Remove, Purpose::Request);
        vacate(&call.keeper, bytes, how, |blocks| {
            call.named.table.guess_items(blocks, |item| remove(item.key));
        })
    }
}

impl<P: Persist> Index<P> {
    fn guess_items(&self, blocks: &[(u64, u64)], mut each: impl FnMut(Sampled<'_>)) {
        if let Index::GpHash(placed) = self {
            placed.table.guess_items(blocks, |key, version, bytes| each(Sampled { key, version, bytes }));
        }
    }
}
