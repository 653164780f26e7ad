//! Trees that are built of sorted pairs, level by level.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_device::{Buffer, Grid, Stream, TypedKernel};

use crate::BenchError;
use crate::kernels::{TREE_WORDS, TreeLevelParams};

pub(super) const THREADS: u32 = 128;
/// Pairs of a leaf and ways of a node of a tree that is built at once, of 14 or 15.
const BUILT: u64 = 8;

/// The nodes of a tree, and the number of the next one that is free.
pub(super) struct Nodes<'t> {
    pub(super) words: &'t Buffer,
    pub(super) next: &'t Buffer,
    pub(super) capacity: u32,
}

/// Sorted pairs.
pub(super) struct SortedPairs<'t> {
    pub(super) keys: &'t Buffer,
    pub(super) values: &'t Buffer,
    pub(super) count: u64,
}

/// The levels of a tree with this many pairs, the lowest first: nodes, and pairs below each place of a node. The root is a node above leaves.
fn levels_of(pairs: u64) -> Vec<(u64, u64)> {
    let (mut levels, mut below) = (vec![(pairs.div_ceil(BUILT).max(1), 1)], 1);
    while levels.len() < 2 || levels[levels.len() - 1].0 > 1 {
        below *= BUILT;
        let nodes = levels[levels.len() - 1].0.div_ceil(BUILT);
        levels.push((nodes, below));
    }
    levels
}

/// Writes all levels of a tree with these pairs: the root is the first node, the leaves come last.
pub(super) fn write_levels(
    build: &TypedKernel<TreeLevelParams>,
    tree: &Nodes<'_>,
    pairs: &SortedPairs<'_>,
    stream: &Stream,
) -> Result<(), BenchError> {
    let levels = levels_of(pairs.count);
    let nodes: u64 = levels.iter().map(|level| level.0).sum();
    if nodes > u64::from(tree.capacity) {
        return Err(BenchError::Wrong(format!("{} pairs need {nodes} nodes of a tree", pairs.count)));
    }
    let mut first = nodes;
    let mut first_below = 0;
    for (number, &(nodes_here, below)) in levels.iter().enumerate() {
        first -= nodes_here;
        let params = TreeLevelParams {
            nodes: tree.words.ptr(),
            keys: pairs.keys.ptr(),
            values: pairs.values.ptr(),
            count: pairs.count,
            below,
            first: first as u32,
            first_below: first_below as u32,
            nodes_here: nodes_here as u32,
            each: BUILT as u32,
            is_leaf: u32::from(number == 0),
            reserved: 0,
        };
        // SAFETY: there is memory for all nodes, and the columns have `count` pairs; the stream is waited for.
        unsafe { build.launch(Grid::covering(TREE_WORDS * nodes_here, THREADS), &params, stream)? };
        first_below = first;
    }
    tree.next.write_on(0, &[nodes as u32], stream)?;
    Ok(stream.synchronize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_a_root_above_its_leaves() {
        assert_eq!(levels_of(0), [(1, 1), (1, 8)]);
        assert_eq!(levels_of(8), [(1, 1), (1, 8)]);
        assert_eq!(levels_of(65), [(9, 1), (2, 8), (1, 64)]);
    }
}
