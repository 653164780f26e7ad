//! What the paper's tables have, measured on a TITAN V.

use super::Part;
use crate::gpu::graph::Shape;

/// Million edges or vertices a second by the binary logarithm of the batch, from 16 on.
const INSERTION: [f64; 7] = [501.33, 513.56, 591.06, 641.25, 664.52, 658.09, 646.01];
const DELETION: [f64; 7] = [640.63, 886.92, 947.60, 939.98, 988.85, 1007.16, 1015.47];
const VERTEX_DELETION: [f64; 5] = [5.35, 9.23, 12.66, 19.21, 26.49];
/// From 20 on.
const INCREMENTAL: [f64; 3] = [841.31, 945.64, 993.82];

/// Edges of a batch of table 5.9.
pub(super) const DYNAMIC_BATCH: usize = 1 << 22;

/// The published rate of a batch of this size, in edges or vertices a second.
pub(super) fn rate(part: Part, batch: usize) -> Option<f64> {
    if !batch.is_power_of_two() {
        return None;
    }
    let (rates, first): (&[f64], u32) = match part {
        Part::Insertion => (&INSERTION, 16),
        Part::Deletion => (&DELETION, 16),
        Part::VertexDeletion => (&VERTEX_DELETION, 16),
        Part::IncrementalBuild => (&INCREMENTAL, 20),
        _ => return None,
    };
    let at = batch.trailing_zeros().checked_sub(first)?;
    rates.get(at as usize).map(|rate| rate * 1e6)
}

/// The graph of the paper that a shape stands for, with its vertices.
pub(super) fn stands_for(shape: Shape) -> Option<(&'static str, u64)> {
    match shape {
        Shape::Rmat => None,
        Shape::LiveJournal => Some(("soc-LiveJournal1", 4_847_571)),
        Shape::Orkut => Some(("soc-orkut", 2_997_166)),
        Shape::Road => Some(("road_usa", 23_947_347)),
        Shape::Geometric => Some(("rgg_n_2_20_s0", 1 << 20)),
        Shape::Delaunay => Some(("delaunay_n20", 1 << 20)),
    }
}

/// The published milliseconds of a whole graph of this shape; of table 5.8 those of sorting rows with CUB.
pub(super) fn milliseconds(part: Part, shape: Shape) -> Option<f64> {
    Some(match (part, shape) {
        (Part::BulkBuild, Shape::LiveJournal) => 26.176,
        (Part::BulkBuild, Shape::Orkut) => 39.907,
        (Part::BulkBuild, Shape::Road) => 27.910,
        (Part::BulkBuild, Shape::Geometric) => 5.053,
        (Part::BulkBuild, Shape::Delaunay) => 2.494,
        (Part::Triangles, Shape::LiveJournal) => 1526.0,
        (Part::Triangles, Shape::Orkut) => 6758.0,
        (Part::Triangles, Shape::Road) => 66.20,
        (Part::Triangles, Shape::Geometric) => 23.24,
        (Part::Triangles, Shape::Delaunay) => 6.43,
        (Part::Sorting, Shape::LiveJournal) => 2226.0,
        (Part::Sorting, Shape::Orkut) => 1404.0,
        (Part::Sorting, Shape::Road) => 10_875.0,
        (Part::Sorting, Shape::Geometric) => 496.85,
        (Part::Sorting, Shape::Delaunay) => 503.29,
        (Part::Dynamic, Shape::Road) => 325.8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_numbers_are_found_by_their_batch() {
        assert_eq!(rate(Part::Insertion, 1 << 20), Some(664.52e6));
        assert_eq!(rate(Part::IncrementalBuild, 1 << 20), Some(841.31e6));
        assert_eq!(rate(Part::VertexDeletion, 1 << 21), None);
        assert_eq!((rate(Part::Insertion, 1000), rate(Part::Insertion, 1 << 15)), (None, None));
        assert_eq!(milliseconds(Part::Triangles, Shape::Orkut), Some(6758.0));
        assert_eq!(milliseconds(Part::Insertion, Shape::Orkut), None);
    }
}
