//! A cuckoo index from hashes of keys to locations.

mod columns;
mod cpu;
mod device;
mod file;
mod kernels;
mod layout;
mod op;
mod stats;
mod table;
mod whole;

use warpkeep_device::{Buffer, Device, Program, Result, Stream};

use columns::{HostBatch, Staged};
use cpu::CpuIndex;
use device::DeviceIndex;
use layout::Layout;
pub use op::{IndexAnswer, IndexOp, IndexOpKind, IndexStatus};
pub use stats::CuckooIndexStats;
pub use table::CuckooIndexRef;
pub use whole::IndexEntry;

use crate::ContainerError;
use crate::batch_columns::{check_operations, own_column};

/// The one number that is no location. Answers have it where no entry matched.
pub const NO_LOCATION: u32 = u32::MAX;

/// How a [`CuckooIndex`] is made.
#[derive(Debug, Clone)]
pub struct CuckooIndexOptions {
    items: u64,
    staged: usize,
}

impl Default for CuckooIndexOptions {
    fn default() -> Self {
        Self { items: 1 << 20, staged: 1 << 24 }
    }
}

impl CuckooIndexOptions {
    /// Room for this many entries, at a load of 0.9 or less; by default about a million. An index does not grow: it has only a part of each
    /// hash.
    #[must_use]
    pub fn items(self, items: u64) -> Self {
        Self { items, ..self }
    }

    /// Operations of a batch of slices that are in device memory at once, 2^24 by default and less than 2^32; longer batches are run in such parts.
    #[must_use]
    pub fn staged(self, operations: usize) -> Self {
        Self { staged: operations, ..self }
    }
}

/// The kinds of the operations of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub enum IndexOpKinds<'a> {
    /// All are the same. Batches of [`IndexOpKind::Search`] alone need no order and are fastest.
    All(IndexOpKind),
    /// A byte for each operation: an [`IndexOpKind`]. Other bytes are answered as [`IndexOpKind::Search`].
    Each(&'a Buffer),
}

/// A batch of operations on a [`CuckooIndex`] in device memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceIndexOps<'a> {
    /// What the operations do.
    pub kinds: IndexOpKinds<'a>,
    /// Their hashes, eight bytes each.
    pub hashes: &'a Buffer,
    /// Their locations, four bytes each; 0 if there are none.
    pub locations: Option<&'a Buffer>,
    /// The locations that [`IndexOpKind::Replace`] looks for, four bytes each.
    pub olds: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where the answers to a [batch](DeviceIndexOps) in device memory go. What the buffers have before does not matter.
#[derive(Debug)]
pub struct DeviceIndexAnswers<'a> {
    /// A byte for each operation: an [`IndexStatus`].
    pub statuses: &'a mut Buffer,
    /// A byte for each operation: how many entries matched.
    pub matches: Option<&'a mut Buffer>,
    /// Two locations of four bytes for each operation: those of the entries that matched, the lowest first, and [`NO_LOCATION`].
    pub locations: Option<&'a mut Buffer>,
}

