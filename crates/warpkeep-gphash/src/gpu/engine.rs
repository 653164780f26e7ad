//! The engine: one table's kernels, locks, workspaces and thresholds.
//!
//! # Locks
//!
//! * The *write lock* gives the right to write to a table, with the device or with the CPU. It owns the workspace of
//!   the writer.
//! * The *relocation lock* keeps items at their slots while kernels probe for them. Kernels that probe hold it for
//!   reading; growth, displacement and the value cache, which reuses rows, take it for writing.
//!
//! Order: write lock, relocation lock, epoch, lock of the device index. The relocation lock comes before the epoch
//! because its writer waits for epochs to end while readers wait for the writer. A reader that updates the device
//! index only tries the write lock.
//!
//! # Workspaces
//!
//! A batch runs in a [`Workspace`]: a stream, and staging buffers for its columns. Readers take one from a pool, so
//! that any number of them read at the same time; the writer's is part of the write lock.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use warpkeep_device::{Device, StagedBuffer, WorkspacePool};
use warpkeep_image::Persist;

use crate::gpu::blocks::BlockPool;
use crate::gpu::cuckoo::RecordSignatures;
use crate::gpu::image::DeviceImage;
use crate::gpu::index::DeviceIndex;
use crate::gpu::kernels::{Kernels, constants_of};
use crate::gpu::params::TableParams;
use crate::gpu::profile::DeviceProfile;
use crate::gpu::read::lookup::ScatterCounts;
use crate::gpu::write::FusedWrites;
use crate::gpu::write::level_copies::LevelCopies;
use crate::{Table, TableError};

/// Threads of a block: enough warps that a multiprocessor has work while some of them wait. Kernels that look for
/// equal keys within a block have space for this many, and `gphash_locate` is compiled for it.
pub(super) const THREADS: u32 = 256;

/// Operations of a batch in device memory, at most: kernels number them with 32 bits.
pub(super) const MOST_OPERATIONS: u64 = 1 << 31;

/// Runs the batches of one table on a device.
pub struct DeviceEngine<P: Persist> {
    pub(crate) image: Arc<DeviceImage<P>>,
    pub(crate) kernels: Kernels,
    /// The write lock, with the writer's workspace.
    writer: Mutex<Workspace>,
    /// Workspaces of readers.
    pub(super) readers: WorkspacePool<Columns>,
    relocation: RelocationLock,
    pub(super) device_index: DeviceIndex,
    /// The index of a table that the device only reads.
    pub(super) signatures: RecordSignatures,
    profile: RwLock<DeviceProfile>,
    /// Used by the holder of the write lock.
    block_pool: Mutex<BlockPool<P>>,
    /// Used by the holder of the write lock.
    level_copies: Mutex<LevelCopies>,
    pub(super) fused: FusedWrites,
}

/// The right to write to a table that a device works, with the device or with the CPU.
pub struct WriteLock<'e, P: Persist> {
    pub(crate) engine: &'e DeviceEngine<P>,
    pub(crate) workspace: MutexGuard<'e, Workspace>,
}

