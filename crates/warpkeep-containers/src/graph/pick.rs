//! Which edges of a vertex are in a sample: what `kernels/graph_sample.h` computes, for the CPU form. Both use the same random numbers and the same arithmetic in the same
//! order, so they choose the same edges.

use std::collections::HashSet;

use super::edge::Edge;
use super::sample::{Hop, Pick, Picked, SampleOptions};
use crate::hash_map::mix::mix;

/// Up to this many places of one vertex are searched in their order.
const SEARCHED: usize = 64;

/// Random numbers that depend on the seed, the hop, the vertex's position in the hop and their own number alone.
struct Random(u64);

impl Random {
    fn new(seed: u64, hop: u64, item: u64) -> Self {
        Self(mix(seed, hop << 32 | item))
    }

    fn draw(&self, number: usize) -> u64 {
        mix(self.0, number as u64)
    }

    /// A number below a limit.
    fn below(&self, number: usize, limit: usize) -> usize {
        ((u128::from(self.draw(number)) * limit as u128) >> 64) as usize
    }
}

/// Chooses edges of all vertices of a hop. `data` says whether ids and times are wanted.
pub(super) fn pick<'a>(
    hop: &Hop<'_>,
    options: &SampleOptions,
    data: (bool, bool),
    list: impl Fn(u32) -> &'a [Edge],
) -> Picked {
    let mut picked = Picked::default();
    for (item, vertex) in hop.vertices.iter().enumerate() {
        let random = Random::new(options.seed, hop.number, item as u64);
        let bounds = hop.bounds.as_ref().map(|(from, until)| (from[item], until[item]));
        let list = Candidates { edges: list(*vertex), bounds, pick: options.pick };
        let places = list.places(hop.most as usize, options.replaces, &random);
        picked.counts.push(places.len() as u32);
        let edges = || places.iter().map(|place| list.edges[*place]);
        picked.targets.extend(edges().map(|edge| edge.target));
        if data.0 {
            picked.ids.extend(edges().map(|edge| edge.id));
        }
        if data.1 {
            picked.times.extend(edges().map(|edge| edge.time));
        }
    }
    picked
}

/// The edges of a vertex that may be chosen.
struct Candidates<'a> {
    edges: &'a [Edge],
    bounds: Option<(i64, i64)>,
    pick: Pick,
}

impl Candidates<'_> {
    /// The positions of the edges that are chosen.
    fn places(&self, most: usize, replaces: bool, random: &Random) -> Vec<usize> {
        let degree = self.edges.len();
        let all = self.bounds.is_none() && self.pick == Pick::Uniform;
        match (all, replaces) {
            (true, true) if degree == 0 => Vec::new(),
            (true, true) => (0..most).map(|number| random.below(number, degree)).collect(),
            (true, false) => some(degree, most, random),
            (false, true) if self.pick != Pick::Last => self.repeatedly(most, random),
            (false, _) => self.smallest(most, random),
        }
    }

    /// 0 if the edge may not be chosen.
    fn weight(&self, edge: &Edge) -> f64 {
        if self.bounds.is_some_and(|(from, until)| edge.time < from || edge.time > until) {
            return 0.0;
        }
        match self.pick {
            Pick::Weighted if edge.weight > 0.0 && edge.weight.is_finite() => f64::from(edge.weight),
            Pick::Weighted => 0.0,
            Pick::Uniform | Pick::Last => 1.0,
        }
    }

    /// The candidates with the smallest keys: random ones, times of exponential clocks, or the latest times.
    fn smallest(&self, most: usize, random: &Random) -> Vec<usize> {
        let mut keys: Vec<(u64, usize)> = Vec::new();
        for (at, edge) in self.edges.iter().enumerate() {
            let weight = self.weight(edge);
            if weight == 0.0 {
                continue;
            }
            let key = match self.pick {
                Pick::Last => !(edge.time as u64 ^ 1 << 63),
                Pick::Uniform => random.draw(at),
                Pick::Weighted => (negative_log2(random.draw(at)) as f64 / weight).to_bits(),
            };
            keys.push((key, at));
        }
        keys.sort_unstable();
        keys.truncate(most);
        keys.into_iter().map(|(_, at)| at).collect()
    }

    /// With replacement: a number below the sum of all weights for each, and the candidate that it falls on.
    fn repeatedly(&self, most: usize, random: &Random) -> Vec<usize> {
        let total: f64 = self.edges.iter().fold(0.0, |total, edge| total + self.weight(edge));
        if total == 0.0 {
            return Vec::new();
        }
        let one = |number: usize| {
            let wanted = (random.draw(number) >> 11) as f64 * 2_f64.powi(-53) * total;
            let (mut reached, mut chosen) = (0.0, 0);
            for (at, edge) in self.edges.iter().enumerate() {
                if reached > wanted {
                    break;
                }
                let weight = self.weight(edge);
                if weight > 0.0 {
                    reached += weight;
                    chosen = at;
                }
            }
            chosen
        };
        (0..most).map(one).collect()
    }
}

/// Without replacement, of edges that are all candidates: Floyd's algorithm.
fn some(degree: usize, most: usize, random: &Random) -> Vec<usize> {
    if degree <= most {
        return (0..degree).collect();
    }
    let mut places = Vec::with_capacity(most);
    let mut taken = (most > SEARCHED).then(|| HashSet::with_capacity(most));
    for number in 0..most {
        let last = degree - most + number;
        let chosen = random.below(number, last + 1);
        let is_taken = match &taken {
            Some(taken) => taken.contains(&chosen),
            None => places.contains(&chosen),
        };
        let place = if is_taken { last } else { chosen };
        places.push(place);
        if let Some(taken) = &mut taken {
            taken.insert(place);
        }
    }
    places
}

/// -log2(r / 2^64) in units of 2^-32, in whole numbers, so that every machine has the same. It is at least 1.
fn negative_log2(r: u64) -> u64 {
    let r = r.max(1);
    let zeros = r.leading_zeros();
    let (mut x, mut fraction) = (r << zeros, 0);
    for _ in 0..32 {
        x = ((u128::from(x) * u128::from(x)) >> 64) as u64;
        let is_large = x >> 63;
        fraction = 2 * fraction + is_large;
        if is_large == 0 {
            x *= 2;
        }
    }
    (u64::from(zeros + 1) << 32) - fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_about_nine_digits() {
        for r in [1, 2, 3, 1 << 32, u64::MAX, u64::MAX - 7, 0x1234_5678_9abc_def0, 1 << 63] {
            let right = 64.0 - (r as f64).log2();
            let found = negative_log2(r) as f64 / 2_f64.powi(32);
            assert!((found - right).abs() < 1e-8, "{r}: {found} and not {right}");
        }
        assert_eq!(negative_log2(0), negative_log2(1));
        assert!(negative_log2(u64::MAX) >= 1);
    }
}
