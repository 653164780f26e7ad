//! The paper's own graph: a slab hash for each vertex, by kernels of this crate.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_containers::{EdgeOpKind, SlabAlloc, SlabAllocOptions};
use warpkeep_device::{Buffer, Device, DevicePtr, Grid, KernelSet as _, Stream, TypedKernel};

use super::contestant::{Contestant, Edges};
use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::graph::timed;
use crate::kernels::{
    GRAPH_MAP_ITEMS, GRAPH_SET_ITEMS, GRAPH_SLAB_BYTES, RESERVED_VERTICES, SUMS, SlabGraphKernels,
    SlabGraphParams, SlabGraphRef,
};

/// The paper's graph, as a variant of a case.
pub(super) const PAPER: &str = "the paper's layout";
/// The share of the items of a list's first slabs that its edges are to take.
pub(super) const LOAD: f64 = 0.7;

const THREADS: u32 = 128;
const WARP: u64 = 32;
/// Slabs that warps which lose a link hold for a moment: as many as a large GPU has warps under way.
const MOST_UNDER_WAY: u64 = 1 << 14;

/// A graph of the paper.
pub(super) struct SlabGraph<'d> {
    device: &'d Device,
    clock: &'d Clock,
    kernels: SlabGraphKernels,
    has_weights: bool,
    mirrored: bool,
    base: Buffer,
    lists: Buffer,
    degrees: Buffer,
    pool: SlabAlloc,
    vertices: u64,
    base_slabs: u64,
    seed: u64,
}

/// What a graph of the paper is made for.
pub(super) struct Plan<'p> {
    /// Items of a slab: pairs with weights, or targets.
    pub(super) has_weights: bool,
    /// Whether an edge leads both ways.
    pub(super) mirrored: bool,
    /// The edges that each list is made for.
    pub(super) degrees: &'p [usize],
    /// The share of the first slabs that they take.
    pub(super) load: f64,
    /// Edges in lists that are inserted in all.
    pub(super) entries: u64,
    pub(super) seed: u64,
}

impl Plan<'_> {
    fn items(&self) -> u32 {
        if self.has_weights { GRAPH_MAP_ITEMS } else { GRAPH_SET_ITEMS }
    }

    /// Buckets of a list for this many edges: as the paper has it, and one at least.
    fn buckets(&self, degree: usize) -> u64 {
        ((degree as f64 / (self.load * f64::from(self.items()))).ceil() as u64).max(1)
    }
}

impl<'d> SlabGraph<'d> {
    /// An empty graph.
    pub(super) fn new(device: &'d Device, clock: &'d Clock, plan: &Plan<'_>) -> Result<Self, BenchError> {
        let (mut lists, mut slabs) = (Vec::with_capacity(plan.degrees.len()), 0_u64);
        for degree in plan.degrees {
            let buckets = plan.buckets(*degree);
            lists.push(slabs | buckets << 32);
            slabs += buckets;
        }
        // A further slab follows one that is full.
        let more = plan.entries / u64::from(plan.items()) + MOST_UNDER_WAY;
        let more = u32::try_from(more).ok().filter(|_| slabs < u64::from(u32::MAX)).ok_or_else(|| {
            BenchError::Invalid(
                "the graph of the paper would have more slabs than numbers; give fewer --vertices".to_owned(),
            )
        })?;
        let options = SlabAllocOptions { initial_units: more, most_units: more };
        let graph = SlabGraph {
            device,
            clock,
            kernels: SlabGraphKernels::load(device)?,
            has_weights: plan.has_weights,
            mirrored: plan.mirrored,
            base: device.allocate(slabs as usize * GRAPH_SLAB_BYTES)?,
            lists: device.upload(&lists)?,
            degrees: device.allocate_zeroed(4 * lists.len().max(1))?,
            pool: SlabAlloc::new(device, GRAPH_SLAB_BYTES as u32, options)?,
            vertices: lists.len() as u64,
            base_slabs: slabs,
            seed: plan.seed,
        };
        graph.base.fill(0xff)?;
        Ok(graph)
    }

