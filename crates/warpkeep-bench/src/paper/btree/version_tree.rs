//! The paper's multiversion B-tree, with updates in place and out of place.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_containers::Sorter;
use warpkeep_device::{Buffer, Device, Grid, KernelSet as _};

use super::dictionary::{Calls, Cut, Dictionary, Pairs};
use super::epochs::Epochs;
use super::levels::{Nodes, SortedPairs, THREADS, write_levels};
use crate::BenchError;
use crate::gpu::ordered::Operation;
use crate::gpu::{Clock, invalid};
use crate::kernels::{
    LinkTreeRef, MOST_TIME, NO_NODE, TREE_WORDS, VersionCallParams, VersionTreeKernels, VersionTreeRef,
};

/// Both, as variants of a case.
pub(super) const IN_PLACE: &str = "versioned in place";
pub(super) const OUT_OF_PLACE: &str = "versioned out of place";

/// Bytes of a node.
pub(super) const NODE_BYTES: u64 = 8 * TREE_WORDS;
/// Blocks of a launch out of place, at least: more than a simulated device runs at once.
const LEAST_BLOCKS: u32 = 4;

/// How a leaf is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Where it is; it is copied aside once, by the first change after a snapshot that the host holds.
    InPlace,
    /// Each change copies it aside; ranges take snapshots of their own.
    OutOfPlace,
}

/// The size of a tree, and of launches that change it out of place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Nodes.
    pub(super) capacity: u32,
    /// Blocks of a launch at most; 0 for as many as the device runs at once.
    pub(super) blocks: u32,
    pub(super) threads: u32,
}

impl Shape {
    /// Room for this many pairs.
    pub(super) fn of(pairs: usize) -> Shape {
        // Leaves that were split have seven pairs, and nodes above them as many ways; a snapshot of the host keeps copies of some.
        let capacity = (pairs as u64 / 3 + 1024).min(u64::from(NO_NODE) - 1) as u32;
        Shape { capacity, blocks: 0, threads: THREADS }
    }
}

pub(super) struct VersionTree<'d> {
    device: &'d Device,
    clock: &'d Clock,
    kernels: VersionTreeKernels,
    sorter: Sorter,
    form: Form,
    shape: Shape,
    nodes: Buffer,
    next: Buffer,
    /// The global timestamp, on the device and as the host knows it.
    now: Buffer,
    time: u32,
    epochs: Epochs,
    /// What batches with ranges have inserted.
    inserted: Cut,
}

impl<'d> VersionTree<'d> {
    /// An empty tree with room for this many pairs.
    pub(super) fn new(
        device: &'d Device,
        clock: &'d Clock,
        form: Form,
        pairs: usize,
    ) -> Result<Self, BenchError> {
        Self::with_shape(device, clock, form, Shape::of(pairs))
    }

    pub(super) fn with_shape(
        device: &'d Device,
        clock: &'d Clock,
        form: Form,
        mut shape: Shape,
    ) -> Result<Self, BenchError> {
        let kernels = VersionTreeKernels::load(device)?;
        if shape.blocks == 0 {
            shape.blocks =
                kernels.run_out_of_place_ranges.resident_blocks(shape.threads, 0)?.max(LEAST_BLOCKS);
        }
        let blocks = if form == Form::OutOfPlace { shape.blocks } else { 1 };
        let mut tree = VersionTree {
            device,
            clock,
            kernels,
            sorter: Sorter::new(device)?,
            form,
            shape,
            nodes: device.allocate((NODE_BYTES * u64::from(shape.capacity)) as usize)?,
            next: device.allocate_zeroed(4)?,
            now: device.allocate_zeroed(4)?,
            time: 0,
            epochs: Epochs::new(device, blocks)?,
            inserted: Cut::default(),
        };
        // With no pairs, the columns are not read.
        tree.write_levels(&tree.nodes, &tree.nodes, 0)?;
        tree.begin()?;
        Ok(tree)
    }

    /// After a new tree was written: no leaf has an older copy, and no block keeps a node.
    fn begin(&mut self) -> Result<(), BenchError> {
        self.inserted = Cut::default();
        self.time = 1;
        self.now.write(0, &[self.time])?;
        self.epochs.reset()
    }