impl<P: Persist> DeviceEngine<P> {
    /// An engine for a table of the image.
    pub fn new(image: &Arc<DeviceImage<P>>, table: &Table<P>) -> Result<DeviceEngine<P>, TableError> {
        let constants =
            constants_of(table).ok_or(TableError::NotForDevices { key: table.key, value: table.value })?;
        let device = image.device();
        let kernels = Kernels::load(device, &constants)?;
        image.follow(table.heap())?;
        table.by_device.store(true, Ordering::Release);
        Ok(DeviceEngine {
            image: Arc::clone(image),
            kernels,
            writer: Mutex::new(Workspace::new(device)?),
            readers: WorkspacePool::default(),
            relocation: RelocationLock::default(),
            device_index: DeviceIndex::default(),
            signatures: RecordSignatures::default(),
            profile: RwLock::new(DeviceProfile::of(device.info())?),
            block_pool: Mutex::new(BlockPool::new(&table.heap, table.pool, table.form)),
            level_copies: Mutex::default(),
            fused: FusedWrites::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.image.device()
    }

    /// Whether the device can write to the table, and not only read: values have a fixed length, and keys have one or
    /// are stored in cells. If it cannot, the CPU writes, and holds the [write lock](DeviceEngine::write_lock)
    /// meanwhile.
    pub fn writes(&self, table: &Table<P>) -> bool {
        is_fixed(table)
    }

    /// Waits for the right to write.
    pub fn write_lock(&self) -> WriteLock<'_, P> {
        WriteLock { engine: self, workspace: self.writer.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// The right to write, if it is free.
    pub(super) fn try_write_lock(&self) -> Option<WriteLock<'_, P>> {
        let workspace = match self.writer.try_lock() {
            Ok(workspace) => workspace,
            Err(TryLockError::Poisoned(workspace)) => workspace.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(WriteLock { engine: self, workspace })
    }

    /// The thresholds that decide how a batch runs.
    pub fn profile(&self) -> DeviceProfile {
        *self.profile.read()
    }

    /// Changes the thresholds, for batches that begin later.
    pub fn adjust(&self, change: impl FnOnce(&mut DeviceProfile)) {
        change(&mut self.profile.write());
    }

    pub(super) fn block_pool(&self) -> MutexGuard<'_, BlockPool<P>> {
        self.block_pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn level_copies(&self) -> MutexGuard<'_, LevelCopies> {
        self.level_copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps items at their slots, for kernels that probe for them. To be called before an epoch is pinned.
    pub(crate) fn relocation_read(&self) -> RelocationRead<'_> {
        self.relocation.read()
    }

    /// Keeps kernels from probing while items move.
    pub fn relocation_write(&self) -> RelocationWrite<'_> {
        self.relocation.write()
    }

    /// The same, if no kernel probes now.
    pub fn try_relocation_write(&self) -> Option<RelocationWrite<'_>> {
        self.relocation.try_write()
    }

    /// The table as it is now, for a kernel that probes for items. The caller holds the relocation lock.
    pub(super) fn table_params(
        &self,
        table: &Table<P>,
        guard: &crossbeam_epoch::Guard,
    ) -> Result<TableParams, TableError> {
        Ok(TableParams::new(table, table.levels(guard), self.image.cover()?))
    }

    /// A workspace for a reader.
    pub(super) fn take_workspace(&self) -> Result<Workspace, TableError> {
        Ok(self.readers.take(self.device())?)
    }

    /// Keeps a workspace for another reader. Nothing uses its columns any more.
    pub(super) fn keep_workspace(&self, workspace: Workspace) {
        self.readers.put_back(workspace);
    }

    /// Ends a batch: waits for its streams, drops what its kernels needed (`held`), and keeps its workspaces for
    /// others. Returns the first error of the batch or of the streams.
    pub(super) fn return_workspaces<H>(
        &self,
        workspaces: impl IntoIterator<Item = Workspace>,
        held: H,
        done: Result<(), TableError>,
    ) -> Result<(), TableError> {
        let workspaces: Vec<Workspace> = workspaces.into_iter().collect();
        let idle: Vec<_> = workspaces.iter().map(|workspace| workspace.stream.synchronize()).collect();
        drop(held);
        workspaces.into_iter().for_each(|workspace| self.keep_workspace(workspace));
        done.and(idle.into_iter().collect::<Result<(), _>>().map_err(TableError::from))
    }

    /// Runs `work` in a reader's workspace, which nothing uses afterwards.
    pub(super) fn with_workspace<R>(
        &self,
        work: impl FnOnce(&mut Workspace) -> Result<R, TableError>,
    ) -> Result<R, TableError> {
        let mut workspace = self.take_workspace()?;
        let done = work(&mut workspace);
        if done.is_ok() {
            // After an error a kernel may still be running: then the workspace is dropped, which waits for the device.
            self.keep_workspace(workspace);
        }
        done
    }
}

/// An error if a batch has more operations than kernels can number.
pub(super) fn check_count(count: u64) -> Result<(), TableError> {
    match count <= MOST_OPERATIONS {
        true => Ok(()),
        false => Err(TableError::BatchTooLarge { count, most: MOST_OPERATIONS }),
    }
}

/// An error if values have variable lengths, or keys have and are not stored in cells.
pub(super) fn check_fixed<P: Persist>(table: &Table<P>) -> Result<(), TableError> {
    let error = || TableError::NotForDevices { key: table.key, value: table.value };
    is_fixed(table).then_some(()).ok_or_else(error)
}

