//! The graph that every answer is compared with.

use std::collections::HashSet;

use warpkeep_containers::GraphSample;

/// An undirected graph that does not change.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Each edge once with the smaller end first, in ascending order.
    pub(crate) edges: Vec<(u32, u32)>,
    /// Where the list of each vertex begins, and where the last one ends.
    pub(crate) offsets: Vec<u64>,
    /// The neighbours of all vertices.
    pub(crate) targets: Vec<u32>,
}

impl Reference {
    /// Of edges as [`edges`](Self::edges) has them.
    pub(crate) fn new(edges: Vec<(u32, u32)>) -> Reference {
        let vertices = edges.iter().map(|edge| edge.1 as usize + 1).max().unwrap_or(0);
        let mut offsets = vec![0_u64; vertices + 1];
        for &(one, two) in &edges {
            offsets[one as usize + 1] += 1;
            offsets[two as usize + 1] += 1;
        }
        for vertex in 0..vertices {
            offsets[vertex + 1] += offsets[vertex];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0; 2 * edges.len()];
        let mut put = |source: u32, target: u32| {
            let at = &mut next[source as usize];
            targets[*at as usize] = target;
            *at += 1;
        };
        // In this order every list is sorted: first all smaller neighbours of a vertex, then all larger ones.
        for &(one, two) in &edges {
            put(two, one);
        }
        for &(one, two) in &edges {
            put(one, two);
        }
        Reference { edges, offsets, targets }
    }

