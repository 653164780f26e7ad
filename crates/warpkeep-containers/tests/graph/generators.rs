//! Generators: the degrees that they promise, and that the seed decides the edges.

use warpkeep_containers::generate::{Rmat, delaunay, geometric, rmat, road};

/// Degrees of all vertices, the largest first, of edges that are as all generators give them.
fn degrees(vertices: usize, edges: &[(u32, u32)]) -> Vec<u32> {
    let mut degrees = vec![0; vertices];
    assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    for &(one, two) in edges {
        assert!(one < two);
        degrees[one as usize] += 1;
        degrees[two as usize] += 1;
    }
    degrees.sort_unstable_by(|one, two| two.cmp(one));
    degrees
}

fn mean(degrees: &[u32]) -> f64 {
    degrees.iter().map(|degree| f64::from(*degree)).sum::<f64>() / degrees.len() as f64
}

fn variance(degrees: &[u32]) -> f64 {
    let mean = mean(degrees);
    degrees.iter().map(|degree| (f64::from(*degree) - mean).powi(2)).sum::<f64>() / degrees.len() as f64
}

#[test]
fn roads_have_few_edges_to_near_vertices() {
    let edges = road(10_000, 7);
    let degrees = degrees(10_000, &edges);
    assert!((2.3..2.5).contains(&mean(&degrees)) && degrees[0] <= 6, "{}", mean(&degrees));
    assert!(edges.iter().all(|&(one, two)| [1, 100, 101].contains(&(two - one))));
    assert!(
        edges.iter().all(|&(one, two)| one % 100 != 99 || two - one == 100),
        "no street leaves at the right"
    );
    assert_eq!((road(0, 1).len(), road(1, 1).len(), road(3, 1).iter().all(|edge| edge.1 < 3)), (0, 0, true));
}

#[test]
fn geometric_graphs_have_the_degrees_of_poisson_and_triangles() {
    let edges = geometric(20_000, 13.0, 3);
    let degrees = degrees(20_000, &edges);
    let (mean, variance) = (mean(&degrees), variance(&degrees));
    // Points near the border have fewer neighbours.
    assert!((12.2..13.2).contains(&mean) && (0.8..1.4).contains(&(variance / mean)), "{mean} {variance}");
    // Two neighbours of a point are neighbours with a probability of 0.59.
    let has = |one: u32, two: u32| edges.binary_search(&(one.min(two), one.max(two))).is_ok();
    let (mut closed, mut open) = (0, 0);
    for pair in edges.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        if has(pair[0].1, pair[1].1) { closed += 1 } else { open += 1 }
    }
    let share = f64::from(closed) / f64::from(closed + open);
    assert!((0.5..0.95).contains(&share), "{share}");
    // Of few points the brute force finds the same: all of them are neighbours, or none.
    assert_eq!(geometric(40, 1e9, 5).len(), 40 * 39 / 2);
    assert!(geometric(40, 0.0, 5).is_empty() && geometric(40, f64::NAN, 5).is_empty());
    assert!(geometric(0, 3.0, 5).is_empty());
}

#[test]
fn triangulations_have_three_edges_a_vertex() {
    let edges = delaunay(20_000, 11);
    let degrees = degrees(20_000, &edges);
    let (mean, variance) = (mean(&degrees), variance(&degrees));
    assert!((5.9..6.0).contains(&mean) && (1.5..2.1).contains(&variance), "{mean} {variance}");
    assert!((10..16).contains(&degrees[0]) && degrees[19_999] >= 2, "{}", degrees[0]);
    assert_eq!([0, 1, 2, 3].map(|vertices| delaunay(vertices, 1).len()), [0, 0, 1, 3]);
}

#[test]
fn rmat_graphs_have_as_many_edges_as_asked_for_and_the_tail_of_their_kind() {
    let scale = 13;
    let vertices = 1_usize << scale;
    // The largest mean degree is about (2 (a + b))^scale times the mean.
    for (kind, growth) in [(Rmat::SKEWED, 1.52), (Rmat::LIVE_JOURNAL, 1.376), (Rmat::ORKUT, 1.318_f64)] {
        let edges = rmat(scale, &kind, 5);
        assert_eq!(edges.len(), (kind.edges_per_vertex * vertices as f64) as usize);
        let degrees = degrees(vertices, &edges);
        let skew = f64::from(degrees[0]) / mean(&degrees) / growth.powi(scale as i32);
        // Edges that are drawn again make the head flatter, most where it is highest.
        assert!((0.3..1.4).contains(&skew), "{kind:?}: {skew}");
    }
    let alone =
        |kind: &Rmat| degrees(vertices, &rmat(scale, kind, 5)).iter().filter(|degree| **degree == 0).count();
    assert!(alone(&Rmat::SKEWED) > vertices / 20 && alone(&Rmat::ORKUT) < vertices / 20);
    // No more than half of all edges, even if one quadrant has all.
    let kind = Rmat::SKEWED.with_edges(1e9);
    assert_eq!(rmat(5, &kind, 1).len(), 32 * 31 / 4);
    assert!(rmat(0, &Rmat::SKEWED, 1).is_empty());
}

#[test]
fn the_seed_decides_the_edges() {
    type Generator = fn(u64) -> Vec<(u32, u32)>;
    let all: [Generator; 4] = [
        |seed| road(300, seed),
        |seed| geometric(300, 8.0, seed),
        |seed| delaunay(300, seed),
        |seed| rmat(8, &Rmat::LIVE_JOURNAL, seed),
    ];
    for generator in all {
        let [one, again, other] = [1, 1, 2].map(generator);
        assert_eq!(one, again);
        assert_ne!(one, other);
    }
}
