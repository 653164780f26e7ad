//! Generators of graphs. The same seed gives the same edges on any machine.

use std::fmt;
use std::str::FromStr;

use crate::workload::Dice;

/// Edges that are drawn for each vertex of an R-MAT graph.
const DRAWN: u64 = 16;
/// The probabilities of the first three quadrants of an R-MAT graph, one added to the other: 0.57, 0.19, 0.19, and 0.05 for the last.
const QUADRANTS: [f64; 3] = [0.57, 0.76, 0.95];
/// The share of the streets of a grid that there are: 2.4 for a vertex, as in road networks.
const STREETS: f64 = 0.6;
/// The share of the diagonals of a grid that there are.
const DIAGONALS: f64 = 0.01;

/// How the edges of a graph are generated.
///
/// ```
/// use warpkeep_bench::gpu::graph::Shape;
///
/// assert_eq!("road".parse::<Shape>()?, Shape::Road);
/// assert!("tree".parse::<Shape>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// R-MAT with 0.57, 0.19, 0.19, 0.05: few vertices have very many edges, as in social networks. 16 edges are drawn for each vertex; loops and those drawn
    /// before are dropped.
    Rmat,
    /// A square grid of which 0.6 of the streets are there, and 0.01 of the diagonals, as in road networks.
    Road,
}

impl Shape {
    pub(super) const ALL: [Shape; 2] = [Shape::Rmat, Shape::Road];

    /// The vertices that a graph of this shape has for a wanted number.
    pub(super) fn rounded(self, vertices: usize) -> usize {
        match self {
            Shape::Rmat => vertices.next_power_of_two(),
            Shape::Road => vertices,
        }
    }

    /// The edges of an undirected graph, each once with the smaller end first, in ascending order.
    pub(super) fn edges(self, vertices: usize, seed: u64) -> Vec<(u32, u32)> {
        let mut edges = match self {
            Shape::Rmat => rmat(vertices, seed),
            Shape::Road => road(vertices, seed),
        };
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

/// Numbers from 0 in a random order.
pub(super) fn shuffled(count: usize, dice: &mut Dice) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for at in (1..count).rev() {
        numbers.swap(at, dice.below(at as u64 + 1) as usize);
    }
    numbers
}

fn rmat(vertices: usize, seed: u64) -> Vec<(u32, u32)> {
    let bits = vertices.trailing_zeros();
    // Without it, vertices with small numbers would have most edges.
    let names = shuffled(vertices, &mut Dice::new(seed, 1));
    let mut dice = Dice::new(seed, 2);
    let mut edges = Vec::with_capacity(vertices * DRAWN as usize);
    for _ in 0..vertices as u64 * DRAWN {
        let (mut source, mut target) = (0_usize, 0_usize);
        for _ in 0..bits {
            let drawn = dice.fraction();
            let quadrant = QUADRANTS.iter().filter(|&&until| drawn >= until).count();
            (source, target) = (2 * source + quadrant / 2, 2 * target + quadrant % 2);
        }
        let (one, two) = (names[source], names[target]);
        if one != two {
            edges.push((one.min(two), one.max(two)));
        }
    }
    edges
}

fn road(vertices: usize, seed: u64) -> Vec<(u32, u32)> {
    let width = vertices.isqrt().max(1);
    let mut dice = Dice::new(seed, 3);
    let mut edges = Vec::new();
    for vertex in 0..vertices {
        let has_right = (vertex + 1) % width != 0;
        let ends = [
            (has_right, vertex + 1, STREETS),
            (true, vertex + width, STREETS),
            (has_right, vertex + width + 1, DIAGONALS),
        ];
        for (is_near, end, share) in ends {
            if dice.fraction() < share && is_near && end < vertices {
                edges.push((vertex as u32, end as u32));
            }
        }
    }
    edges
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Rmat => "rmat",
            Shape::Road => "road",
        })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        Shape::ALL
            .into_iter()
            .find(|shape| shape.to_string() == text.trim())
            .ok_or_else(|| format!("there is no generator `{text}`; give rmat or road"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn degrees(vertices: usize, edges: &[(u32, u32)]) -> Vec<usize> {
        let mut degrees = vec![0; vertices];
        for &(one, two) in edges {
            assert!(one < two);
            degrees[one as usize] += 1;
            degrees[two as usize] += 1;
        }
        degrees
    }

    #[test]
    fn few_vertices_of_an_rmat_graph_have_very_many_edges() {
        let vertices = 1 << 12;
        let edges = Shape::Rmat.edges(vertices, 7);
        assert!(edges.len() > vertices * 8 && edges.len() < vertices * 16, "{}", edges.len());
        let mut degrees = degrees(vertices, &edges);
        degrees.sort_unstable_by(|one, two| two.cmp(one));
        let mean = 2 * edges.len() / vertices;
        assert!(degrees[0] > 20 * mean, "{} against {mean}", degrees[0]);
        // The tenth of the vertices with most edges has half of all ends, and many vertices have no edge.
        let top: usize = degrees[..vertices / 10].iter().sum();
        assert!(top > edges.len(), "{top} of {}", 2 * edges.len());
        let alone = degrees.iter().filter(|&&degree| degree == 0).count();
        assert!(alone > vertices / 20 && alone < vertices / 2, "{alone}");
    }

    #[test]
    fn the_quadrants_of_an_rmat_graph_have_their_shares() {
        // With two vertices, the draws of the second and of the third quadrant are no loops.
        let edges: usize = (0..200).map(|seed| rmat(2, seed).len()).sum();
        let share = edges as f64 / (200 * 2 * DRAWN) as f64;
        assert!((share - 0.38).abs() < 0.03, "{share}");
    }

    #[test]
    fn vertices_of_a_road_graph_have_few_edges_to_near_vertices() {
        let vertices = 10_000;
        let edges = Shape::Road.edges(vertices, 7);
        let degrees = degrees(vertices, &edges);
        let mean = 2.0 * edges.len() as f64 / vertices as f64;
        assert!((2.3..2.5).contains(&mean), "{mean}");
        assert!(degrees.iter().all(|&degree| degree <= 6));
        assert!(edges.iter().all(|&(one, two)| [1, 100, 101].contains(&(two - one))));
        // No street leaves the grid at its right side.
        assert!(edges.iter().all(|&(one, two)| one % 100 != 99 || two - one == 100));
    }

    #[test]
    fn the_seed_decides_the_edges() {
        for shape in Shape::ALL {
            let [one, again, other] = [1, 1, 2].map(|seed| shape.edges(256, seed));
            assert_eq!(one, again);
            assert_ne!(one, other);
            assert!(one.windows(2).all(|two| two[0] < two[1]));
        }
    }
}
