//! The answers that batches of edges must have, and the lists that a graph must have after them.

use warpkeep_containers::{EdgeOpKind, EdgeStatus};

/// Entries up to which all lists of all contestants are compared.
const COMPARED: usize = 1 << 22;

/// The answers that a batch must have.
#[derive(Debug)]
pub(super) struct Answers {
    kind: EdgeOpKind,
    /// Those of operations that act in the order of the batch: only the first operation on an edge changes the graph.
    right: Vec<u8>,
    /// The operations on each edge that has several, in the order of the batch.
    repeats: Vec<Vec<usize>>,
}

impl Answers {
    /// Of operations on different edges, each of which changes the graph.
    pub(super) fn changes(kind: EdgeOpKind, count: usize) -> Answers {
        Answers { kind, right: vec![change_of(kind) as u8; count], repeats: Vec::new() }
    }

    /// Of operations on any edges. `is_there` says which are in the graph before; edges of undirected graphs have the smaller end first.
    pub(super) fn of(
        kind: EdgeOpKind,
        edges: &[(u32, u32)],
        undirected: bool,
        is_there: impl Fn((u32, u32)) -> bool,
    ) -> Answers {
        let key = |at: &usize| match edges[*at] {
            (one, two) if undirected => (one.min(two), one.max(two)),
            pair => pair,
        };
        let mut order: Vec<usize> = (0..edges.len()).filter(|at| edges[*at].0 != edges[*at].1).collect();
        // Stable: operations on one edge stay in the order of the batch.
        order.sort_by_key(key);
        let mut right = vec![EdgeStatus::Loop as u8; edges.len()];
        let mut repeats = Vec::new();
        for equal in order.chunk_by(|one, other| key(one) == key(other)) {
            let changes = is_there(key(&equal[0])) == (kind == EdgeOpKind::Delete);
            equal.iter().for_each(|at| right[*at] = no_change_of(kind) as u8);
            if changes {
                right[equal[0]] = change_of(kind) as u8;
            }
            if equal.len() > 1 {
                repeats.push(equal.to_vec());
            }
        }
        Answers { kind, right, repeats }
    }

    /// How many edges come or go.
    pub(super) fn count(&self) -> usize {
        self.right.iter().filter(|answer| self.is_change(**answer)).count()
    }

    /// Which operations change the graph, if they act in the order of the batch.
    pub(super) fn is_change_at(&self, at: usize) -> bool {
        self.is_change(self.right[at])
    }

    fn is_change(&self, answer: u8) -> bool {
        answer == change_of(self.kind) as u8
    }

    /// What is wrong with the answers to operations on these edges, if anything is. Without an order, any of the operations on an edge may have changed the graph; and the two directions of an
    /// undirected edge may have come from operations with different ends first.
    pub(super) fn wrong_in(&self, edges: &[(u32, u32)], given: &[u8], in_order: bool) -> Option<String> {
        if given.len() != self.right.len() {
            return Some(format!("{} answers to {} operations", given.len(), self.right.len()));
        }
        let mut given = given.to_vec();
        if !in_order {
            for equal in &self.repeats {
                if let Some(wrong) = self.wrong_in_any_order(edges, equal, &given) {
                    return Some(wrong);
                }
                equal.iter().for_each(|at| given[*at] = self.right[*at]);
            }
        }
        let at = given.iter().zip(&self.right).position(|(given, right)| given != right)?;
        Some(format!(
            "operation {at} of {}, {:?} of the edge {:?}, was answered {}, and not {}",
            given.len(),
            self.kind,
            edges[at],
            given[at],
            self.right[at]
        ))
    }

    /// The same for the operations on one edge.
    fn wrong_in_any_order(&self, edges: &[(u32, u32)], equal: &[usize], given: &[u8]) -> Option<String> {
        let wrong = |what: String| Some(format!("operations on the edge {:?}: {what}", edges[equal[0]]));
        let no_change = no_change_of(self.kind) as u8;
        if let Some(at) = equal.iter().find(|at| !self.is_change(given[**at]) && given[**at] != no_change) {
            return wrong(format!("operation {at} was answered {}", given[*at]));
        }
        // By direction.
        let (mut changes, mut is_asked) = ([0, 0], [false; 2]);
        for &at in equal {
            let direction = usize::from(edges[at] != edges[equal[0]]);
            changes[direction] += u32::from(self.is_change(given[at]));
            is_asked[direction] = true;
        }
        let is_right = match (self.is_change(self.right[equal[0]]), is_asked[1]) {
            (false, _) => changes == [0, 0],
            (true, false) => changes[0] == 1,
            (true, true) => changes.iter().all(|&changes| changes <= 1),
        };
        if is_right { None } else { wrong(format!("{changes:?} of them changed the graph, by direction")) }
    }
}

