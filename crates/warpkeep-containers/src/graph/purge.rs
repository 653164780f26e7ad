//! Vertices of a graph in device memory are deleted, and its pool is compacted.

use warpkeep_device::{Buffer, DevicePtr, Stream};

use super::device::DeviceGraph;
use super::kernels::{PURGED_WORDS, Purge, WARP};
use super::storage::{Room, Storage, is_short};
use crate::ContainerError;

impl DeviceGraph {
    /// Removes vertices with all edges that lead from them and to them, as a whole or not at all; gives the number of edges in lists that went, and that of loops among
    /// them.
    pub(super) fn delete_vertices(&self, vertices: &[u32]) -> Result<(u64, u64), ContainerError> {
        let _turn = self.turn();
        let mut storage = self.write();
        let words = storage.vertices.div_ceil(32) as usize;
        let mut doomed = vec![0_u32; words];
        for vertex in vertices.iter().filter(|vertex| u64::from(**vertex) < storage.vertices) {
            doomed[*vertex as usize / 32] |= 1 << (vertex % 32);
        }
        let workspace = self.workspaces.take(&self.device)?;
        let (stream, doomed) = (&workspace.stream, self.device.upload(&doomed)?);
        self.freeze(&mut storage, stream)?;
        let control = self.device.allocate_zeroed(8 * PURGED_WORDS)?;
        let mut params = Purge {
            graph: storage.reference(),
            doomed: doomed.ptr(),
            doomed_words: words as u64,
            control: control.ptr(),
            needs: DevicePtr::NULL,
            pool_end: storage.pool_end,
            frozen: storage.frozen,
        };
        let needs = match storage.frozen {
            0 => None,
            _ => Some(self.reserve_copies(&mut params, &mut storage, &control, stream)?),
        };
        // SAFETY: there is a bit for each vertex and room for the new blocks, and the storage is borrowed exclusively until the stream is synchronised.
        unsafe { self.launch(&self.kernels.purge, WARP * storage.vertices, &params, stream)? };
        let [removed, loops, dead, frozen_dead, needed] = read(&control, stream)?;
        storage.entries -= removed;
        storage.loops -= loops;
        storage.pool_end += needed;
        storage.dead += dead;
        storage.frozen_dead += frozen_dead;
        storage.version += 1;
        drop((storage, needs));
        self.workspaces.put_back(workspace);
        Ok((removed, loops))
    }

    /// Makes room for copies of the lists that lose edges and belong to snapshots. Gives the memory that the parameters point to.
    fn reserve_copies(
        &self,
        params: &mut Purge,
        storage: &mut Storage,
        control: &Buffer,
        stream: &Stream,
    ) -> Result<Buffer, ContainerError> {
        let count = storage.vertices as usize + 1;
        let mut needs = self.device.allocate(4 * count)?;
        params.needs = needs.ptr();
        // SAFETY: there is an element for each vertex and one more; the storage is borrowed exclusively.
        unsafe { self.launch(&self.kernels.measure_purge, WARP * count as u64, params, stream)? };
        let ([.., needed], vertices) = (read(control, stream)?, storage.vertices);
        self.sorter.exclusive_scan(&mut needs, count, stream)?;
        // Blocks of snapshots do not move, so what is needed stays the same.
        if storage.reserve(needed, vertices, false)? == Room::AfterCompaction {
            match self.compaction(stream).run(storage) {
                Err(error) if !is_short(&error) => return Err(error.into()),
                _ => {}
            }
            storage.reserve(needed, vertices, true)?;
        }
        params.pool_end = storage.pool_end;
        Ok(needs)
    }

    /// Compacts the pool now.
    pub(super) fn compact(&self) -> Result<(), ContainerError> {
        let workspace = self.workspaces.take(&self.device)?;
        let _turn = self.turn();
        let mut storage = self.write();
        self.freeze(&mut storage, &workspace.stream)?;
        self.compaction(&workspace.stream).run(&mut storage)?;
        drop(storage);
        self.workspaces.put_back(workspace);
        Ok(())
    }
}

fn read(control: &Buffer, stream: &Stream) -> Result<[u64; PURGED_WORDS], ContainerError> {
    let mut words = [0; PURGED_WORDS];
    control.read_on(0, &mut words, stream)?;
    Ok(words)
}
