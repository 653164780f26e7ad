//! Graphs like social networks.

use super::draws::Draws;
use super::{checked, in_order};

/// A level of the matrix takes 21 random bits, a third of a word.
const LEVEL: u32 = 1 << 21;

/// How an R-MAT graph is drawn: each edge chooses one of four quadrants of the matrix of all edges, again and again until an element is left.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Rmat {
    /// Different edges for each vertex.
    pub edges_per_vertex: f64,
    /// The probabilities of the quadrants: both ends in the lower half, the target in the upper one, the source in it. The last quadrant has what is left.
    pub quadrants: [f64; 3],
}

impl Rmat {
    /// Few vertices have very many edges, and a third has none: 16 edges a vertex, with 0.57, 0.19, 0.19 and 0.05.
    pub const SKEWED: Rmat = Rmat { edges_per_vertex: 16.0, quadrants: [0.57, 0.19, 0.19] };
    /// Edges a vertex, and the largest degree at 2^22 vertices, like those of soc-LiveJournal1 (8.9 and some 20,000). There are fewer triangles than there.
    pub const LIVE_JOURNAL: Rmat = Rmat { edges_per_vertex: 8.9, quadrants: [0.498, 0.19, 0.19] };
    /// The same of soc-orkut: 38 and some 33,000.
    pub const ORKUT: Rmat = Rmat { edges_per_vertex: 38.1, quadrants: [0.469, 0.19, 0.19] };

    /// With another number of edges for each vertex.
    #[must_use]
    pub fn with_edges(self, edges_per_vertex: f64) -> Rmat {
        Rmat { edges_per_vertex, ..self }
    }
}

/// An undirected R-MAT graph with 2^`scale` vertices. Edges that were drawn before and loops are drawn again, so there are as many as asked for, but no more than half of all
/// possible ones. Numbers of vertices say nothing about their degrees.
///
/// # Panics
/// If `scale` is more than 31.
pub fn rmat(scale: u32, kind: &Rmat, seed: u64) -> Vec<(u32, u32)> {
    let vertices = checked(1_u64.checked_shl(scale).filter(|_| scale < 32).unwrap_or(u64::MAX));
    let possible = vertices as u128 * (vertices as u128 - 1) / 2;
    let wanted = ((kind.edges_per_vertex.max(0.0) * vertices as f64) as u128).min(possible / 2) as usize;
    let until = [kind.quadrants[0], kind.quadrants[0] + kind.quadrants[1], kind.quadrants.iter().sum()];
    let until = until.map(|until| (until.clamp(0.0, 1.0) * f64::from(LEVEL)) as u32);
    // Without other names, vertices with small numbers would have most edges.
    let names = Draws::new(seed, 3).shuffled(vertices);
    let mut draws = Draws::new(seed, 4);
    let mut edges: Vec<(u32, u32)> = Vec::with_capacity(wanted + wanted / 8);
    let mut rounds = 0;
    while edges.len() < wanted {
        // A quadrant that is full would be drawn from without end: later rounds draw from all quadrants alike.
        let is_even = rounds >= 40;
        for _ in 0..(wanted - edges.len()) + (wanted - edges.len()) / 4 + 8 {
            let (mut source, mut target) = (0_usize, 0_usize);
            let mut word = 0;
            for level in 0..scale {
                word = if level % 3 == 0 { draws.word() } else { word / u64::from(LEVEL) };
                let drawn = word as u32 % LEVEL;
                let quadrant = match is_even {
                    true => (drawn / (LEVEL / 4)) as usize,
                    false => until.iter().filter(|&&until| drawn >= until).count(),
                };
                (source, target) = (2 * source + quadrant / 2, 2 * target + quadrant % 2);
            }
            let (one, two) = (names[source], names[target]);
            if one != two {
                edges.push((one.min(two), one.max(two)));
            }
        }
        edges = in_order(edges);
        rounds += 1;
    }
    // Those that are too many are as random as the others.
    while edges.len() > wanted {
        let at = draws.below(edges.len() as u64) as usize;
        edges.swap_remove(at);
    }
    in_order(edges)
}
