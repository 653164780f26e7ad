//! Triangles of a graph in device memory: all of them, and those of the edges that a batch changes.

use warpkeep_device::{Buffer, DevicePtr, Grid, Result, Stream};

use super::device::DeviceGraph;
use super::kernels::{
    BLOCK_SLOTS, Changed, FOUND, HUB, Orient, SHORT, THREADS, TINY, TRIANGLE_WORDS, Update, WARP,
};
use super::reading::View;

/// Targets that the table of a block holds at once: half of its slots.
const MOST_HELD: u32 = BLOCK_SLOTS / 2;

impl DeviceGraph {
    pub(super) fn triangles(&self, view: &View) -> Result<u64> {
        self.count_triangles(view, MOST_HELD)
    }

    /// With `most` targets in the table of a block at once.
    pub(super) fn count_triangles(&self, view: &View, most: u32) -> Result<u64> {
        let (vertices, entries) = (view.vertices(), view.entries);
        if entries == 0 {
            return Ok(0);
        }
        let workspace = self.workspaces.take(&self.device)?;
        let (stream, kernels) = (&workspace.stream, &self.kernels);
        // A list of some length takes as many entries, and each edge is in one list of larger neighbours.
        let lists_of = |least: u64, entries: u64| 4 * vertices.min(entries / least);
        let sizes = [
            8 * TRIANGLE_WORDS as u64,
            8 * vertices,
            4 * vertices,
            4 * view.slots,
            lists_of(HUB + 1, entries),
            lists_of(TINY + 1, entries / 2),
            lists_of(SHORT + 1, entries / 2),
        ];
        // One allocation, because each takes as long as a kernel.
        let aligned = sizes.map(|bytes| bytes.next_multiple_of(256));
        let memory = self.device.allocate(aligned.iter().sum::<u64>() as usize)?;
        let mut next = 0;
        let [control, lists, degrees, targets, hubs, some, many] = aligned.map(|bytes| {
            next += bytes;
            memory.ptr().offset(next - bytes)
        });
        memory.fill_on(0, 8 * TRIANGLE_WORDS, 0, stream)?;
        let mut params = Orient {
            graph: view.graph,
            degrees,
            lists,
            targets,
            control,
            hubs,
            some,
            many,
            count: 0,
            most,
            reserved: 0,
        };
        let in_blocks = |count: u64| Grid { blocks: count as u32, threads: THREADS, shared_bytes: 0 };
        // SAFETY: there are elements for all vertices and edges, and for as many lists as there can be of each kind; the state is there until the stream is synchronised.
        unsafe {
            self.launch(&kernels.list_degrees, vertices, &params, stream)?;
            self.launch(&kernels.orient, vertices, &params, stream)?;
            let [found, ..] = read_words(&memory, stream)?;
            if found > 0 {
                params.count = found;
                kernels.orient_hubs.launch(in_blocks(found), &params, stream)?;
            }
            let [_, short, long, ..] = read_words(&memory, stream)?;
            if long > 0 {
                params.count = long;
                kernels.count_long.launch(in_blocks(long), &params, stream)?;
            }
            params.count = short;
            self.launch(&kernels.count_short, WARP * short, &params, stream)?;
            self.launch(&kernels.count_tiny, TINY * vertices, &params, stream)?;
        }
        let triangles = read_words(&memory, stream)?[FOUND..].iter().sum();
        self.workspaces.put_back(workspace);
        Ok(triangles)
    }

    /// Puts the count of the triangles of edges with an effect into a stream: those in the graph that `update` has now.
    ///
    /// # Safety
    /// The columns of `update` are filled up to the segments, and stay until the stream is synchronised; `triangles` is a word that is 0.
    pub(super) unsafe fn count_changed(
        &self,
        update: &Update,
        effect: u32,
        triangles: DevicePtr,
        stream: &Stream,
    ) -> Result<()> {
        let params = Changed {
            graph: update.graph,
            sources: update.sources,
            targets: update.targets,
            effects: update.effects,
            firsts: update.firsts,
            runs: update.runs,
            segments: update.segments,
            triangles,
            effect,
            reserved: 0,
        };
        // SAFETY: this function's contract.
        unsafe { self.launch(&self.kernels.count_changed, WARP * params.runs, &params, stream) }
    }
}

/// The sums of the kernels, which are at the beginning of the memory.
fn read_words(memory: &Buffer, stream: &Stream) -> Result<[u64; TRIANGLE_WORDS]> {
    let mut words = [0; TRIANGLE_WORDS];
    memory.read_on(0, &mut words, stream)?;
    Ok(words)
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_device::{Device, Mode};

    use super::super::{Edge, Graph, GraphOptions, reading::State};

    #[test]
    fn lists_that_do_not_fit_into_the_table_are_counted_in_parts() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let options = GraphOptions::default().undirected();
        let graph = Graph::new(&device, &options).unwrap();
        let edges: Vec<Edge> = (0..150).flat_map(|i| (0..i).map(move |j| Edge::new(i, j))).collect();
        graph.insert_edges(&edges).unwrap();
        let reading = graph.reading();
        let State::Device(on_device, view) = &reading.state else { panic!("it is on the device") };
        for most in [7, 50, 2048] {
            assert_eq!(on_device.count_triangles(view, most).unwrap(), 150 * 149 * 148 / 6, "{most} at once");
        }
    }
}