    fn write_levels(&self, keys: &Buffer, values: &Buffer, count: u64) -> Result<(), BenchError> {
        let nodes = Nodes { words: &self.nodes, next: &self.next, capacity: self.shape.capacity };
        let pairs = SortedPairs { keys, values, count };
        write_levels(&self.kernels.build, &nodes, &pairs, self.clock.stream())
    }

    /// Nodes that are in use or were: what the tree has of memory.
    pub(super) fn nodes(&self) -> Result<u64, BenchError> {
        Ok(u64::from(self.next.to_vec::<u32>()?[0]))
    }

    pub(super) fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The tree as a batch sees it. A batch with ranges sees, in place, a snapshot that the host takes before and gives up after it.
    fn reference(&mut self, has_ranges: bool) -> Result<VersionTreeRef, BenchError> {
        let takes_snapshot = has_ranges && self.form == Form::InPlace;
        let snapshot = self.time;
        if takes_snapshot {
            self.time += 1;
            self.now.write(0, &[self.time])?;
        }
        Ok(VersionTreeRef {
            nodes: LinkTreeRef {
                nodes: self.nodes.ptr(),
                next: self.next.ptr(),
                capacity: self.shape.capacity,
                reserved: 0,
            },
            now: self.now.ptr(),
            kept_until: if takes_snapshot { snapshot + 1 } else { 0 },
            snapshot: if takes_snapshot { snapshot } else { MOST_TIME },
        })
    }

    /// Runs a batch; the seconds, and the answers, which are not checked.
    pub(super) fn answer(&mut self, batch: &Pairs) -> Result<(f64, Calls), BenchError> {
        if matches!(batch.operation, Operation::Range | Operation::Successor) {
            return invalid(
                "the multiversion trees answer ranges beside changes alone, and no successors; leave them out",
            );
        }
        if u64::from(self.time) + batch.len() as u64 >= u64::from(MOST_TIME) {
            return Err(BenchError::Wrong(format!("{}: no timestamps are left", self.name())));
        }
        let calls = Calls::new(self.device, batch)?;
        let has_ranges = batch.operation == Operation::Mixed && batch.stride > 0;
        let params = VersionCallParams {
            tree: self.reference(has_ranges)?,
            calls: calls.columns(batch),
            epochs: self.epochs.reference(),
        };
        let changes = matches!(batch.operation, Operation::Insert | Operation::Erase | Operation::Mixed);
        let mut grid = Grid::covering(batch.len() as u64, self.shape.threads);
        let kernel = match (changes, self.form, has_ranges) {
            (false, ..) => &self.kernels.read,
            (true, Form::InPlace, false) => &self.kernels.run_in_place,
            (true, Form::InPlace, true) => &self.kernels.run_in_place_ranges,
            (true, Form::OutOfPlace, false) => &self.kernels.run_out_of_place,
            (true, Form::OutOfPlace, true) => &self.kernels.run_out_of_place_ranges,
        };
        if changes && self.form == Form::OutOfPlace {
            grid.blocks = grid.blocks.min(self.shape.blocks);
        }
        // SAFETY: the columns have an element for each operation; they, the tree and its epochs stay until the clock has waited.
        let seconds = self.clock.time(|stream| unsafe { kernel.launch(grid, &params, stream) })?;
        self.time = self.now.to_vec::<u32>()?[0];
        Ok((seconds, calls))
    }
}

impl Dictionary for VersionTree<'_> {
    fn name(&self) -> &'static str {
        match self.form {
            Form::InPlace => IN_PLACE,
            Form::OutOfPlace => OUT_OF_PLACE,
        }
    }

    fn build(&mut self, pairs: &Pairs) -> Result<f64, BenchError> {
        let [mut keys, mut values] = Calls::new(self.device, pairs)?.into_pairs()?;
        let seconds = self.clock.time(|stream| {
            self.sorter.sort_pairs::<u32, u32>(&mut keys, &mut values, pairs.len(), stream)?;
            self.write_levels(&keys, &values, pairs.len() as u64)
        })?;
        self.begin()?;
        Ok(seconds)
    }

    fn run(&mut self, batch: &Pairs) -> Result<f64, BenchError> {
        let (seconds, calls) = self.answer(batch)?;
        match batch.operation {
            Operation::Mixed if batch.stride > 0 => {
                calls.check_cuts(self.name(), batch, &mut self.inserted)?;
            }
            _ => calls.check(self.name(), batch)?,
        }
        Ok(seconds)
    }
}