/// An index from 64-bit hashes of keys to 32-bit locations, in device memory or on the CPU: Mega-KV's, with an answer to everything.
///
/// An entry takes eight bytes: a signature of 32 bits of the hash, and the location. A search gives the locations of the entries with
/// the same signature in the two buckets of the hash, and the caller compares the keys there. Entries are counted, not merged: what was
/// inserted twice is there twice. Operations of a batch on one hash act in the batch's order. Only batches of insertions alone and of
/// deletions alone have no order: of several on one hash it is open which are answered [`IndexStatus::Full`] or [`IndexStatus::Absent`] where
/// not all can be done. Calls may come from several threads, and those that change the index run one after the other.
///
/// ```
/// use warpkeep_containers::{CuckooIndex, CuckooIndexOptions, IndexOp, IndexStatus};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let options = CuckooIndexOptions::default().items(1000);
/// let index = CuckooIndex::new(&Device::open(DeviceChoice::Sim)?, &options)?;
/// let hashes = [0x1111_0000_0001, 0x2222_0000_0002];
/// assert!(index.insert(&hashes, &[70, 80])?.iter().all(|answer| answer.status.is_added()));
/// assert_eq!(index.search(&hashes)?[1].locations(), [80]);
///
/// // A new version of the first key is at 71.
/// let answers = index.apply(&[IndexOp::replace(hashes[0], 70, 71), IndexOp::search(hashes[0])])?;
/// assert_eq!((answers[0].status, answers[0].locations()), (IndexStatus::Replaced, &[70][..]));
/// assert_eq!(answers[1].locations(), [71]);
/// let gone = index.delete(&hashes, &[71, 81])?;
/// assert_eq!((gone[0].status, gone[1].status), (IndexStatus::Deleted, IndexStatus::Absent));
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug)]
pub struct CuckooIndex {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Device(Box<DeviceIndex>),
    Cpu(CpuIndex),
}

impl CuckooIndex {
    /// The program that its kernels are in.
    pub fn program() -> Program {
        DeviceIndex::program()
    }

    /// An empty index in the memory of this device.
    pub fn new(device: &Device, options: &CuckooIndexOptions) -> Result<CuckooIndex, ContainerError> {
        let layout = Layout::for_items(options.items)?;
        let index = DeviceIndex::new(device, layout, options.staged)?;
        Ok(CuckooIndex { kind: Kind::Device(Box::new(index)) })
    }

