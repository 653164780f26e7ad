//! The paper's B-tree.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_containers::Sorter;
use warpkeep_device::{Buffer, Device, Grid, KernelSet as _};

use super::dictionary::{Calls, Dictionary, Pairs};
use super::levels::{Nodes, SortedPairs, THREADS, write_levels};
use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::ordered::Operation;
use crate::kernels::{LinkTreeKernels, LinkTreeRef, NO_NODE, TREE_WORDS, TreeCallParams};

/// The paper's tree, as a variant of a case.
pub(super) const TREE: &str = "the paper's B-tree";
/// The same with latches from the root on: the baseline of section 3.5.1.
pub(super) const COUPLED: &str = "the paper's baseline, latch coupling";

pub(super) struct LinkTree<'d> {
    device: &'d Device,
    clock: &'d Clock,
    kernels: LinkTreeKernels,
    sorter: Sorter,
    nodes: Buffer,
    next: Buffer,
    capacity: u32,
    is_coupled: bool,
}

impl<'d> LinkTree<'d> {
    /// An empty tree with room for this many pairs.
    pub(super) fn new(device: &'d Device, clock: &'d Clock, pairs: usize) -> Result<Self, BenchError> {
        Self::with_latches(device, clock, pairs, false)
    }

    /// The same; with latch coupling it can insert and nothing else beside that.
    pub(super) fn with_latches(
        device: &'d Device,
        clock: &'d Clock,
        pairs: usize,
        is_coupled: bool,
    ) -> Result<Self, BenchError> {
        // Leaves that were split have seven pairs, and nodes above them as many ways; some nodes are lost by those that come together.
        let capacity = (pairs as u64 / 3 + 1024).min(u64::from(NO_NODE) - 1) as u32;
        let tree = LinkTree {
            device,
            clock,
            kernels: LinkTreeKernels::load(device)?,
            sorter: Sorter::new(device)?,
            nodes: device.allocate(8 * TREE_WORDS as usize * capacity as usize)?,
            next: device.allocate_zeroed(4)?,
            capacity,
            is_coupled,
        };
        tree.write_levels(&tree.nodes, &tree.nodes, 0)?;
        Ok(tree)
    }

    fn reference(&self) -> LinkTreeRef {
        LinkTreeRef { nodes: self.nodes.ptr(), next: self.next.ptr(), capacity: self.capacity, reserved: 0 }
    }

    fn write_levels(&self, keys: &Buffer, values: &Buffer, count: u64) -> Result<(), BenchError> {
        let nodes = Nodes { words: &self.nodes, next: &self.next, capacity: self.capacity };
        let pairs = SortedPairs { keys, values, count };
        write_levels(&self.kernels.build, &nodes, &pairs, self.clock.stream())
    }
}

impl Dictionary for LinkTree<'_> {
    fn name(&self) -> &'static str {
        if self.is_coupled { COUPLED } else { TREE }
    }

    fn build(&mut self, pairs: &Pairs) -> Result<f64, BenchError> {
        let [mut keys, mut values] = Calls::new(self.device, pairs)?.into_pairs()?;
        self.clock.time(|stream| {
            self.sorter.sort_pairs::<u32, u32>(&mut keys, &mut values, pairs.len(), stream)?;
            self.write_levels(&keys, &values, pairs.len() as u64)
        })
    }

    fn run(&mut self, batch: &Pairs) -> Result<f64, BenchError> {
        let calls = Calls::new(self.device, batch)?;
        let params = TreeCallParams { tree: self.reference(), calls: calls.columns(batch) };
        let kernel = match batch.operation {
            Operation::Mixed if batch.stride > 0 => &self.kernels.run_ranges,
            Operation::Insert if self.is_coupled => &self.kernels.insert_coupled,
            Operation::Insert | Operation::Erase | Operation::Mixed => &self.kernels.run,
            _ => &self.kernels.read,
        };
        let grid = Grid::covering(batch.len() as u64, THREADS);
        // SAFETY: the columns have an element for each operation; they and the tree stay until the clock has waited.
        let seconds = self.clock.time(|stream| unsafe { kernel.launch(grid, &params, stream) })?;
        match batch.operation {
            Operation::Mixed if batch.stride > 0 => calls.check_beside_insertions(TREE, batch)?,
            _ => calls.check(TREE, batch)?,
        }
        Ok(seconds)
    }
}

#[cfg(test)]
mod tests {
    use warpkeep_device::Mode;

    use super::*;
    use crate::gpu::ordered::{Batch, Items};

    /// Other lanes and tiles run between any two accesses, stores are late and loads are stale.
    #[test]
    fn operations_beside_each_other_are_right_in_every_schedule() {
        if warpkeep_device::devices()[1].unavailable.is_some() {
            return;
        }
        for seed in 0..6 {
            let device = Device::simulated(Mode::seeded(seed)).expect("a simulator");
            let clock = Clock::new(&device).expect("a clock");
            let items = Items::<u32, u32>::new(seed, 160);
            let ranks: Vec<u64> = (0..160).map(|number| items.shuffled(number)).collect();
            let mut tree = LinkTree::new(&device, &clock, 1000).expect("a tree");
            let batches = [
                Batch::build(&items, ranks.iter().copied()),
                Batch::find(&items, &ranks, Operation::Find),
                Batch::mixed(&items, &ranks[..60]).0,
            ];
            for batch in batches {
                tree.run(&batch).unwrap_or_else(|error| panic!("{seed}: {error}"));
            }
            let mut coupled = LinkTree::with_latches(&device, &clock, 1000, true).expect("a tree");
            for batch in [
                Batch::build(&items, ranks[..40].iter().copied()),
                Batch::find(&items, &ranks[..40], Operation::Find),
            ] {
                coupled.run(&batch).unwrap_or_else(|error| panic!("{seed}, coupled: {error}"));
            }
            tree.build(&Batch::build(&items, ranks.iter().copied())).expect("a tree");
            // Every leaf splits while its keys are looked up.
            let mut other = LinkTree::new(&device, &clock, 1000).expect("a tree");
            other.build(&Batch::build(&items, 0..160)).expect("a tree");
            let (all, none): (Vec<u64>, [u64; 0]) = ((0..160).collect(), []);
            let batch = Batch::points(&items, &none, &all, &all);
            other.run(&batch).unwrap_or_else(|error| panic!("{seed}, beside splits: {error}"));
            let batches = [
                Batch::range(&items, &ranks[..40]),
                Batch::successor(&items, &ranks[..40]),
                Batch::points(&items, &ranks[..40], &ranks[40..90], &ranks[90..]),
                Batch::erase_pairs(&items, &ranks[40..]),
            ];
            for batch in batches {
                tree.run(&batch).unwrap_or_else(|error| panic!("{seed}: {error}"));
            }
        }
    }
}
