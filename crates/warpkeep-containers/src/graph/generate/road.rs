//! Road networks.

use super::draws::Draws;
use super::{checked, in_order};

/// The share of the streets of a grid that there are: 2.4 ends a vertex, as in road networks.
const STREETS: f64 = 0.6;
/// The share of the diagonals of a grid that there are.
const DIAGONALS: f64 = 0.01;

/// A road network: a square grid of which 0.6 of the streets are there and 0.01 of the diagonals. Vertices have 2.4 edges on average and six at most, and hardly any triangles.
/// Vertices are numbered row by row.
///
/// # Panics
/// If there are more than 2^32 - 1 vertices, as all generators.
pub fn road(vertices: u64, seed: u64) -> Vec<(u32, u32)> {
    let vertices = checked(vertices);
    let width = vertices.isqrt().max(1);
    let mut draws = Draws::new(seed, 1);
    let mut edges = Vec::with_capacity(vertices / 5 * 6);
    for vertex in 0..vertices {
        let has_right = (vertex + 1) % width != 0;
        let ends = [
            (has_right, vertex + 1, STREETS),
            (true, vertex + width, STREETS),
            (has_right, vertex + width + 1, DIAGONALS),
        ];
        for (is_near, end, share) in ends {
            if draws.fraction() < share && is_near && end < vertices {
                edges.push((vertex as u32, end as u32));
            }
        }
    }
    // With one column, the end of a street down is that of a street to the right.
    in_order(edges)
}
