//! A map in device memory: its versions, and who changes it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use warpkeep_device::{Device, DevicePtr, Result, Stream, WorkspacePool};

use super::OrderedMapOptions;
use super::columns::Columns;
use super::kernels::{CACHING_THREADS, Kernels, OrderedMapRef, Shape};
use super::pool::{LeafPool, SweepColumns};
use super::version::{Directories, Layout, Version};
use crate::Sorter;

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) device: Device,
    pub(super) shape: Shape,
    pub(super) kernels: Kernels,
    pub(super) sorter: Sorter,
    /// Blocks that the device runs at once of those that keep the upper levels of a directory.
    pub(super) caching_blocks: u32,
    /// Where the leaves are: they grow in place.
    pub(super) leaves: DevicePtr,
    current: RwLock<Arc<Version>>,
    writer: Mutex<Writer>,
    pub(super) directories: Arc<Directories>,
    pub(super) workspaces: WorkspacePool<Columns>,
}

/// What only the batch that changes the map uses.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) pool: LeafPool,
    /// All versions that may still be there.
    versions: Vec<Weak<Version>>,
}

impl Tree {
    pub(super) fn new(device: &Device, shape: Shape, options: &OrderedMapOptions) -> Result<Tree> {
        let pool = LeafPool::new(device, shape, options.most_bytes)?;
        let directories = Arc::new(Directories::default());
        let empty = Arc::new(Version::new(0, 0, Layout::default(), None, directories.clone()));
        let versions = vec![Arc::downgrade(&empty)];
        let kernels = Kernels::load(device, shape)?;
        Ok(Tree {
            device: device.clone(),
            shape,
            caching_blocks: kernels.find_cached.resident_blocks(CACHING_THREADS, 0)?.max(1),
            kernels,
            sorter: Sorter::new(device)?,
            leaves: pool.leaves(),
            current: RwLock::new(empty),
            writer: Mutex::new(Writer { pool, versions }),
            directories,
            workspaces: WorkspacePool::default(),
        })
    }

    /// The newest version, which stays as it is while the caller has it.
    pub(super) fn current(&self) -> Arc<Version> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn reference(&self, version: &Version) -> OrderedMapRef {
        version.reference(self.leaves)
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a version the newest. The leaves at `retired` that it no longer uses are free at once, or when no snapshot needs them. If there is
    /// no memory to remember them, nothing has changed.
    ///
    /// # Safety
    /// The lists have as many handles as they say, of leaves that the newest version uses or none does, and the kernels that write the new
    /// version are in the stream.
    pub(super) unsafe fn commit(
        &self,
        writer: &mut Writer,
        version: Version,
        state: super::pool::PoolState,
        retired: &[(DevicePtr, u64)],
        stream: &Stream,
    ) -> Result<()> {
        stream.synchronize()?;
        let (end, count) = (version.number, retired.iter().map(|(_, count)| count).sum::<u64>());
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // No other code can pin the newest version now. One reference is the map's, and there are none but those of pins beside it.
        let is_pinned =
            Arc::strong_count(&current) > 1 || writer.pins().iter().any(|pin| *pin < current.number);
        if is_pinned && count > 0 {
            let list = self.device.allocate(4 * count as usize)?;
            let mut at = list.ptr();
            for &(handles, count) in retired {
                // SAFETY: the caller's promise; the list has room for all.
                unsafe { self.device.copy_raw(at, handles, 4 * count as usize, stream)? };
                at = at.offset(4 * count);
            }
            stream.synchronize()?;
            writer.pool.state = state;
            writer.pool.retire(list, count, end);
        } else {
            writer.pool.state = state;
            for &(handles, count) in retired {
                // SAFETY: the caller's promise, and no version but the newest used these leaves, which is about to go.
                unsafe { writer.pool.give_back(handles, count, &self.device, stream)? };
            }
            stream.synchronize()?;
        }
        let version = Arc::new(version);
        writer.versions.push(Arc::downgrade(&version));
        *current = version;
        Ok(())
    }

    /// Takes leaves back that were retired and that no version needs any more.
    pub(super) fn collect(
        &self,
        writer: &mut Writer,
        columns: &mut SweepColumns,
        stream: &Stream,
    ) -> Result<()> {
        // The newest version uses no leaf that was retired.
        let mut pins = writer.pins();
        pins.pop();
        writer.pool.collect(&pins, &self.kernels, columns, &self.device, stream)
    }
}

impl Writer {
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
