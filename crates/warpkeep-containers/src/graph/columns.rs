//! Columns of a batch: as the caller gives them, and as they are staged in device memory.

use warpkeep_device::{Device, DevicePtr, Result, StagedBuffer, Stream};

use super::GraphOptions;
use super::edge::{Edge, EdgeOp, EdgeOpKind};
use super::sample_columns::SampleScratch;
use crate::batch_columns::{answer_column, send_column};
use crate::batch_plan::{PlanColumns, Scratch};

/// Memory of one batch.
#[derive(Debug, Default)]
pub(super) struct Columns {
    pub(super) sources: StagedBuffer,
    pub(super) targets: StagedBuffer,
    codes: StagedBuffer,
    weights: StagedBuffer,
    ids: StagedBuffer,
    times: StagedBuffer,
    pub(super) statuses: StagedBuffer,
    pub(super) control: Scratch,
    pub(super) plans: PlanColumns,
    pub(super) runs: RunColumns,
    pub(super) samples: SampleScratch,
}

/// What is known of each run of a batch, and of each segment: see `graph_batch::Update`.
#[derive(Debug, Default)]
pub(super) struct RunColumns {
    pub(super) sources: Scratch,
    pub(super) targets: Scratch,
    pub(super) places: Scratch,
    pub(super) winners: Scratch,
    pub(super) effects: Scratch,
    pub(super) added: Scratch,
    pub(super) removed: Scratch,
    pub(super) firsts: Scratch,
    pub(super) needs: Scratch,
    pub(super) moves: Scratch,
    pub(super) classes: Scratch,
    pub(super) owners: Scratch,
    pub(super) listed: Scratch,
    pub(super) sums: Scratch,
    pub(super) touched: Scratch,
}

/// A batch in the host's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum HostBatch<'a> {
    Each(&'a [EdgeOp]),
    All(EdgeOpKind, &'a [Edge]),
}

impl HostBatch<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Each(ops) => ops.len(),
            Self::All(_, edges) => edges.len(),
        }
    }

    pub(super) fn op(&self, at: usize) -> EdgeOp {
        match self {
            Self::Each(ops) => ops[at],
            Self::All(kind, edges) => EdgeOp { kind: *kind, edge: edges[at] },
        }
    }

    pub(super) fn ops(&self) -> impl Iterator<Item = EdgeOp> + '_ {
        (0..self.len()).map(|at| self.op(at))
    }

    /// The vertices that it names.
    pub(super) fn extent(&self, options: &GraphOptions) -> Extent {
        let mut extent = Extent::default();
        for op in self.ops() {
            let vertices = u64::from(op.edge.source.max(op.edge.target)) + 1;
            extent.named = extent.named.max(vertices);
            if op.kind == EdgeOpKind::Insert && (options.keeps_loops || !op.edge.is_loop()) {
                extent.inserted = extent.inserted.max(vertices);
            }
        }
        extent
    }
}

/// The largest vertices of a batch plus 1.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    /// Of all operations.
    pub(super) named: u64,
    /// Of those that insert.
    pub(super) inserted: u64,
}

impl Extent {
    /// Bits of a vertex in a sort key. No vertex of the batch has all of them set.
    pub(super) fn bits(self) -> u32 {
        u64::BITS - self.named.leading_zeros()
    }
}

/// The columns of a batch in device memory. Sources and targets are null if the host has planned it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) sources: DevicePtr,
    pub(super) targets: DevicePtr,
    /// Null if all operations have the code `code`.
    pub(super) codes: DevicePtr,
    pub(super) code: u32,
    pub(super) weights: DevicePtr,
    pub(super) ids: DevicePtr,
    pub(super) times: DevicePtr,
    pub(super) statuses: DevicePtr,
    pub(super) count: usize,
}

impl Columns {
    /// Sends a batch to the device, and makes room for its answers. The vertices are sent only if the device plans the batch.
    ///
    /// # Safety
    /// The stream must be synchronised before the columns are used again.
    pub(super) unsafe fn stage(
        &mut self,
        batch: &HostBatch<'_>,
        options: &GraphOptions,
        with_vertices: bool,
        device: &Device,
        stream: &Stream,
    ) -> Result<Staged> {
        let count = batch.len();
        let none = DevicePtr::NULL;
        let mut staged = Staged {
            sources: none,
            targets: none,
            codes: none,
            code: 0,
            weights: none,
            ids: none,
            times: none,
            statuses: answer_column::<u8>(&mut self.statuses, count, device)?,
            count,
        };
        let edges = || batch.ops().map(|op| op.edge);
        // SAFETY: the caller's promise.
        unsafe {
            if with_vertices {
                let (sources, targets) = (edges().map(|edge| edge.source), edges().map(|edge| edge.target));
                staged.sources = send_column(&mut self.sources, count, sources, device, stream)?;
                staged.targets = send_column(&mut self.targets, count, targets, device, stream)?;
            }
            match batch {
                HostBatch::All(kind, _) => staged.code = *kind as u32,
                HostBatch::Each(_) => {
                    let codes = batch.ops().map(|op| op.kind as u8);
                    staged.codes = send_column(&mut self.codes, count, codes, device, stream)?;
                }
            }
            if matches!(batch, HostBatch::All(EdgeOpKind::Delete, _)) {
                return Ok(staged);
            }
            if options.weights {
                let weights = edges().map(|edge| edge.weight);
                staged.weights = send_column(&mut self.weights, count, weights, device, stream)?;
            }
            if options.ids {
                let ids = edges().map(|edge| edge.id);
                staged.ids = send_column(&mut self.ids, count, ids, device, stream)?;
            }
            if options.times {
                let times = edges().map(|edge| edge.time);
                staged.times = send_column(&mut self.times, count, times, device, stream)?;
            }
        }
        Ok(staged)
    }
}
