//! Cells: the smallest index, values under the numbers 0 to n-1.
//!
//! A table without hashing, which shows on one page the duties of every index: records in the heap, one word that
//! publishes each, a version that grows, marking, scanning and redoing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_core::{Change, ChangeKind, Durability};
use warpkeep_image::{Heap, Image, ImageError, MAX_BLOCK, Marker, Persist};
use warpkeep_log::ChangeBatch;

use crate::{Error, Items, Keeper, Result};

/// The root that names the cells.
const ROOT: usize = 0;
const MAGIC: u64 = u64::from_le_bytes(*b"WKCELLS1");
/// Magic and number of cells come before the cells.
const HEAD: u64 = 16;
/// Version, length and checksum come before the bytes of a record.
const RECORD_HEAD: u64 = 16;
/// Above it lies the check of the number of cells.
const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 40;
const STRIPES: usize = 256;
const TABLE: u32 = 1;

/// Values of any length up to 1 MiB under the numbers 0 to n-1.
///
/// ```
/// use warpkeep::engine::{Cells, ImageFile, LogPlace, open};
/// use warpkeep::{Durability};
/// use warpkeep_image::Coherent;
/// use warpkeep_log::{LogOptions, OsDisk};
/// # let directory = tempfile::tempdir().unwrap();
/// # let directory = directory.path();
/// let place = ImageFile::new(directory.join("image"), Coherent);
/// let log = || OsDisk::open(&directory.join("log")).map(|disk| LogPlace::new(disk, LogOptions::default()));
///
/// let (store, _) = open::<_, Cells<_>>(&place, Some(log()?), Default::default(), &1000)?;
/// store.put(7, b"kept", Durability::Power)?;
/// drop(store); // no close: the next opening re-attaches it, as after a crash
///
/// let (store, report) = open::<_, Cells<_>>(&place, Some(log()?), Default::default(), &1000)?;
/// assert_eq!(store.get(7)?, Some(b"kept".to_vec()));
/// println!("back after {:.3} s ({:?})", report.seconds, report.origin);
/// store.close()?;
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub struct Cells<P: Persist> {
    heap: Arc<Heap<P>>,
    base: u64,
    count: u64,
    /// Writers of a cell hold its stripe; so do readers, because space is reused at once.
    stripes: Box<[Mutex<()>]>,
}

/// An edit of a cell: give it a value, or empty it.
pub type Edit<'a> = (u64, Option<&'a [u8]>);

struct Record {
    offset: u64,
    version: u64,
    len: u64,
    crc: u32,
}

