//! A map in device memory: its versions, and who changes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use warpkeep_device::{Device, DevicePtr, Result, Stream, WorkspacePool};

use super::OrderedMapOptions;
use super::columns::Columns;
use super::kernels::{CACHING_THREADS, Kernels, OrderedMapRef, Shape};
use super::pool::{LeafPool, NoRoom as _, PoolState};
use super::removals::RemovalColumns;
use super::retired::SweepColumns;
use super::version::{Directories, Layout, Version};
use crate::Sorter;
use crate::batch_columns::settled;

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) device: Device,
    pub(super) shape: Shape,
    pub(super) kernels: Kernels,
    pub(super) sorter: Sorter,
    pub(super) caching_blocks: CachingBlocks,
    /// Where the leaves are: they grow in place.
    pub(super) leaves: DevicePtr,
    current: RwLock<Arc<Version>>,
    writer: Mutex<Writer>,
    pub(super) directories: Arc<Directories>,
    pub(super) workspaces: WorkspacePool<Columns>,
    /// For a small batch that removes keys when there is no memory for another workspace.
    pub(super) for_removals: RemovalColumns,
}

/// Blocks that the device runs at once of the kernels that keep the upper levels of a directory.
#[derive(Debug)]
pub(super) struct CachingBlocks {
    pub(super) find: u32,
    pub(super) near: u32,
    pub(super) ranges: u32,
}

impl CachingBlocks {
    fn of(kernels: &Kernels) -> Result<Self> {
        Ok(Self {
            find: kernels.find_cached.resident_blocks(CACHING_THREADS, 0)?.max(1),
            near: kernels.near_cached.resident_blocks(CACHING_THREADS, 0)?.max(1),
            ranges: kernels.ranges_cached.resident_blocks(CACHING_THREADS, 0)?.max(1),
        })
    }
}

/// What only the batch that changes the map uses.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) pool: LeafPool,
    /// All versions that may still be there.
    versions: Vec<Weak<Version>>,
    /// Whether kernels change it: then leaves that are free may be in use.
    pub(super) is_open: bool,
}

impl Tree {
    pub(super) fn new(device: &Device, shape: Shape, options: &OrderedMapOptions) -> Result<Tree> {
        let pool = LeafPool::new(device, shape, options.most_bytes)?;
        let directories = Arc::new(Directories::default());
        let first = options.first_version;
        let empty = Arc::new(Version::new(first, 0, Layout::default(), None, directories.clone()));
        let versions = vec![Arc::downgrade(&empty)];
        let kernels = Kernels::load(device, shape)?;
        Ok(Tree {
            device: device.clone(),
            shape,
            caching_blocks: CachingBlocks::of(&kernels)?,
            kernels,
            sorter: Sorter::new(device)?,
            leaves: pool.leaves(),
            current: RwLock::new(empty),
            writer: Mutex::new(Writer { pool, versions, is_open: false }),
            directories,
            workspaces: WorkspacePool::default(),
            for_removals: RemovalColumns::new(device, shape)?,
        })
    }

