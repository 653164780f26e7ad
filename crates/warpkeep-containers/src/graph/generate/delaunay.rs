//! Triangulations of points.

use std::cmp::Reverse;

use super::draws::Draws;
use super::{checked, in_order};

/// Points have whole coordinates of this many bits, so that tests of where a point lies are exact.
const BITS: u32 = 22;
/// The corners of the triangle that all points are in.
const CORNERS: [Point; 3] =
    [Point(-(1 << 29), -(1 << 29)), Point(1 << 29, -(1 << 29)), Point(1 << 21, 1 << 29)];
/// No triangle.
const NONE: u32 = u32::MAX;

/// The Delaunay triangulation of random points: three edges a vertex, and all faces are triangles. Degrees are six on average, with a variance of 1.8. Points are numbered along a
/// curve that fills the square, so neighbours have near numbers. A point that was drawn before has no edges. Edges between points of the border that are nearly in a line
/// can be missing.
pub fn delaunay(vertices: u64, seed: u64) -> Vec<(u32, u32)> {
    let count = checked(vertices);
    let mut draws = Draws::new(seed, 5);
    let mut drawn: Vec<u64> = (0..count).map(|_| draws.word() >> (64 - 2 * BITS)).collect();
    // The bits of both coordinates alternate in the number: its order is that of the curve.
    drawn.sort_unstable();
    // A few points from everywhere come first, then twice as many, and so on: each round in order, so that the next triangle is near.
    let mut order: Vec<(Reverse<u32>, u32)> =
        (0..count as u32).map(|at| (Reverse(draws.word().trailing_ones()), at)).collect();
    order.sort_unstable();
    let mut mesh = Mesh::new(drawn.iter().map(|number| Point::of(*number)).collect());
    for (_, vertex) in order {
        if vertex == 0 || drawn[vertex as usize] != drawn[vertex as usize - 1] {
            mesh.insert(vertex);
        }
    }
    in_order(mesh.edges(count as u32))
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point(i64, i64);

impl Point {
    /// The point with this number on the curve.
    fn of(number: u64) -> Point {
        let even = |number: u64| (0..BITS).fold(0, |sum, bit| sum | ((number >> (2 * bit)) & 1) << bit);
        Point(even(number) as i64, even(number >> 1) as i64)
    }
}

/// Positive if the way from `a` over `b` to `c` turns left.
fn turn(a: Point, b: Point, c: Point) -> i64 {
    (b.0 - a.0) * (c.1 - a.1) - (b.1 - a.1) * (c.0 - a.0)
}

/// Whether `p` is within the circle through the corners of a triangle that turns left.
fn is_in_circle(a: Point, b: Point, c: Point, p: Point) -> bool {
    let from = |point: Point| (i128::from(point.0 - p.0), i128::from(point.1 - p.1));
    let (a, b, c) = (from(a), from(b), from(c));
    let square = |d: (i128, i128)| d.0 * d.0 + d.1 * d.1;
    let cross = |d: (i128, i128), e: (i128, i128)| d.0 * e.1 - d.1 * e.0;
    square(a) * cross(b, c) + square(b) * cross(c, a) + square(c) * cross(a, b) > 0
}

#[derive(Debug, Clone, Copy)]
struct Triangle {
    /// Its corners, so that it turns left.
    corners: [u32; 3],
    /// The triangles beyond the sides opposite to them.
    beyond: [u32; 3],
}

struct Mesh {
    points: Vec<Point>,
    triangles: Vec<Triangle>,
    /// The insertion that looked at a triangle last.
    looked: Vec<u32>,
    insertions: u32,
    /// A triangle near the point that was inserted last.
    last: u32,
    /// Of the point that is inserted: the triangles that go, and the sides of the hole with the triangles beyond.
    hole: Vec<u32>,
    border: Vec<(u32, u32, u32)>,
}

impl Mesh {
    fn new(mut points: Vec<Point>) -> Mesh {
        let first = points.len() as u32;
        points.extend(CORNERS);
        let all = Triangle { corners: [first, first + 1, first + 2], beyond: [NONE; 3] };
        let (triangles, looked) = (vec![all], vec![0]);
        Mesh { points, triangles, looked, insertions: 0, last: 0, hole: Vec::new(), border: Vec::new() }
    }

    fn point(&self, vertex: u32) -> Point {
        self.points[vertex as usize]
    }

    /// The triangle that a point is in, or on the border of.
    fn find(&self, p: Point) -> u32 {
        let mut at = self.last;
        loop {
            let Triangle { corners, beyond } = self.triangles[at as usize];
            let outside = (0..3)
                .find(|&i| turn(self.point(corners[(i + 1) % 3]), self.point(corners[(i + 2) % 3]), p) < 0);
            match outside {
                Some(side) => at = beyond[side],
                None => return at,
            }
        }
    }

    /// Makes a hole of all triangles whose circles the point is in, and fills it with triangles that have the point as a corner.
    fn insert(&mut self, vertex: u32) {
        let p = self.point(vertex);
        self.insertions += 1;
        let first = self.find(p);
        self.hole.clear();
        self.border.clear();
        self.hole.push(first);
        self.looked[first as usize] = self.insertions;
        let mut next = 0;
        while next < self.hole.len() {
            let Triangle { corners, beyond } = self.triangles[self.hole[next] as usize];
            for side in 0..3 {
                let other = beyond[side];
                if other != NONE && self.looked[other as usize] == self.insertions {
                    continue;
                }
                let [a, b, c] = if other == NONE { [0; 3] } else { self.triangles[other as usize].corners };
                if other != NONE && is_in_circle(self.point(a), self.point(b), self.point(c), p) {
                    self.looked[other as usize] = self.insertions;
                    self.hole.push(other);
                } else {
                    self.border.push((corners[(side + 1) % 3], corners[(side + 2) % 3], other));
                }
            }
            next += 1;
        }
        // There are two sides more than triangles.
        while self.hole.len() < self.border.len() {
            self.hole.push(self.triangles.len() as u32);
            self.triangles.push(Triangle { corners: [0; 3], beyond: [NONE; 3] });
            self.looked.push(0);
        }
        for at in 0..self.border.len() {
            let (from, to, other) = self.border[at];
            let place = self.hole[at];
            // The side from `to` to the point is that of the triangle whose side of the hole begins there.
            let after = self.border.iter().position(|side| side.0 == to);
            let before = self.border.iter().position(|side| side.1 == from);
            let of = |side: Option<usize>| side.map_or(NONE, |side| self.hole[side]);
            let beyond = [other, of(after), of(before)];
            self.triangles[place as usize] = Triangle { corners: [vertex, from, to], beyond };
            if other != NONE {
                let theirs = &mut self.triangles[other as usize];
                let side = (0..3).find(|&i| theirs.corners[i] != from && theirs.corners[i] != to);
                theirs.beyond[side.unwrap_or(0)] = place;
            }
        }
        self.last = self.hole[0];
    }

    /// The sides of all triangles, between vertices below this one.
    fn edges(&self, first_corner: u32) -> Vec<(u32, u32)> {
        let sides = |triangle: &Triangle| {
            let [a, b, c] = triangle.corners;
            [(a, b), (b, c), (c, a)].map(|(one, two)| (one.min(two), one.max(two)))
        };
        self.triangles.iter().flat_map(sides).filter(|side| side.1 < first_corner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_point_is_in_the_circle_of_a_triangle() {
        // Points of a small grid are often on one circle or in one line, and there twice.
        for (count, spread) in [(60, 1 << BITS), (200, 9), (40, 4)] {
            let mut draws = Draws::new(count, spread);
            let points: Vec<Point> =
                (0..count).map(|_| Point(draws.below(spread) as i64, draws.below(spread) as i64)).collect();
            let mut mesh = Mesh::new(points.clone());
            let mut inserted: Vec<u32> = Vec::new();
            for vertex in 0..count as u32 {
                if !inserted.iter().any(|other| points[*other as usize] == points[vertex as usize]) {
                    mesh.insert(vertex);
                    inserted.push(vertex);
                }
            }
            assert_eq!(mesh.triangles.len(), 2 * inserted.len() + 1);
            for (at, triangle) in mesh.triangles.iter().enumerate() {
                let [a, b, c] = triangle.corners.map(|corner| mesh.point(corner));
                assert!(turn(a, b, c) > 0);
                assert!(inserted.iter().all(|vertex| !is_in_circle(a, b, c, mesh.point(*vertex))));
                for beyond in triangle.beyond.iter().filter(|beyond| **beyond != NONE) {
                    assert!(mesh.triangles[*beyond as usize].beyond.contains(&(at as u32)));
                }
            }
        }
    }
}
