//! Points and their neighbours.

use super::draws::Draws;
use super::{checked, in_order};

/// A random geometric graph: points in the unit square, with an edge between those that are nearer than a radius, which is chosen so that vertices have this many edges on average
/// (fewer near the border). Degrees have the distribution of Poisson, and there are many triangles. Points are numbered cell by cell of a grid, so neighbours have near numbers.
///
/// A degree that is no number, or negative, is 0.
pub fn geometric(vertices: u64, degree: f64, seed: u64) -> Vec<(u32, u32)> {
    let vertices = checked(vertices);
    let radius = (degree.max(0.0) / (std::f64::consts::PI * vertices.max(1) as f64)).sqrt().min(1.5);
    // Cells as wide as the radius, and not more than vertices.
    let cells = (1.0 / radius.max(1e-9)).min((vertices as f64).sqrt()).max(1.0) as usize;
    let mut draws = Draws::new(seed, 2);
    let cell = |x: f64| ((x * cells as f64) as usize).min(cells - 1);
    let mut points: Vec<(f64, f64)> = (0..vertices).map(|_| (draws.fraction(), draws.fraction())).collect();
    points.sort_by(|a, b| {
        let key = |point: &(f64, f64)| cell(point.1) * cells + cell(point.0);
        key(a).cmp(&key(b)).then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1))
    });
    let mut begins = vec![0_usize; cells * cells + 1];
    points.iter().for_each(|point| begins[cell(point.1) * cells + cell(point.0) + 1] += 1);
    (0..cells * cells).for_each(|at| begins[at + 1] += begins[at]);
    let mut edges = Vec::new();
    for (one, &(x, y)) in points.iter().enumerate() {
        let (column, row) = (cell(x), cell(y));
        for near in row..=(row + 1).min(cells - 1) {
            let (first, last) = (column.saturating_sub(1), (column + 1).min(cells - 1));
            let range = begins[near * cells + first]..begins[near * cells + last + 1];
            for (two, other) in range.clone().zip(&points[range]) {
                let (dx, dy) = (other.0 - x, other.1 - y);
                // Pairs of one row of cells are met twice.
                if two != one && (near > row || two > one) && dx * dx + dy * dy < radius * radius {
                    edges.push((one.min(two) as u32, one.max(two) as u32));
                }
            }
        }
    }
    in_order(edges)
}