pub(super) fn is_fixed<P: Persist>(table: &Table<P>) -> bool {
    table.key_row_len().is_some() && table.value.fixed_len().is_some()
}

/// The stream and the columns of one batch, kept for the next one.
pub(crate) type Workspace = warpkeep_device::Workspace<Columns>;

/// The columns of batches of all kinds. A batch allocates those that it uses.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) ops: StagedBuffer,
    pub(crate) keys: StagedBuffer,
    pub(crate) values: StagedBuffer,
    pub(crate) arguments: StagedBuffer,
    pub(crate) blocks: StagedBuffer,
    pub(crate) statuses: StagedBuffer,
    pub(crate) versions: StagedBuffer,
    pub(crate) answers: StagedBuffer,
    pub(crate) pending: StagedBuffer,
    pub(crate) counters: StagedBuffer,
    /// How many operations fall back, and which: gets to the image, writes to the CPU.
    pub(crate) fallback_count: StagedBuffer,
    pub(crate) fallbacks: StagedBuffer,
    pub(crate) scatter_counts: ScatterCounts,
    /// The summary of a fused write, and behind it the dedup table of its keys.
    pub(crate) dedup: StagedBuffer,
    pub(crate) records: StagedBuffer,
    pub(crate) ranks: StagedBuffer,
    pub(crate) partition: StagedBuffer,
    pub(crate) fetches: StagedBuffer,
    /// For two-phase writes: a hash table of operations by key, and which operations fall back to the CPU.
    pub(crate) duplicate_slots: StagedBuffer,
    pub(crate) fallback_flags: StagedBuffer,
    pub(crate) begins: StagedBuffer,
    pub(crate) lengths: StagedBuffer,
    pub(crate) effect_ranks: StagedBuffer,
    pub(crate) effective: StagedBuffer,
    /// Slot words that the host stores for the device.
    pub(crate) store_list: StagedBuffer,
    pub(crate) digests: StagedBuffer,
}

thread_local! {
    /// How many [`RelocationRead`] this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A read-write lock against relocation of items.
#[derive(Debug, Default)]
struct RelocationLock(RwLock<()>);

impl RelocationLock {
    /// A thread may hold several. A waiting writer blocks new readers and waits for the first guard of this thread,
    /// so the second one must not wait for the writer.
    fn read(&self) -> RelocationRead<'_> {
        let guard = if HELD.get() == 0 { self.0.read() } else { self.0.read_recursive() };
        HELD.set(HELD.get() + 1);
        RelocationRead { _guard: guard, _of_this_thread: PhantomData }
    }

    fn write(&self) -> RelocationWrite<'_> {
        RelocationWrite { _guard: self.0.write() }
    }

    fn try_write(&self) -> Option<RelocationWrite<'_>> {
        Some(RelocationWrite { _guard: self.0.try_write()? })
    }
}

/// While this exists no kernel probes for items, and they may be moved.
#[derive(Debug)]
#[must_use = "kernels probe for items as soon as it is dropped"]
pub struct RelocationWrite<'p> {
    _guard: RwLockWriteGuard<'p, ()>,
}

/// While this exists items stay at their slots. It is counted for its thread, so it is not `Send`.
#[derive(Debug)]
pub(crate) struct RelocationRead<'p> {
    _guard: RwLockReadGuard<'p, ()>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for RelocationRead<'_> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// With a fair lock the second read would wait for the writer, which waits for the first.
    #[test]
    fn thread_reads_twice_while_a_writer_waits() {
        let lock = RelocationLock::default();
        let (done, is_done) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = lock.read();
            let writer = scope.spawn(|| drop(lock.write()));
            // Until the writer waits.
            std::thread::sleep(Duration::from_millis(100));
            assert!(!writer.is_finished());
            let watchdog = scope.spawn(move || {
                let done: Result<(), _> = is_done.recv_timeout(Duration::from_secs(20));
                // A deadlocked thread cannot be ended otherwise.
                if done.is_err() {
                    eprintln!(
                        "deadlock: the second read waits for the writer, which waits for the first read"
                    );
                    std::process::abort();
                }
            });
            let second = lock.read();
            done.send(()).unwrap();
            drop((first, second));
            writer.join().unwrap();
            watchdog.join().unwrap();
        });
        assert_eq!(HELD.get(), 0);
    }
}
