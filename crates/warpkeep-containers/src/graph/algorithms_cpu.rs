//! Algorithms on a graph on the CPU.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::algorithms::{RANKS, Ranking, base_rank, damped};
use super::cpu::CpuLists;
use super::edge::Edge;

impl CpuLists {
    pub(super) fn bfs(&self, sources: &[u32]) -> Vec<u32> {
        let mut levels = vec![u32::MAX; self.vertices as usize];
        let mut waiting = VecDeque::new();
        for source in sources {
            if let Some(level) = levels.get_mut(*source as usize).filter(|level| **level != 0) {
                *level = 0;
                waiting.push_back(*source);
            }
        }
        while let Some(vertex) = waiting.pop_front() {
            let next = levels[vertex as usize] + 1;
            for edge in self.list(vertex) {
                let level = &mut levels[edge.target as usize];
                if *level == u32::MAX {
                    *level = next;
                    waiting.push_back(edge.target);
                }
            }
        }
        levels
    }

    pub(super) fn components(&self) -> Vec<u32> {
        let mut parents: Vec<u32> = (0..self.vertices as u32).collect();
        fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
            while parents[vertex as usize] != vertex {
                // Each vertex on the way skips its parent.
                let parent = parents[vertex as usize];
                parents[vertex as usize] = parents[parent as usize];
                vertex = parent;
            }
            vertex
        }
        for edge in self.all() {
            let (one, two) = (root(&mut parents, edge.source), root(&mut parents, edge.target));
            parents[one.max(two) as usize] = one.min(two);
        }
        (0..self.vertices as u32).map(|vertex| root(&mut parents, vertex)).collect()
    }

    pub(super) fn triangles(&self) -> u64 {
        let above = |vertex: u32, limit: u32| {
            let list = self.list(vertex);
            &list[list.partition_point(|edge| edge.target <= limit)..]
        };
        let upwards = self.all().filter(|edge| edge.source < edge.target);
        let of_edge = |edge: &Edge| {
            let (one, two) = (above(edge.source, edge.target), above(edge.target, edge.target));
            common(one, two).count() as u64
        };
        upwards.map(of_edge).sum()
    }

    /// The triangles with one or more of these edges, which are in ascending order and lead to larger vertices.
    pub(super) fn triangles_of(&self, changed: &[(u32, u32)]) -> u64 {
        // A triangle counts for the first of its edges that are among them.
        let is_later = |at: usize, one: u32, two: u32| {
            let edge = (one.min(two), one.max(two));
            changed.binary_search(&edge).map_or(true, |place| place > at)
        };
        let mut count = 0;
        for (at, &(source, target)) in changed.iter().enumerate() {
            let thirds = common(self.list(source), self.list(target))
                .filter(|third| *third != source && *third != target)
                .filter(|third| is_later(at, source, *third) && is_later(at, target, *third));
            count += thirds.count() as u64;
        }
        count
    }

    pub(super) fn pagerank(&self, mut ranks: Vec<u64>, ranking: &Ranking) -> (Vec<u64>, u32, u64) {
        let vertices = self.vertices;
        let base = base_rank(ranking.damping, vertices);
        let (mut rounds, mut change) = (0, 2 * RANKS);
        while rounds < ranking.most_rounds
            && ranking.least_change.is_none_or(|least| change > least || rounds == 0)
        {
            let (mut sums, mut dangling) = (vec![0_u64; vertices as usize], 0);
            for (vertex, rank) in ranks.iter().enumerate() {
                let list = self.list(vertex as u32);
                if list.is_empty() {
                    dangling += rank;
                }
                list.iter().for_each(|edge| sums[edge.target as usize] += rank / list.len() as u64);
            }
            (change, rounds) = (0, rounds + 1);
            for (rank, sum) in ranks.iter_mut().zip(sums) {
                let new = base + damped(ranking.damping, sum + dangling / vertices);
                change += new.abs_diff(*rank);
                *rank = new;
            }
        }
        (ranks, rounds, change)
    }

    pub(super) fn core_numbers(&self) -> Vec<u32> {
        let others = |vertex: u32| self.list(vertex).iter().filter(move |edge| !edge.is_loop());
        let mut left: Vec<u32> = (0..self.vertices as u32).map(|v| others(v).count() as u32).collect();
        let mut cores = vec![u32::MAX; left.len()];
        let mut waiting: BinaryHeap<Reverse<(u32, u32)>> =
            left.iter().enumerate().map(|(vertex, left)| Reverse((*left, vertex as u32))).collect();
        let mut level = 0;
        // A vertex is in the heap once for each number of edges that it had; the first one taken is the present one.
        while let Some(Reverse((edges, vertex))) = waiting.pop() {
            if cores[vertex as usize] != u32::MAX {
                continue;
            }
            level = level.max(edges);
            cores[vertex as usize] = level;
            for edge in others(vertex) {
                let target = edge.target as usize;
                if cores[target] == u32::MAX {
                    left[target] -= 1;
                    waiting.push(Reverse((left[target], edge.target)));
                }
            }
        }
        cores
    }
}

/// The targets that two lists have in common.
fn common<'a>(mut one: &'a [Edge], mut two: &'a [Edge]) -> impl Iterator<Item = u32> + 'a {
    std::iter::from_fn(move || {
        loop {
            let (a, b) = (one.first()?.target, two.first()?.target);
            if a <= b {
                one = &one[1..];
            }
            if b <= a {
                two = &two[1..];
            }
            if a == b {
                return Some(a);
            }
        }
    })
}