    pub(crate) fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The neighbours of a vertex, in ascending order.
    pub(crate) fn list(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        &self.targets[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }

    pub(crate) fn has(&self, source: u32, target: u32) -> bool {
        self.list(source).binary_search(&target).is_ok()
    }

    /// The edges that have one of these vertices as an end, each once.
    pub(crate) fn edges_of(&self, vertices: &[u32]) -> Vec<(u32, u32)> {
        let ends =
            |vertex: u32| self.list(vertex).iter().map(move |&other| (vertex.min(other), vertex.max(other)));
        let mut edges: Vec<(u32, u32)> = vertices.iter().flat_map(|&vertex| ends(vertex)).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// How many triangles it has: each edge leads to the end with more edges, and the lists of both ends are intersected.
    pub(crate) fn triangles(&self) -> u64 {
        let order = |vertex: u32| (self.list(vertex).len(), vertex);
        let above: Vec<Vec<u32>> = (0..self.vertices() as u32)
            .map(|vertex| {
                self.list(vertex).iter().copied().filter(|&one| order(one) > order(vertex)).collect()
            })
            .collect();
        let mut is_marked = vec![false; self.vertices()];
        let mut count = 0;
        for list in &above {
            list.iter().for_each(|&one| is_marked[one as usize] = true);
            for &one in list {
                count += above[one as usize].iter().filter(|&&two| is_marked[two as usize]).count() as u64;
            }
            list.iter().for_each(|&one| is_marked[one as usize] = false);
        }
        count
    }

    /// What is wrong with a sample from different seeds, if anything is: of each vertex that a hop asks for as many edges as there are, up to the fan-out of the hop.
    pub(crate) fn wrong_in(
        &self,
        seeds: &[u32],
        fanouts: &[u32],
        is_replaced: bool,
        sample: &GraphSample,
    ) -> Option<String> {
        if let Some(wrong) = wrong_shape(seeds, fanouts.len(), sample) {
            return Some(wrong);
        }
        // Seeds are found without an edge.
        let mut is_found: Vec<bool> = (0..sample.vertices.len()).map(|number| number < seeds.len()).collect();
        let (mut first, mut edge) = (0, 0);
        for (hop, &fanout) in fanouts.iter().enumerate() {
            let (asked, edges) = (sample.vertices_per_hop[hop] as usize, sample.edges_per_hop[hop] as usize);
            let mut chosen: Vec<Vec<u32>> = vec![Vec::new(); asked];
            for at in edge..edge + edges {
                let (row, col) = (sample.rows[at] as usize, sample.cols[at] as usize);
                let targets = row.checked_sub(first).and_then(|number| chosen.get_mut(number));
                match (targets, sample.vertices.get(col)) {
                    (Some(targets), Some(&target)) => targets.push(target),
                    _ => {
                        return Some(format!(
                            "hop {hop} of a sample has an edge from vertex number {row} to number {col}: it asks for numbers {first} to {}, and there are {}",
                            first + asked,
                            sample.vertices.len()
                        ));
                    }
                }
                is_found[col] = true;
            }
            let sources = &sample.vertices[first..first + asked];
            let wrong = |(&source, targets): (&u32, &Vec<u32>)| {
                self.wrong_choice(source, fanout as usize, is_replaced, targets)
            };
            if let Some(wrong) = sources.iter().zip(&chosen).find_map(wrong) {
                return Some(wrong);
            }
            (first, edge) = (first + asked, edge + edges);
        }
        let lost = is_found.iter().position(|&is_found| !is_found)?;
        Some(format!("a sample has vertex {}, to which none of its edges leads", sample.vertices[lost]))
    }

    /// What is wrong with the neighbours that were chosen of a vertex, if anything is.
    pub(super) fn wrong_choice(
        &self,
        seed: u32,
        fanout: usize,
        is_replaced: bool,
        targets: &[u32],
    ) -> Option<String> {
        let degree = self.list(seed).len();
        let expected = if is_replaced && degree > 0 { fanout } else { fanout.min(degree) };
        if targets.len() != expected {
            return Some(format!(
                "vertex {seed} has {} edges in a sample, and not {expected}",
                targets.len()
            ));
        }
        if let Some(target) = targets.iter().find(|&&target| !self.has(seed, target)) {
            return Some(format!("a sample has the edge {seed} {target}, which is not there"));
        }
        if !is_replaced && targets.iter().collect::<HashSet<_>>().len() != targets.len() {
            return Some(format!("a sample without replacement has an edge of vertex {seed} twice"));
        }
        None
    }
}

/// What is wrong with the seeds and the counts of a sample, if anything is.
fn wrong_shape(seeds: &[u32], hops: usize, sample: &GraphSample) -> Option<String> {
    let vertex = |number: &u32| sample.vertices.get(*number as usize).copied();
    if sample.seeds.iter().map(vertex).ne(seeds.iter().copied().map(Some)) {
        return Some("the seeds of a sample are not those that were given".to_owned());
    }
    let (per_hop, edges) = (&sample.vertices_per_hop, &sample.edges_per_hop);
    let sums = (per_hop.iter().sum::<u64>() as usize, edges.iter().sum::<u64>() as usize);
    let counts_are_right = (per_hop.len(), edges.len()) == (hops + 1, hops)
        && sums == (sample.vertices.len(), sample.rows.len())
        && sample.rows.len() == sample.cols.len()
        && per_hop[0] as usize == seeds.len();
    if !counts_are_right {
        return Some(format!(
            "a sample has {} vertices, {} sources and {} targets, and counts {per_hop:?} vertices and {edges:?} edges by hop",
            sample.vertices.len(),
            sample.rows.len(),
            sample.cols.len()
        ));
    }
    let different = sample.vertices.iter().collect::<HashSet<_>>().len();
    (different != sample.vertices.len()).then(|| "a sample has a vertex twice".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square with one diagonal, a vertex without edges, and an edge apart.
    fn small() -> Reference {
        Reference::new(vec![(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (5, 6)])
    }

    #[test]
    fn lists_are_sorted_and_lead_both_ways() {
        let graph = small();
        assert_eq!((graph.vertices(), graph.list(2), graph.list(4)), (7, &[0, 1, 3][..], &[][..]));
        assert!(graph.has(6, 5) && graph.has(5, 6) && !graph.has(1, 3));
        assert_eq!(graph.edges_of(&[5, 1, 6]), [(0, 1), (1, 2), (5, 6)]);
        assert_eq!(graph.triangles(), 2);
    }

    /// A sample from vertex 1, or what the change makes of it: both neighbours of 1, and then one of each of them.
    fn sampled(change: impl FnOnce(&mut GraphSample)) -> Option<String> {
        let mut sample = GraphSample::default();
        (sample.vertices, sample.seeds) = (vec![1, 0, 2, 3], vec![0]);
        (sample.rows, sample.cols) = (vec![0, 0, 1, 2], vec![1, 2, 3, 0]);
        (sample.vertices_per_hop, sample.edges_per_hop) = (vec![1, 2, 1], vec![2, 2]);
        change(&mut sample);
        small().wrong_in(&[1], &[5, 1], false, &sample)
    }

    #[test]
    fn wrong_samples_are_found() {
        assert_eq!(sampled(|_| ()), None);
        let wrong = |what: &str, change: fn(&mut GraphSample)| {
            let told = sampled(change).unwrap_or_else(|| panic!("not found: {what}"));
            assert!(told.contains(what), "{told}");
        };
        wrong("seeds", |sample| sample.seeds[0] = 1);
        wrong("seeds", |sample| sample.seeds[0] = 9);
        wrong("by hop", |sample| sample.cols.push(0));
        wrong("by hop", |sample| sample.edges_per_hop[1] = 1);
        wrong("vertex twice", |sample| sample.vertices[3] = 1);
        // The edges of a seed that was asked for five: there are two.
        wrong("1 edges", |sample| {
            (sample.rows, sample.cols) = (vec![0, 1, 2], vec![1, 3, 0]);
            sample.edges_per_hop = vec![1, 2];
        });
        // A vertex of the second hop without an edge, and one with two.
        wrong("vertex 2 has 0 edges", |sample| {
            (sample.rows, sample.cols) = (vec![0, 0, 1], vec![1, 2, 3]);
            sample.edges_per_hop = vec![2, 1];
        });
        wrong("vertex 0 has 2 edges", |sample| (sample.rows[3], sample.cols[3]) = (1, 2));
        wrong("number 3 to number 0", |sample| sample.rows[3] = 3);
        wrong("to number 9", |sample| sample.cols[3] = 9);
        wrong("edge 0 5", |sample| sample.vertices[3] = 5);
        wrong("none of its edges leads", |sample| sample.cols[2] = 0);
        // In one hop.
        let mut one = GraphSample { vertices: vec![1, 0], seeds: vec![0], ..GraphSample::default() };
        (one.rows, one.cols) = (vec![0, 0], vec![1, 1]);
        (one.vertices_per_hop, one.edges_per_hop) = (vec![1, 1], vec![2]);
        let told = |is_replaced| small().wrong_in(&[1], &[2], is_replaced, &one);
        assert!(told(false).expect("an edge twice").contains("twice"));
        assert_eq!(told(true), None);
    }
}
