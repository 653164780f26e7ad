//! Algorithms on a graph in device memory.

use warpkeep_device::{Buffer, Result, Stream, Workspace};

use super::algorithms::{RANKS, base_rank};
use super::columns::Columns;
use super::device::DeviceGraph;
use super::kernels::{Count, Join, Level, Rank, WARP};

impl DeviceGraph {
    pub(super) fn bfs(&self, sources: &[u32]) -> Result<Vec<u32>> {
        let storage = self.read();
        let (device, vertices) = (&self.device, storage.vertices as usize);
        let mut levels = vec![u32::MAX; vertices];
        let mut frontier = Vec::new();
        for source in sources {
            if let Some(level) = levels.get_mut(*source as usize).filter(|level| **level != 0) {
                *level = 0;
                frontier.push(*source);
            }
        }
        let workspace = self.workspaces.take(device)?;
        let stream = &workspace.stream;
        let on_device = device.upload(&levels)?;
        let mut fronts = [device.allocate(4 * vertices)?, device.allocate(4 * vertices)?];
        fronts[0].write_on(0, &frontier, stream)?;
        let (found, mut count) = (device.allocate(8)?, frontier.len() as u64);
        for level in 1.. {
            if count == 0 {
                break;
            }
            found.fill_on(0, 8, 0, stream)?;
            let params = Level {
                graph: storage.reference(),
                levels: on_device.ptr(),
                frontier: fronts[0].ptr(),
                count,
                next: fronts[1].ptr(),
                found: found.ptr(),
                level,
            };
            // SAFETY: a vertex is reached first once, so both lists have room; the storage is borrowed until the stream is synchronised, by the read below.
            unsafe { self.launch(&self.kernels.advance, WARP * count, &params, stream)? };
            count = read_word(&found, stream)?;
            fronts.swap(0, 1);
        }
        self.finish(&on_device, levels, workspace)
    }

    pub(super) fn components(&self) -> Result<Vec<u32>> {
        let storage = self.read();
        let parents: Vec<u32> = (0..storage.vertices as u32).collect();
        let workspace = self.workspaces.take(&self.device)?;
        let stream = &workspace.stream;
        let (on_device, changes) = (self.device.upload(&parents)?, self.device.allocate(8)?);
        let params = Join { graph: storage.reference(), parents: on_device.ptr(), changes: changes.ptr() };
        loop {
            changes.fill_on(0, 8, 0, stream)?;
            // SAFETY: there is a parent for each vertex; the storage is borrowed until the stream is synchronised, by the read below.
            unsafe {
                self.launch(&self.kernels.join, WARP * storage.vertices, &params, stream)?;
                self.launch(&self.kernels.shorten, storage.vertices, &params, stream)?;
            }
            if read_word(&changes, stream)? == 0 {
                return self.finish(&on_device, parents, workspace);
            }
        }
    }

    pub(super) fn triangles(&self) -> Result<u64> {
        let storage = self.read();
        let workspace = self.workspaces.take(&self.device)?;
        let count = self.device.allocate_zeroed(8)?;
        let params = Count { graph: storage.reference(), triangles: count.ptr() };
        // SAFETY: the storage is borrowed until the stream is synchronised, by the read below.
        unsafe {
            self.launch(&self.kernels.triangles, WARP * storage.vertices, &params, &workspace.stream)?;
        }
        let triangles = read_word(&count, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        Ok(triangles)
    }

    pub(super) fn pagerank(&self, damping: u64, rounds: u32) -> Result<Vec<u64>> {
        let storage = self.read();
        let vertices = storage.vertices;
        let ranks = vec![RANKS / vertices.max(1); vertices as usize];
        let workspace = self.workspaces.take(&self.device)?;
        let stream = &workspace.stream;
        let on_device = self.device.upload(&ranks)?;
        let sums = self.device.allocate_zeroed(8 * vertices as usize)?;
        let dangling = self.device.allocate(8)?;
        let params = Rank {
            graph: storage.reference(),
            ranks: on_device.ptr(),
            sums: sums.ptr(),
            dangling: dangling.ptr(),
            damping,
            base: base_rank(damping, vertices),
        };
        for _ in 0..rounds {
            dangling.fill_on(0, 8, 0, stream)?;
            // SAFETY: there is a rank and a sum for each vertex; the storage is borrowed until the stream is synchronised.
            unsafe {
                self.launch(&self.kernels.spread, WARP * vertices, &params, stream)?;
                self.launch(&self.kernels.settle, vertices, &params, stream)?;
            }
        }
        self.finish(&on_device, ranks, workspace)
    }

    /// Reads an answer for each vertex, after what is in the stream.
    fn finish<T: bytemuck::Pod>(
        &self,
        column: &Buffer,
        mut answers: Vec<T>,
        workspace: Workspace<Columns>,
    ) -> Result<Vec<T>> {
        column.read_on(0, &mut answers, &workspace.stream)?;
        self.workspaces.put_back(workspace);
        Ok(answers)
    }
}

fn read_word(buffer: &Buffer, stream: &Stream) -> Result<u64> {
    let mut word = [0];
    buffer.read_on(0, &mut word, stream)?;
    Ok(word[0])
}