    /// An empty index in the memory of the host, worked by the thread that calls. All calls that take slices work alike.
    ///
    /// ```
    /// use warpkeep_containers::{CuckooIndex, CuckooIndexOptions};
    ///
    /// let index = CuckooIndex::on_cpu(&CuckooIndexOptions::default().items(1000))?;
    /// index.insert(&[7 << 32, 8 << 32], &[10, 20])?;
    /// assert_eq!(index.search(&[8 << 32])?[0].locations(), [20]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn on_cpu(options: &CuckooIndexOptions) -> Result<CuckooIndex, ContainerError> {
        Ok(CuckooIndex { kind: Kind::Cpu(CpuIndex::new(Layout::for_items(options.items)?)?) })
    }

    /// Adds an entry for each hash.
    pub fn insert(&self, hashes: &[u64], locations: &[u32]) -> Result<Vec<IndexAnswer>, ContainerError> {
        check_columns(hashes, locations, "locations")?;
        self.run(&HostBatch::All(IndexOpKind::Insert, hashes, locations, None))
    }

    /// Gives entries with the locations `olds` other ones; adds those that are not there.
    pub fn replace(
        &self,
        hashes: &[u64],
        olds: &[u32],
        locations: &[u32],
    ) -> Result<Vec<IndexAnswer>, ContainerError> {
        check_columns(hashes, olds, "old locations")?;
        check_columns(hashes, locations, "locations")?;
        self.run(&HostBatch::All(IndexOpKind::Replace, hashes, locations, Some(olds)))
    }

    /// Removes entries: for each hash the one with this location, once.
    pub fn delete(&self, hashes: &[u64], locations: &[u32]) -> Result<Vec<IndexAnswer>, ContainerError> {
        check_columns(hashes, locations, "locations")?;
        self.run(&HostBatch::All(IndexOpKind::Delete, hashes, locations, None))
    }

    /// The entries that match each hash: how many, and up to two locations.
    pub fn search(&self, hashes: &[u64]) -> Result<Vec<IndexAnswer>, ContainerError> {
        self.run(&HostBatch::Search(hashes))
    }

    /// The locations of all entries that match each hash, the lowest first: for those that [`search`](Self::search) answered
    /// [`IndexStatus::Truncated`].
    pub fn search_all(&self, hashes: &[u64]) -> Result<Vec<Vec<u32>>, ContainerError> {
        let mut all = Vec::with_capacity(hashes.len());
        match &self.kind {
            Kind::Device(index) => index.search_all(hashes, |locations| {
                let mut found = locations.to_vec();
                found.sort_unstable();
                all.push(found);
            })?,
            Kind::Cpu(index) => {
                let cells = index.lock();
                all.extend(hashes.iter().map(|hash| cells.search(*hash)));
            }
        }
        Ok(all)
    }

    /// Runs operations of all kinds, those on one hash in their order.
    pub fn apply(&self, ops: &[IndexOp]) -> Result<Vec<IndexAnswer>, ContainerError> {
        self.run(&HostBatch::Each(ops))
    }

    /// Runs a batch in device memory after what is in the stream, and waits for it.
    ///
    /// # Errors
    /// If a buffer is too short or of another device, if there are 2^32 operations or more and not all of them are searches, or if the index is on the
    /// CPU, before anything is changed.
    pub fn apply_on(
        &self,
        ops: DeviceIndexOps<'_>,
        answers: DeviceIndexAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let index = self.on_device("apply_on")?;
        let (count, DeviceIndexAnswers { statuses, matches, locations }) = (ops.count, answers);
        let (codes, code) = match ops.kinds {
            IndexOpKinds::All(kind) => (None, kind as u32),
            IndexOpKinds::Each(codes) => (Some(codes), 0),
        };
        if !matches!(ops.kinds, IndexOpKinds::All(IndexOpKind::Search)) {
            check_operations(count)?;
        }
        let column =
            |buffer: Option<&Buffer>, element, what| own_column(buffer, element, count, what, &index.device);
        let staged = Staged {
            hashes: column(Some(ops.hashes), 8, "hashes")?,
            codes: column(codes, 1, "kinds of operations")?,
            code,
            locations: column(ops.locations, 4, "locations")?,
            olds: column(ops.olds, 4, "old locations")?,
            statuses: column(Some(statuses), 1, "statuses")?,
            matches: column(matches.as_deref(), 1, "matches")?,
            found: column(locations.as_deref(), 8, "locations found")?,
            count,
        };
        // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively.
        unsafe { index.run_staged(&staged, stream)? };
        Ok(())
    }

    /// The number of entries: exact, counted by the kernels that change it.
    pub fn len(&self) -> Result<u64, ContainerError> {
        match &self.kind {
            Kind::Device(index) => Ok(index.read().len()?),
            Kind::Cpu(index) => Ok(index.lock().len),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> Result<bool, ContainerError> {
        Ok(self.len()? == 0)
    }

    /// Removes all entries.
    pub fn clear(&self) -> Result<(), ContainerError> {
        match &self.kind {
            Kind::Device(index) => index.write().clear()?,
            Kind::Cpu(index) => index.lock().clear(),
        }
        Ok(())
    }

    /// What kernels of others need to use the index.
    pub fn reference(&self) -> Result<CuckooIndexRef, ContainerError> {
        Ok(self.on_device("reference")?.read().reference())
    }

    fn layout(&self) -> Layout {
        match &self.kind {
            Kind::Device(index) => index.layout,
            Kind::Cpu(index) => index.layout,
        }
    }

    fn on_device(&self, what: &'static str) -> Result<&DeviceIndex, ContainerError> {
        match &self.kind {
            Kind::Device(index) => Ok(index),
            Kind::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    fn run(&self, batch: &HostBatch<'_>) -> Result<Vec<IndexAnswer>, ContainerError> {
        let mut answers = Vec::with_capacity(batch.len());
        match &self.kind {
            Kind::Device(index) => index.run(batch, |answer| answers.push(answer))?,
            Kind::Cpu(index) => index.run(batch, |answer| answers.push(answer)),
        }
        Ok(answers)
    }
}

fn check_columns(hashes: &[u64], column: &[u32], what: &'static str) -> Result<(), ContainerError> {
    match (column.len(), hashes.len()) {
        (given, expected) if given == expected => Ok(()),
        (given, expected) => Err(ContainerError::WrongLength { what, given, expected }),
    }
}