impl<P: Persist> Cells<P> {
    /// Number of cells.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn image(&self) -> &Image<P> {
        self.heap.image()
    }

    fn check(&self, cell: u64) -> Result<()> {
        match cell < self.count {
            true => Ok(()),
            false => Err(Error::Invalid(format!("there is no cell {cell}; the last is {}", self.count - 1))),
        }
    }

    fn lock(&self, stripe: usize) -> MutexGuard<'_, ()> {
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record that a cell leads to. Its stripe must be held.
    fn record(&self, cell: u64) -> Option<Record> {
        let offset = self.image().load(slot(self.base, cell));
        (offset != 0).then(|| read_head(self.image(), offset))
    }

    fn value(&self, record: &Record) -> Vec<u8> {
        let mut value = vec![0; record.len as usize];
        self.image().read(record.offset + RECORD_HEAD, &mut value);
        value
    }

    /// Writes a record that is not reachable yet; durable after the next fence of this thread.
    fn prepare(&self, cell: u64, version: u64, value: &[u8]) -> Result<u64> {
        let mut block = self.heap.allocate(RECORD_HEAD + value.len() as u64)?;
        let len = u32::try_from(value.len()).expect("blocks are smaller than 4 GiB");
        let mut head = [0; RECORD_HEAD as usize];
        head[..8].copy_from_slice(&version.to_le_bytes());
        head[8..12].copy_from_slice(&len.to_le_bytes());
        head[12..].copy_from_slice(&checksum(cell, version, value).to_le_bytes());
        block.write(0, &head)?;
        block.write(RECORD_HEAD, value)?;
        self.image().flush("cells.record", block.offset(), RECORD_HEAD + value.len() as u64);
        Ok(block.into_offset())
    }

    /// Makes cells lead to other records (0: to none). Their stripes must be held.
    fn publish(&self, edits: &[(u64, u64)]) {
        let image = self.image();
        // Records before the words that lead to them.
        image.fence("cells.record");
        let mut old = Vec::with_capacity(edits.len());
        for &(cell, offset) in edits {
            let at = slot(self.base, cell);
            old.push(image.load(at));
            image.store(at, offset);
            image.flush("cells.word", at, 8);
        }
        // Words before the reuse of the records they referred to.
        image.fence("cells.word");
        for offset in old.into_iter().filter(|&offset| offset != 0) {
            let freed = self.heap.free(offset);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}

impl<P: Persist> Keeper<P, Cells<P>> {
    /// The value in a cell.
    pub fn get(&self, cell: u64) -> Result<Option<Vec<u8>>> {
        let cells = self.items();
        cells.check(cell)?;
        let _held = cells.lock(stripe_of(cell));
        Ok(cells.record(cell).map(|record| cells.value(&record)))
    }

    /// Gives a cell a value.
    pub fn put(&self, cell: u64, value: &[u8], durability: Durability) -> Result<()> {
        self.edit(&[(cell, Some(value))], durability)
    }

    /// Empties a cell.
    pub fn delete(&self, cell: u64, durability: Durability) -> Result<()> {
        self.edit(&[(cell, None)], durability)
    }

    /// Edits many cells; with `Power`, all or none of it survives. Of two edits of a cell the later counts.
    pub fn edit(&self, edits: &[Edit<'_>], durability: Durability) -> Result<()> {
        let cells = self.items();
        let mut last = BTreeMap::new();
        for &(cell, value) in edits {
            cells.check(cell)?;
            last.insert(cell, value);
        }
        self.admit(durability)?;
        let mut stripes: Vec<usize> = last.keys().map(|&cell| stripe_of(cell)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let _held: Vec<_> = stripes.into_iter().map(|stripe| cells.lock(stripe)).collect();

        let mut changes = ChangeBatch::new();
        let mut words = Vec::with_capacity(last.len());
        let prepared = last.iter().try_for_each(|(&cell, &value)| {
            let version = self.next_version();
            let kind = if value.is_some() { ChangeKind::Put } else { ChangeKind::Delete };
            let (key, bytes) = (cell.to_le_bytes(), value.unwrap_or_default());
            changes.push(&Change { table: TABLE, kind, version, key: &key, value: bytes })?;
            words.push((cell, value.map_or(Ok(0), |value| cells.prepare(cell, version, value))?));
            Ok(())
        });
        let written = prepared.and_then(|()| self.write(durability, &changes, || cells.publish(&words)));
        if written.is_err() {
            // These are not reachable unless the log failed after the effects: then the store is closed anyway, and
            // the next opening decides.
            for &(cell, offset) in &words {
                if offset != 0 && cells.image().load(slot(cells.base, cell)) != offset {
                    cells.heap.free(offset)?;
                }
            }
        }
        written
    }
}

impl<P: Persist> Items<P> for Cells<P> {
    /// Number of cells.
    type Config = u64;

    fn create(heap: &Arc<Heap<P>>, &count: &u64) -> Result<Self> {
        let image = heap.image();
        if count == 0 || count > MAX_COUNT {
            return Err(Error::Invalid(format!("{count} cells are not possible; take 1 to {MAX_COUNT}")));
        }
        let len = HEAD + 8 * count;
        let base = heap.allocate_extent(len)?;
        image.zero(base, len);
        image.store(base, MAGIC);
        image.store(base + 8, seal(count));
        image.flush("cells.create", base, len);
        // No fence between them: the root is not followed before the image is taken into use, which fences.
        image.set_root(ROOT, Some(base))?;
        Ok(Cells::over(heap, base, count))
    }

    fn mark(image: &Image<P>, marker: &Marker<'_, P>) -> Result<()> {
        let (base, count) = find(image)?;
        marker.extent(base, HEAD + 8 * count)?;
        for cell in 0..count {
            let offset = image.load(slot(base, cell));
            if offset == 0 {
                continue;
            }
            let damaged = |what: &str| ImageError::Damaged {
                path: image.path().to_path_buf(),
                what: format!("cell {cell}: {what}"),
            };
            marker.block_size(offset).ok_or_else(|| damaged("leads to no block"))?;
            let record = read_head(image, offset);
            if record.len > MAX_BLOCK || !marker.block(offset, RECORD_HEAD + record.len)? {
                return Err(damaged("shares its record with another").into());
            }
            let mut value = vec![0; record.len as usize];
            image.read(offset + RECORD_HEAD, &mut value);
            if checksum(cell, record.version, &value) != record.crc {
                return Err(damaged("its record has the wrong checksum").into());
            }
        }
        Ok(())
    }

    fn attach(heap: &Arc<Heap<P>>) -> Result<Self> {
        let (base, count) = find(heap.image())?;
        Ok(Cells::over(heap, base, count))
    }

    fn redo(&self, change: &Change<'_>) -> Result<()> {
        let cell = change.key.try_into().map(u64::from_le_bytes);
        let cell =
            cell.map_err(|_| Error::Invalid(format!("a key of {} bytes names no cell", change.key.len())))?;
        self.check(cell)?;
        let _held = self.lock(stripe_of(cell));
        if self.record(cell).is_some_and(|record| record.version >= change.version) {
            return Ok(());
        }
        let offset = match change.kind {
            ChangeKind::Put => self.prepare(cell, change.version, change.value)?,
            ChangeKind::Delete => 0,
        };
        self.publish(&[(cell, offset)]);
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&Change<'_>) -> Result<()>) -> Result<()> {
        for cell in 0..self.count {
            let found = {
                let _held = self.lock(stripe_of(cell));
                self.record(cell).map(|record| (record.version, self.value(&record)))
            };
            if let Some((version, value)) = found {
                let key = cell.to_le_bytes();
                each(&Change { table: TABLE, kind: ChangeKind::Put, version, key: &key, value: &value })?;
            }
        }
        Ok(())
    }
}

impl<P: Persist> Cells<P> {
    fn over(heap: &Arc<Heap<P>>, base: u64, count: u64) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Cells { heap: Arc::clone(heap), base, count, stripes }
    }
}

fn stripe_of(cell: u64) -> usize {
    (cell % STRIPES as u64) as usize
}

fn slot(base: u64, cell: u64) -> u64 {
    base + HEAD + 8 * cell
}

/// Where the cells are, and how many.
fn find<P: Persist>(image: &Image<P>) -> Result<(u64, u64)> {
    let foreign = |what: &str| Error::Invalid(format!("{} holds no cells: {what}", image.path().display()));
    let base = image.root(ROOT)?.ok_or_else(|| foreign("its root is not set"))?;
    if !base.is_multiple_of(8) || !image.contains(base, HEAD) || image.load(base) != MAGIC {
        return Err(foreign("its root names something else"));
    }
    let sealed = image.load(base + 8);
    let count = sealed & MAX_COUNT;
    match sealed == seal(count) && count > 0 && image.contains(base + HEAD, 8 * count) {
        true => Ok((base, count)),
        false => Err(foreign("their number makes no sense")),
    }
}

fn read_head<P: Persist>(image: &Image<P>, offset: u64) -> Record {
    let lengths = image.load(offset + 8);
    Record { offset, version: image.load(offset), len: lengths & 0xffff_ffff, crc: (lengths >> 32) as u32 }
}

/// The number of cells, with a check of it above.
fn seal(count: u64) -> u64 {
    count | u64::from(crc32c::crc32c(&count.to_le_bytes())) << COUNT_BITS
}

/// The checksum of a record. The cell is part of it: a damaged word may lead to another cell's old record.
fn checksum(cell: u64, version: u64, value: &[u8]) -> u32 {
    let head = crc32c::crc32c_append(crc32c::crc32c(&cell.to_le_bytes()), &version.to_le_bytes());
    crc32c::crc32c_append(head, value)
}
