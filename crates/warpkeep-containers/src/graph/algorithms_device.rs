//! Algorithms on a graph in device memory.

use warpkeep_device::{Buffer, Result, Workspace};

use super::algorithms::{RANKS, Ranking, base_rank};
use super::columns::Columns;
use super::device::DeviceGraph;
use super::kernels::{Join, Level, Rank, WARP};
use super::reading::View;
use super::storage::read_word;

impl DeviceGraph {
    pub(super) fn bfs(&self, sources: &[u32], view: &View) -> Result<Vec<u32>> {
        let (device, vertices) = (&self.device, view.vertices() as usize);
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
                graph: view.graph,
                levels: on_device.ptr(),
                frontier: fronts[0].ptr(),
                count,
                next: fronts[1].ptr(),
                found: found.ptr(),
                level,
            };
            // SAFETY: a vertex is reached first once, so both lists have room; the state is there until the stream is synchronised, by the read below.
            unsafe { self.launch(&self.kernels.advance, WARP * count, &params, stream)? };
            count = read_word(&found, stream)?;
            fronts.swap(0, 1);
        }
        self.finish(&on_device, levels, workspace)
    }

    pub(super) fn components(&self, view: &View) -> Result<Vec<u32>> {
        let parents: Vec<u32> = (0..view.vertices() as u32).collect();
        let workspace = self.workspaces.take(&self.device)?;
        let stream = &workspace.stream;
        let (on_device, changes) = (self.device.upload(&parents)?, self.device.allocate(8)?);
        let params = Join { graph: view.graph, parents: on_device.ptr(), changes: changes.ptr() };
        loop {
            changes.fill_on(0, 8, 0, stream)?;
            // SAFETY: there is a parent for each vertex; the state is there until the stream is synchronised, by the read below.
            unsafe {
                self.launch(&self.kernels.join, WARP * view.vertices(), &params, stream)?;
                self.launch(&self.kernels.shorten, view.vertices(), &params, stream)?;
            }
            if read_word(&changes, stream)? == 0 {
                return self.finish(&on_device, parents, workspace);
            }
        }
    }

    /// The ranks after some rounds, how many those are, and by how much all ranks changed in the last one.
    pub(super) fn pagerank(
        &self,
        ranks: Vec<u64>,
        ranking: &Ranking,
        view: &View,
    ) -> Result<(Vec<u64>, u32, u64)> {
        let vertices = view.vertices();
        let workspace = self.workspaces.take(&self.device)?;
        let stream = &workspace.stream;
        let on_device = self.device.upload(&ranks)?;
        let sums = self.device.allocate_zeroed(8 * vertices as usize)?;
        let words = self.device.allocate(2 * 8)?;
        let params = Rank {
            graph: view.graph,
            ranks: on_device.ptr(),
            sums: sums.ptr(),
            dangling: words.ptr(),
            change: words.ptr().offset(8),
            damping: ranking.damping,
            base: base_rank(ranking.damping, vertices),
        };
        let (mut rounds, mut change) = (0, [2 * RANKS]);
        while rounds < ranking.most_rounds {
            words.fill_on(0, 2 * 8, 0, stream)?;
            // SAFETY: there is a rank and a sum for each vertex; the state is there until the stream is synchronised.
            unsafe {
                self.launch(&self.kernels.spread, WARP * vertices, &params, stream)?;
                self.launch(&self.kernels.settle, vertices, &params, stream)?;
            }
            rounds += 1;
            if let Some(least) = ranking.least_change {
                words.read_on(8, &mut change, stream)?;
                if change[0] <= least {
                    break;
                }
            } else if rounds == ranking.most_rounds {
                words.read_on(8, &mut change, stream)?;
            }
        }
        Ok((self.finish(&on_device, ranks, workspace)?, rounds, change[0]))
    }

    /// Reads an answer for each vertex, after what is in the stream.
    pub(super) fn finish<T: bytemuck::Pod>(
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