    /// The newest version, which stays as it is while the caller has it.
    pub(super) fn current(&self) -> Arc<Version> {
        self.read().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Arc<Version>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self) -> RwLockWriteGuard<'_, Arc<Version>> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reference(&self, version: &Version) -> OrderedMapRef {
        version.reference(self.leaves)
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` while no other batch changes the map. After an error the stream is waited for before another batch begins: kernels may
    /// still write leaves and directories, and what was not committed is free for the next batch.
    pub(super) fn writing<T, E>(
        &self,
        stream: &Stream,
        work: impl FnOnce(&mut Writer) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.writing_until(work, |done| settled(done, stream))
    }

    fn writing_until<T>(&self, work: impl FnOnce(&mut Writer) -> T, settle: impl FnOnce(T) -> T) -> T {
        let mut writer = self.write();
        let done = work(&mut writer);
        settle(done)
    }

    /// Waits for the stream and makes a version the newest. The leaves at `retired` that it no longer uses are free at
    /// once, or when no snapshot needs them. Reads wait for none of it, and it takes no memory.
    ///
    /// # Safety
    /// The lists have as many handles as they say, of leaves that the newest version uses or none does, the list of retired leaves has room
    /// for them, and the kernels that write the new version are in the stream.
    pub(super) unsafe fn commit(
        &self,
        writer: &mut Writer,
        version: Version,
        mut state: PoolState,
        retired: &[(DevicePtr, u64)],
        stream: &Stream,
    ) -> Result<()> {
        let (end, count) = (version.number, retired.iter().map(|(_, count)| count).sum::<u64>());
        let is_pinned = count > 0 && writer.is_pinned(&self.read());
        if is_pinned {
            // SAFETY: the caller's promise.
            unsafe { writer.pool.retired.enqueue(retired, end, &self.kernels, stream)? };
        } else {
            // The kernels before it in the stream have read the handles that were free there.
            let mut to = writer.pool.behind_free(state);
            for &(handles, count) in retired {
                // SAFETY: the caller's promise; the list of free leaves has room for every leaf that there is.
                unsafe { self.device.copy_raw(to, handles, 4 * count as usize, stream)? };
                to = to.offset(4 * count);
            }
        }
        stream.synchronize()?;
        let mut current = self.replace();
        // A read or a snapshot may have begun during the wait. While the lock is held none can begin.
        let is_pinned_late = !is_pinned && count > 0 && writer.is_pinned(&current);
        if is_pinned_late {
            drop(current);
            // SAFETY: the caller's promise.
            unsafe { writer.pool.retired.enqueue(retired, end, &self.kernels, stream)? };
            stream.synchronize()?;
            current = self.replace();
        }
        match is_pinned || is_pinned_late {
            true => writer.pool.retired.extend(count),
            false => state.free += count,
        }
        writer.pool.state = state;
        let version = Arc::new(version);
        writer.versions.push(Arc::downgrade(&version));
        let before = std::mem::replace(&mut *current, version);
        // The memory of the version before may be freed here, which takes time.
        drop(current);
        drop(before);
        Ok(())
    }

    /// Takes leaves back that were retired and that no version needs any more. Without memory for that they stay where they are.
    pub(super) fn collect(
        &self,
        writer: &mut Writer,
        columns: &mut SweepColumns,
        stream: &Stream,
    ) -> Result<()> {
        if writer.is_open {
            return Ok(());
        }
        // The newest version uses no leaf that was retired.
        let mut pins = writer.pins();
        pins.pop();
        match writer.pool.collect(&pins, &self.kernels, columns, &self.device, stream) {
            Err(error) if error.is_no_room() => Ok(()),
            other => other,
        }
    }
}

impl Writer {
    /// Whether anything but the map has the newest version, or any an older one.
    fn is_pinned(&mut self, newest: &Arc<Version>) -> bool {
        Arc::strong_count(newest) > 1 || self.pins().iter().any(|pin| *pin < newest.number)
    }

    /// The numbers of the versions that are there, in ascending order.
    pub(super) fn pins(&mut self) -> Vec<u64> {
        self.versions.retain(|version| version.strong_count() > 0);
        self.versions.iter().filter_map(|version| Some(version.upgrade()?.number)).collect()
    }

    /// The versions that are there, in ascending order.
    pub(super) fn versions(&self) -> Vec<Arc<Version>> {
        self.versions.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_device::Mode;

    use super::*;

    /// The next batch would take leaves and directories to which kernels of the first one still write.
    #[test]
    fn no_batch_begins_before_the_kernels_of_one_that_failed_have_ended() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let tree = Tree::new(&device, Shape::U64, &OrderedMapOptions::default()).unwrap();
        let is_locked = || tree.writer.try_lock().is_err();
        tree.writing_until(|_| assert!(is_locked()), |()| assert!(is_locked()));
        assert!(!is_locked());
        let stream = device.stream().unwrap();
        assert_eq!(tree.writing(&stream, |_| Err::<(), u32>(7)), Err(7));
    }
}