fn change_of(kind: EdgeOpKind) -> EdgeStatus {
    if kind == EdgeOpKind::Insert { EdgeStatus::Inserted } else { EdgeStatus::Deleted }
}

fn no_change_of(kind: EdgeOpKind) -> EdgeStatus {
    if kind == EdgeOpKind::Insert { EdgeStatus::Updated } else { EdgeStatus::Absent }
}

/// The lists that a graph must have.
pub(super) struct Lists {
    pub(super) entries: u64,
    /// All entries in ascending order; `None` if there are too many to compare.
    pub(super) edges: Option<Vec<(u32, u32)>>,
}

impl Lists {
    /// Of this many entries, which `edges` gives in ascending order.
    pub(super) fn new(entries: usize, edges: impl FnOnce() -> Vec<(u32, u32)>) -> Lists {
        Lists { entries: entries as u64, edges: (entries <= COMPARED).then(edges) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSERTED: u8 = EdgeStatus::Inserted as u8;
    const UPDATED: u8 = EdgeStatus::Updated as u8;
    const LOOP: u8 = EdgeStatus::Loop as u8;

    #[test]
    fn only_the_first_of_equal_operations_changes_the_graph() {
        let edges = [(1, 2), (3, 3), (2, 1), (1, 2), (4, 5)];
        let inserts = |undirected| Answers::of(EdgeOpKind::Insert, &edges, undirected, |edge| edge == (4, 5));
        assert_eq!(inserts(false).right, [INSERTED, LOOP, INSERTED, UPDATED, UPDATED]);
        assert_eq!(inserts(true).right, [INSERTED, LOOP, UPDATED, UPDATED, UPDATED]);
        assert_eq!((inserts(false).count(), inserts(true).count()), (2, 1));
        let deletes = Answers::of(EdgeOpKind::Delete, &edges, true, |edge| edge == (1, 2));
        assert_eq!(deletes.right, [3, 5, 4, 4, 4]);
    }

    #[test]
    fn each_answer_is_compared() {
        let edges = [(1, 2), (1, 2), (3, 4)];
        let answers = Answers::of(EdgeOpKind::Insert, &edges, false, |_| false);
        let is_right = |given: &[u8], in_order| answers.wrong_in(&edges, given, in_order).is_none();
        assert!(is_right(&[INSERTED, UPDATED, INSERTED], true));
        assert!(
            !is_right(&[UPDATED, INSERTED, INSERTED], true)
                && is_right(&[UPDATED, INSERTED, INSERTED], false)
        );
        // The same number of insertions, of the wrong edges.
        for wrong in [[INSERTED, INSERTED, UPDATED], [UPDATED, UPDATED, INSERTED], [INSERTED, LOOP, INSERTED]]
        {
            assert!(!is_right(&wrong, true) && !is_right(&wrong, false), "{wrong:?}");
        }
        assert!(!is_right(&[INSERTED, UPDATED], false));
        let all = Answers::changes(EdgeOpKind::Insert, 3);
        assert!(
            all.wrong_in(&edges, &[INSERTED, INSERTED, UPDATED], true)
                .expect("wrong")
                .contains("operation 2")
        );
    }

    #[test]
    fn directions_of_an_edge_can_come_from_different_operations() {
        let edges = [(1, 2), (2, 1), (2, 1)];
        let answers = Answers::of(EdgeOpKind::Insert, &edges, true, |_| false);
        let is_right = |given: [u8; 3]| answers.wrong_in(&edges, &given, false).is_none();
        for right in [[INSERTED, UPDATED, INSERTED], [UPDATED; 3], [UPDATED, INSERTED, UPDATED]] {
            assert!(is_right(right), "{right:?}");
        }
        assert!(!is_right([UPDATED, INSERTED, INSERTED]));
        let there = Answers::of(EdgeOpKind::Insert, &edges, true, |_| true);
        assert!(there.wrong_in(&edges, &[INSERTED, UPDATED, UPDATED], false).is_some());
    }
}
