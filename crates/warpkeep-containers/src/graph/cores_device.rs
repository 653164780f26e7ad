//! Core numbers of a graph in device memory.

use warpkeep_device::Result;

use super::device::DeviceGraph;
use super::kernels::{Peel, WARP};
use super::reading::View;

impl DeviceGraph {
    /// Level by level: vertices with no more edges than the level go, then their neighbours that have no more left, until none does.
    pub(super) fn core_numbers(&self, view: &View) -> Result<Vec<u32>> {
        let vertices = view.vertices();
        let cores = vec![u32::MAX; vertices as usize];
        if vertices == 0 {
            return Ok(cores);
        }
        let workspace = self.workspaces.take(&self.device)?;
        let (device, stream, kernels) = (&self.device, &workspace.stream, &self.kernels);
        let column = || device.allocate(4 * vertices as usize);
        let (left, on_device) = (column()?, column()?);
        let mut fronts = [column()?, column()?];
        let words = device.allocate(2 * 8)?;
        let mut params = Peel {
            graph: view.graph,
            left: left.ptr(),
            cores: on_device.ptr(),
            frontier: fronts[0].ptr(),
            count: 0,
            next: fronts[1].ptr(),
            found: words.ptr(),
            least: words.ptr().offset(8),
            level: 0,
        };
        // SAFETY: there is an element for each vertex, and a vertex goes once, so lists of those that go have room; the state is there until the stream is
        // synchronised, by the reads below.
        unsafe { self.launch(&kernels.prepare, vertices, &params, stream)? };
        loop {
            words.write_on(0, &[0, u64::MAX], stream)?;
            // SAFETY: as above.
            unsafe { self.launch(&kernels.take, vertices, &params, stream)? };
            let mut found = [0_u64; 2];
            words.read_on(0, &mut found, stream)?;
            let [mut gone, least] = found;
            if gone == 0 {
                match least {
                    u64::MAX => break,
                    least => params.level = least,
                }
                continue;
            }
            while gone > 0 {
                fronts.swap(0, 1);
                (params.frontier, params.next, params.count) = (fronts[0].ptr(), fronts[1].ptr(), gone);
                words.fill_on(0, 8, 0, stream)?;
                // SAFETY: as above.
                unsafe { self.launch(&kernels.peel, WARP * gone, &params, stream)? };
                let mut found = [0_u64];
                words.read_on(0, &mut found, stream)?;
                gone = found[0];
            }
            params.level += 1;
        }
        self.finish(&on_device, cores, workspace)
    }
}
