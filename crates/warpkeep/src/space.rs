//! Space that is made while a store is in use: records move together, so that chunks become free for other sizes of values and for
//! larger tables.

use std::time::Duration;

use warpkeep_image::{ImageError, Persist, Purpose, Vacate};
use warpkeep_record::hasten_freeing;

use crate::index::Index;
use crate::{Error, Keeper, Result, Table, Tables};

/// How often the epochs are asked to go on: what is unlinked now is free after this, unless a reader is in the way.
const STEPS: usize = 4;
/// How long to wait for a reader before asking again.
const PAUSE: Duration = Duration::from_micros(50);
/// So often at the most.
const PAUSES: u32 = 400;
/// Runs of chunks that one writer empties for one write.
const RUNS: u32 = 16;

/// Lets what was unlinked become free.
fn settle() {
    (0..STEPS).for_each(|_| hasten_freeing());
}

/// Empties a run of chunks for this many bytes. What finds no room elsewhere is given to `remove`, block by block; whether there was
/// such a run, and nothing is left in it.
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
        let _turn = named.engine.turn();
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
    settle();
    Ok(true)
}

/// What the thread in the background does: keeps a few chunks free where the image cannot grow, and empties runs that were asked for
/// in vain. Whether it did something.
pub(crate) fn keep_reserve<P: Persist>(keeper: &Keeper<P, Tables<P>>) -> bool {
    let heap = keeper.heap();
    let wanted = heap.take_wanted();
    let purpose = if wanted > 0 { Purpose::Request } else { Purpose::Reserve };
    if wanted == 0 && !heap.wants_reserve() {
        return false;
    }
    // What cannot be moved now is tried again when it is wanted again.
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
    /// Makes space for what failed with this error, if it failed for want of it and there may be some; whether to try again. Nothing
    /// may be held.
    pub(crate) fn goes_on<P: Persist>(&mut self, keeper: &Keeper<P, Tables<P>>, error: &Error) -> bool {
        let Error::Image(ImageError::OutOfSpace { wanted, .. }) = error else { return false };
        let heap = keeper.heap();
        let awaited = *self.awaited.get_or_insert_with(|| heap.count_retired(0));
        if !self.settled && heap.count_returned(0) < awaited {
            // What others have just replaced or removed may be all that is needed; it takes microseconds, unless a reader rests.
            settle();
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
            settle();
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

/// What may be an item, as [`Table::sample`] gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version that the key had.
    pub version: u64,
    /// Bytes of the block that the item takes.
    pub bytes: u64,
}

impl<P: Persist> Table<'_, P> {
    /// Gives out up to `count` items picked at random, for a caller that removes some to make room: of all sizes, or only those that take
    /// as much space as an item with a key and a value of these lengths. It looks at no other items, and holds nothing: what it gives
    /// out may have changed or gone, and a key may come twice. Tables whose records do not have their keys give nothing.
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
        self.named.check_there()?;
        let heap = self.store.keeper.heap();
        let pool = match like {
            None => None,
            Some((key, value)) => {
                let pool = heap.class_pool(self.named.table.record_len(key, value));
                if pool.is_none() {
                    return Ok(());
                }
                pool
            }
        };
        self.named.table.guess_items(&heap.sample(pool, count), each);
        Ok(())
    }

    /// Makes whole chunks free for an item with a key and a value of these lengths, whatever is in them: items are moved where there
    /// is room, and the others are given to `remove`, which deletes them, or leaves them and has made no room. `false` if there are
    /// no chunks with items. Other tables' items are moved or stay.
    pub fn vacate(&self, key: usize, value: usize, remove: impl FnMut(&[u8])) -> Result<bool> {
        self.named.check_there()?;
        let bytes = self.store.keeper.heap().slab_bytes(self.named.table.record_len(key, value));
        self.vacate_bytes(bytes, remove)
    }

    /// The same, for this many bytes in one piece.
    pub fn vacate_bytes(&self, bytes: u64, mut remove: impl FnMut(&[u8])) -> Result<bool> {
        let how = (Vacate::Remove, Purpose::Request);
        vacate(&self.store.keeper, bytes, how, |blocks| {
            self.named.table.guess_items(blocks, |item| remove(item.key));
        })
    }
}

impl<P: Persist> Index<P> {
    fn guess_items(&self, blocks: &[(u64, u64)], mut each: impl FnMut(Sampled<'_>)) {
        if let Index::GpHash(table) = self {
            table.guess_items(blocks, |key, version, bytes| each(Sampled { key, version, bytes }));
        }
    }
}