    fn params(&self) -> SlabGraphParams {
        let null = DevicePtr::NULL;
        let graph = SlabGraphRef {
            base: self.base.ptr(),
            lists: self.lists.ptr(),
            degrees: self.degrees.ptr(),
            pool: self.pool.reference(),
            seed: self.seed,
            vertices: self.vertices,
        };
        SlabGraphParams {
            graph,
            sources: null,
            targets: null,
            weights: null,
            statuses: null,
            count: 0,
            doomed: null,
            sums: null,
            edges: null,
            deletes: 0,
            mirrored: u32::from(self.mirrored),
        }
    }

    /// The kernel for graphs with weights, or the one for those without.
    fn of<'k>(
        &self,
        with: &'k TypedKernel<SlabGraphParams>,
        without: &'k TypedKernel<SlabGraphParams>,
    ) -> &'k TypedKernel<SlabGraphParams> {
        if self.has_weights { with } else { without }
    }

    /// Memory for the sums of a kernel: before a clock runs.
    fn sums(&self) -> Result<Buffer, BenchError> {
        Ok(self.device.allocate_zeroed(8 * SUMS)?)
    }

    /// Launches a kernel after what is in the stream.
    ///
    /// # Safety
    /// As [`TypedKernel::launch`].
    unsafe fn launch(
        &self,
        kernel: &TypedKernel<SlabGraphParams>,
        threads: u64,
        params: &SlabGraphParams,
    ) -> Result<(), BenchError> {
        // SAFETY: this function's contract.
        unsafe { kernel.launch(Grid::covering(threads, THREADS), params, self.clock.stream())? };
        Ok(())
    }

    /// Waits for the stream and adds sums up.
    fn total(&self, sums: &Buffer) -> Result<u64, BenchError> {
        let mut words = vec![0_u64; SUMS];
        sums.read_on(0, &mut words, self.clock.stream())?;
        Ok(words.iter().sum())
    }

    fn check(&self, edges: &[(u32, u32)]) -> Result<(), BenchError> {
        let most = self.vertices.min(u64::from(RESERVED_VERTICES));
        match edges.iter().find(|edge| u64::from(edge.0.max(edge.1)) >= most) {
            Some(edge) => Err(BenchError::Wrong(format!("the edge {edge:?} is not of the paper's graph"))),
            None => Ok(()),
        }
    }

    /// The share of the items of all slabs that edges take.
    pub(super) fn utilisation(&self) -> Result<f64, BenchError> {
        let items = if self.has_weights { GRAPH_MAP_ITEMS } else { GRAPH_SET_ITEMS };
        let slabs = self.base_slabs + self.pool.in_use()?;
        Ok(self.entry_count()? as f64 / (slabs * u64::from(items)).max(1) as f64)
    }
}

