//! Edges of made-up graphs, for tests and measurements: road networks, points and their neighbours, triangulations, and graphs like social networks.
//!
//! The same arguments give the same edges on any machine. Each edge is there once, with the smaller end first, in ascending order; no edge leads to its own source.
//!
//! ```
//! use warpkeep_containers::{Edge, Graph, GraphOptions, generate};
//!
//! let edges = generate::road(10_000, 7);
//! assert_eq!(edges, generate::road(10_000, 7));
//! let graph = Graph::on_cpu(&GraphOptions::default().undirected());
//! graph.insert_edges(&edges.iter().map(|(source, target)| Edge::new(*source, *target)).collect::<Vec<_>>())?;
//! assert!((2.2..2.6).contains(&(2.0 * graph.edge_count() as f64 / 10_000.0)));
//! # Ok::<(), warpkeep_containers::ContainerError>(())
//! ```

mod delaunay;
mod draws;
mod geometric;
mod rmat;
mod road;

pub use delaunay::delaunay;
pub use geometric::geometric;
pub use rmat::{Rmat, rmat};
pub use road::road;

/// Vertices of a generated graph: numbers of 32 bits, of which the last one is none.
const MOST_VERTICES: u64 = u32::MAX as u64;

/// The number of vertices.
///
/// # Panics
/// If a graph cannot have that many.
fn checked(vertices: u64) -> usize {
    assert!(
        vertices <= MOST_VERTICES,
        "a graph has at most 2^32 - 1 vertices, and {vertices} were asked for"
    );
    vertices as usize
}

/// In ascending order, each once.
fn in_order(mut edges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    edges.sort_unstable();
    edges.dedup();
    edges
}
