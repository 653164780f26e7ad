//! A trace like that of PageRank: for each vertex the ranks of its neighbours are read, then its own is updated.
//!
//! The graph is an R-MAT graph that is nowhere stored: a vertex's neighbours come from its number alone. In R-MAT every bit of
//! an edge's two ends is drawn together, so with one end given, the bits of the other can be drawn by themselves.

use warpkeep_core::{Seed, mix64};

use super::{Action, Scramble, Workload};

/// The chances of the four quarters: both bits 0, the target's 1, the source's 1, both.
const QUARTERS: [f64; 4] = [0.57, 0.19, 0.19, 0.05];
/// Edges a vertex, on average.
const DEGREE: u64 = 16;
/// Random bits that decide a bit.
const LANE: u32 = 16;

/// An R-MAT graph of 2^scale vertices.
#[derive(Clone, Copy, Debug)]
pub struct Rmat {
    scale: u32,
    seed: Seed,
}

impl Rmat {
    /// The largest graph of at most this many vertices.
    pub fn of_at_most(vertices: u64, seed: u64) -> Rmat {
        Rmat { scale: vertices.max(1).ilog2(), seed: Seed(seed).derive(0x726d_6174) }
    }

    /// How many vertices it has.
    pub fn vertices(&self) -> u64 {
        1 << self.scale
    }

    /// The number of a vertex's neighbours: the expected value, rounded at random.
    pub fn degree(&self, vertex: u64) -> u64 {
        let [a, b, c, d] = QUARTERS;
        let ones = vertex.count_ones() as i32;
        let share = (c + d).powi(ones) * (a + b).powi(self.scale as i32 - ones);
        let expected = share * (DEGREE * self.vertices()) as f64;
        let chance = (mix64(self.seed, vertex) >> 11) as f64 / (1_u64 << 53) as f64;
        (expected + chance) as u64
    }

    /// One of a vertex's neighbours, by its place among them.
    #[inline]
    pub fn neighbour(&self, vertex: u64, place: u64) -> u64 {
        let [a, b, c, d] = QUARTERS;
        // How likely the other end's bit is 1, by the bit of this end.
        let ones = [b / (a + b), d / (c + d)].map(|chance| (chance * f64::from(1 << LANE)) as u64);
        let of_edge = Seed(mix64(self.seed.derive(vertex), place));
        let mut neighbour = 0;
        let mut random = 0;
        for bit in 0..self.scale {
            if bit % (64 / LANE) == 0 {
                random = mix64(of_edge, u64::from(bit));
            }
            let is_one = random & ((1 << LANE) - 1) < ones[(vertex >> bit & 1) as usize];
            neighbour |= u64::from(is_one) << bit;
            random >>= LANE;
        }
        neighbour
    }
}

/// The trace of a thread, endless.
#[derive(Clone, Debug)]
pub(crate) struct PageRank {
    graph: Rmat,
    scramble: Scramble,
    vertex: u64,
    place: u64,
    degree: u64,
}

impl PageRank {
    /// One of some threads, each of which walks through the vertices from a place of its own.
    pub(crate) fn new(workload: &Workload, stream: u64, thread: usize, threads: usize) -> PageRank {
        let graph = Rmat::of_at_most(workload.items, workload.seed);
        let begin = mix64(Seed(workload.seed), stream)
            .wrapping_add(graph.vertices() / threads as u64 * thread as u64);
        let vertex = begin % graph.vertices();
        let scramble = Scramble::new(workload.items, workload.seed);
        PageRank { graph, scramble, vertex, place: 0, degree: graph.degree(vertex) }
    }
}

impl Iterator for PageRank {
    type Item = (u64, Action);

    #[inline]
    fn next(&mut self) -> Option<(u64, Action)> {
        if self.place < self.degree {
            let neighbour = self.graph.neighbour(self.vertex, self.place);
            self.place += 1;
            return Some((self.scramble.apply(neighbour), Action::Get));
        }
        let done = self.vertex;
        self.vertex = (self.vertex + 1) % self.graph.vertices();
        (self.place, self.degree) = (0, self.graph.degree(self.vertex));
        Some((self.scramble.apply(done), Action::Put))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    #[test]
    fn the_neighbours_of_a_vertex_follow_the_law_of_its_bits() {
        let graph = Rmat::of_at_most(1 << 9, 1);
        assert_eq!(graph.vertices(), 512);
        for vertex in [0, 511, 0b1_0110_0101] {
            let law: Vec<f64> = (0..512_u64)
                .map(|other| {
                    (0..9)
                        .map(|bit| QUARTERS[((vertex >> bit & 1) * 2 + (other >> bit & 1)) as usize])
                        .product()
                })
                .collect();
            let mut counts = vec![0; 512];
            (0..200_000).for_each(|place| counts[graph.neighbour(vertex, place) as usize] += 1);
            assert!(
                fit::chi_square(&counts, &law).abs() < 4.0,
                "{vertex}: {}",
                fit::chi_square(&counts, &law)
            );
        }
    }

    #[test]
    fn degrees_follow_the_law_and_neighbours_stay() {
        let graph = Rmat::of_at_most(5000, 1);
        assert_eq!(graph.vertices(), 4096);
        let degrees: Vec<u64> = (0..4096).map(|vertex| graph.degree(vertex)).collect();
        let edges: u64 = degrees.iter().sum();
        assert!((edges as f64 / (16.0 * 4096.0) - 1.0).abs() < 0.01, "{edges}");
        let law: Vec<f64> = (0..4096_u64)
            .map(|vertex| {
                0.24_f64.powi(vertex.count_ones() as i32) * 0.76_f64.powi(12 - vertex.count_ones() as i32)
            })
            .collect();
        assert!(fit::kolmogorov(&degrees, &law) < 1.63);
        // Seen from the other end, the law is the same, for two of the quarters are alike.
        let mut counts = vec![0; 4096];
        for vertex in 0..4096 {
            (0..graph.degree(vertex)).for_each(|place| counts[graph.neighbour(vertex, place) as usize] += 1);
        }
        assert!(fit::chi_square(&counts, &law) < 4.0, "{}", fit::chi_square(&counts, &law));
        assert_eq!(graph.neighbour(17, 3), graph.neighbour(17, 3));
    }

    #[test]
    fn a_walk_updates_every_vertex_once_a_turn() {
        let workload = Workload { items: 70, key_bytes: 8, value_bytes: 8, seed: 4 };
        let mut updates = vec![0; 70];
        let mut walk = PageRank::new(&workload, 3, 1, 2);
        while updates.iter().sum::<u64>() < 2 * 64 {
            let (number, action) = walk.next().expect("endless");
            updates[number as usize] += u64::from(action == Action::Put);
        }
        assert!(updates.iter().all(|&count| count == 0 || count == 2), "{updates:?}");
    }
}