impl Contestant for SlabGraph<'_> {
    fn name(&self) -> &'static str {
        PAPER
    }

    fn keeps_order(&self) -> bool {
        false
    }

    fn apply(&mut self, kind: EdgeOpKind, edges: &Edges) -> Result<(f64, Vec<u8>), BenchError> {
        self.check(&edges.pairs)?;
        let count = edges.pairs.len();
        let statuses = self.device.allocate_zeroed(count)?;
        let params = SlabGraphParams {
            sources: edges.sources.ptr(),
            targets: edges.targets.ptr(),
            weights: edges.weights.ptr(),
            statuses: statuses.ptr(),
            count: count as u64,
            deletes: u32::from(kind == EdgeOpKind::Delete),
            ..self.params()
        };
        let kernel = self.of(&self.kernels.apply_map, &self.kernels.apply_set);
        let grid = Grid::covering((count as u64) << u32::from(self.mirrored), THREADS);
        // SAFETY: the columns have `count` elements of vertices of the graph, and stay until the clock has waited.
        let launch = |stream: &Stream| unsafe { kernel.launch(grid, &params, stream) };
        let seconds = self.clock.time(launch)?;
        let statuses = statuses.to_vec::<u8>()?;
        match statuses.contains(&0) {
            true => Err(BenchError::Wrong("the paper's graph had too few slabs".to_owned())),
            false => Ok((seconds, statuses)),
        }
    }

    fn delete_vertices(&mut self, vertices: &[u32]) -> Result<(f64, u64), BenchError> {
        // The bits of neighbours that go, too: made before the clock runs, as all memory is.
        let mut doomed = vec![0_u32; self.vertices.div_ceil(32) as usize];
        vertices.iter().for_each(|vertex| doomed[*vertex as usize / 32] |= 1 << (vertex % 32));
        let (doomed, sums) = (self.device.upload(&doomed)?, self.sums()?);
        let (listed, count) =
            (self.device.allocate_zeroed(4 * vertices.len().max(1))?, vertices.len() as u64);
        let params = SlabGraphParams {
            sources: listed.ptr(),
            doomed: doomed.ptr(),
            sums: sums.ptr(),
            count,
            ..self.params()
        };
        let unlink = self.of(&self.kernels.unlink_map, &self.kernels.unlink_set);
        let clear = self.of(&self.kernels.clear_map, &self.kernels.clear_set);
        timed(|| {
            listed.write_on(0, vertices, self.clock.stream())?;
            // SAFETY: the vertices are different ones of the graph, and the columns stay until the sums were read.
            unsafe {
                self.launch(unlink, WARP * count, &params)?;
                self.launch(clear, WARP * count, &params)?;
            }
            Ok::<_, BenchError>(self.total(&sums)? / 2)
        })
    }

    fn triangles(&mut self, edges: &Edges) -> Result<(f64, u64), BenchError> {
        self.check(&edges.pairs)?;
        let (count, sums) = (edges.pairs.len() as u64, self.sums()?);
        let params = SlabGraphParams {
            sources: edges.sources.ptr(),
            targets: edges.targets.ptr(),
            sums: sums.ptr(),
            count,
            ..self.params()
        };
        let kernel = self.of(&self.kernels.triangles_map, &self.kernels.triangles_set);
        timed(|| {
            // SAFETY: as in `apply`; the kernel only reads.
            unsafe { self.launch(kernel, WARP * count, &params)? };
            self.total(&sums)
        })
    }

    fn edges(&self) -> Result<Vec<(u32, u32)>, BenchError> {
        let degrees = self.entry_count()?;
        let edges = self.device.allocate(8 * degrees.max(1) as usize)?;
        let kernel = self.of(&self.kernels.collect_map, &self.kernels.collect_set);
        let sums = self.sums()?;
        let params = SlabGraphParams { edges: edges.ptr(), sums: sums.ptr(), ..self.params() };
        // SAFETY: the degrees are exact, so there is room for all edges.
        unsafe { self.launch(kernel, WARP * self.vertices, &params)? };
        let found = self.total(&sums)?;
        if found != degrees {
            return Err(BenchError::Wrong(format!(
                "the paper's graph has {found} edges, and counts {degrees}"
            )));
        }
        let mut words = vec![0_u64; degrees as usize];
        edges.read(0, &mut words)?;
        words.sort_unstable();
        Ok(words.into_iter().map(|word| ((word >> 32) as u32, word as u32)).collect())
    }

    fn entry_count(&self) -> Result<u64, BenchError> {
        Ok(self.degrees.to_vec::<u32>()?.into_iter().map(u64::from).sum())
    }

    fn bytes(&self) -> Result<u64, BenchError> {
        let slabs = self.base_slabs + self.pool.in_use()?;
        Ok(slabs * GRAPH_SLAB_BYTES as u64 + 12 * self.vertices)
    }
}
