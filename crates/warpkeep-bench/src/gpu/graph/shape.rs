//! The kinds of graphs that are measured: the generators of the library.

use std::fmt;
use std::str::FromStr;

use warpkeep_containers::generate::{self, Rmat};

use crate::workload::Dice;

/// Edges of a vertex of a geometric graph, as in the rgg_n_2 graphs.
const GEOMETRIC_DEGREE: f64 = 13.0;

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
    /// R-MAT with 0.57, 0.19, 0.19, 0.05 and 16 edges a vertex: few vertices have very many edges.
    Rmat,
    /// R-MAT with the edges and the tail of soc-LiveJournal1.
    LiveJournal,
    /// R-MAT with the edges and the tail of soc-orkut.
    Orkut,
    /// A square grid of which 0.6 of the streets are there, and 0.01 of the diagonals, as in road networks.
    Road,
    /// Points with an edge between near ones, 13 edges a vertex.
    Geometric,
    /// The Delaunay triangulation of random points.
    Delaunay,
}

impl Shape {
    pub(crate) const ALL: [Shape; 6] =
        [Shape::Rmat, Shape::LiveJournal, Shape::Orkut, Shape::Road, Shape::Geometric, Shape::Delaunay];
    /// Those that are measured if none are given.
    pub(super) const USUAL: [Shape; 2] = [Shape::Rmat, Shape::Road];

    /// The vertices that a graph of this shape has for a wanted number.
    pub(crate) fn rounded(self, vertices: usize) -> usize {
        match self {
            Shape::Rmat | Shape::LiveJournal | Shape::Orkut => vertices.next_power_of_two(),
            Shape::Road | Shape::Geometric | Shape::Delaunay => vertices,
        }
    }

    /// The edges of an undirected graph, each once with the smaller end first, in ascending order.
    pub(crate) fn edges(self, vertices: usize, seed: u64) -> Vec<(u32, u32)> {
        let drawn = |kind| generate::rmat(vertices.max(1).ilog2(), &kind, seed);
        let vertices = vertices as u64;
        match self {
            Shape::Rmat => drawn(Rmat::SKEWED),
            Shape::LiveJournal => drawn(Rmat::LIVE_JOURNAL),
            Shape::Orkut => drawn(Rmat::ORKUT),
            Shape::Road => generate::road(vertices, seed),
            Shape::Geometric => generate::geometric(vertices, GEOMETRIC_DEGREE, seed),
            Shape::Delaunay => generate::delaunay(vertices, seed),
        }
    }
}

/// Numbers from 0 in a random order.
pub(crate) fn shuffled(count: usize, dice: &mut Dice) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for at in (1..count).rev() {
        numbers.swap(at, dice.below(at as u64 + 1) as usize);
    }
    numbers
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Rmat => "rmat",
            Shape::LiveJournal => "live-journal",
            Shape::Orkut => "orkut",
            Shape::Road => "road",
            Shape::Geometric => "geometric",
            Shape::Delaunay => "delaunay",
        })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        Shape::ALL.into_iter().find(|shape| shape.to_string() == text.trim()).ok_or_else(|| {
            let names = Shape::ALL.map(|shape| shape.to_string()).join(", ");
            format!("there is no generator `{text}`; give some of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_the_seed_decides_the_edges() {
        for shape in Shape::ALL {
            assert_eq!(shape.to_string().parse(), Ok(shape));
            let vertices = shape.rounded(250);
            let [one, again, other] = [1, 1, 2].map(|seed| shape.edges(vertices, seed));
            assert!(one == again && one != other, "{shape}");
            assert!(one.windows(2).all(|two| two[0] < two[1]) && one.iter().all(|edge| edge.0 < edge.1));
            assert!(one.iter().all(|edge| (edge.1 as usize) < vertices));
        }
    }
}
