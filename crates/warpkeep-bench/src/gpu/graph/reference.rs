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

    /// What is wrong with a sample of one hop from different seeds, if anything is.
    pub(crate) fn wrong_in(
        &self,
        seeds: &[u32],
        fanout: usize,
        is_replaced: bool,
        sample: &GraphSample,
    ) -> Option<String> {
        let mut chosen: Vec<Vec<u32>> = vec![Vec::new(); seeds.len()];
        if sample.seeds.iter().map(|&at| sample.vertices[at as usize]).ne(seeds.iter().copied()) {
            return Some("the seeds of a sample are not those that were given".to_owned());
        }
        if sample.rows.len() != sample.cols.len() {
            return Some("a sample has edges without a source or a target".to_owned());
        }
        for (&row, &col) in sample.rows.iter().zip(&sample.cols) {
            match chosen.get_mut(row as usize) {
                Some(targets) => targets.push(sample.vertices[col as usize]),
                None => return Some(format!("an edge of a sample leaves vertex {row}, which is no seed")),
            }
        }
        seeds
            .iter()
            .zip(&chosen)
            .find_map(|(&seed, targets)| self.wrong_choice(seed, fanout, is_replaced, targets))
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

    /// What is wrong with the edges of a sample of any hops, if anything is.
    pub(super) fn wrong_edge_in(&self, sample: &GraphSample) -> Option<String> {
        let vertex = |number: &u32| sample.vertices.get(*number as usize).copied();
        sample.rows.iter().zip(&sample.cols).find_map(|(row, col)| match (vertex(row), vertex(col)) {
            (Some(source), Some(target)) if self.has(source, target) => None,
            (source, target) => {
                Some(format!("a sample has an edge from {source:?} to {target:?}, which is not there"))
            }
        })
    }
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

    #[test]
    fn wrong_samples_are_found() {
        let graph = small();
        let sample = |vertices: &[u32], rows: &[u32], cols: &[u32]| {
            let mut sample = GraphSample::default();
            (sample.vertices, sample.seeds) = (vertices.to_vec(), vec![0]);
            (sample.rows, sample.cols) = (rows.to_vec(), cols.to_vec());
            sample
        };
        let right = sample(&[1, 0, 2], &[0, 0], &[1, 2]);
        assert_eq!(graph.wrong_in(&[1], 5, false, &right), None);
        let wrong = |seed, fanout, sample: &GraphSample| graph.wrong_in(&[seed], fanout, false, sample);
        assert!(wrong(2, 5, &right).expect("another seed").contains("seeds"));
        assert!(wrong(1, 1, &right).expect("too many").contains("2 edges"));
        assert!(wrong(1, 2, &sample(&[1, 0, 3], &[0, 0], &[1, 2])).expect("no edge").contains("1 3"));
        assert!(wrong(1, 2, &sample(&[1, 0], &[0, 0], &[1, 1])).expect("an edge twice").contains("twice"));
        assert_eq!(graph.wrong_edge_in(&right), None);
        assert!(graph.wrong_edge_in(&sample(&[1, 0, 3], &[0, 0], &[1, 2])).expect("no edge").contains('3'));
        assert!(graph.wrong_edge_in(&sample(&[1, 0], &[0], &[2])).expect("no vertex").contains("None"));
    }
}
