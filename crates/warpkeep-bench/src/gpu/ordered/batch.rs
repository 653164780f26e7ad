//! Batches, and the right answers to them.

use std::collections::HashSet;

use warpkeep_containers::{OrderedOp, OrderedOpKind, OrderedStatus, OrderedWord};

use super::items::Items;
use crate::BenchError;

/// Pairs of a range, without those that the same batch inserts.
const RANGE: u64 = 8;

/// What a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Looks up keys in a random order.
    Find,
    /// Looks up keys in ascending order.
    FindSorted,
    /// Asks for eight pairs each.
    Range,
    /// Asks for the smallest key above one that is there.
    Successor,
    /// Adds keys that are not there.
    Insert,
    /// Removes keys.
    Erase,
    /// Adds keys and asks for eight pairs in turn.
    Mixed,
}

/// Operations, and the right answers to them.
#[derive(Debug)]
pub(crate) struct Batch<K, V> {
    pub(crate) operation: Operation,
    /// Their keys, or the lower bounds of ranges.
    pub(crate) keys: Vec<K>,
    /// The upper bounds of ranges; empty if there are none.
    pub(crate) ends: Vec<K>,
    /// Values to insert; empty if there are none.
    pub(crate) values: Vec<V>,
    /// The kind of each; empty if all have the same.
    pub(crate) kinds: Vec<u8>,
    /// Room for the pairs of a range.
    pub(crate) stride: usize,
    pub(crate) right: Answers<K, V>,
}

/// Answers to a batch. Columns that its operations do not have are empty.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answers<K, V> {
    pub(crate) statuses: Vec<OrderedStatus>,
    /// The values that were found, or that keys had before.
    pub(crate) values: Vec<V>,
    /// The neighbours that were found.
    pub(crate) keys: Vec<K>,
    /// The numbers of pairs of ranges.
    pub(crate) counts: Vec<u32>,
    /// The pairs of all ranges, one range behind the other.
    pub(crate) pairs: Vec<(K, V)>,
}

impl<K: OrderedWord, V: OrderedWord> Batch<K, V> {
    fn of(operation: Operation, keys: Vec<K>, stride: usize) -> Self {
        let right = Answers {
            statuses: Vec::new(),
            values: Vec::new(),
            keys: Vec::new(),
            counts: Vec::new(),
            pairs: Vec::new(),
        };
        Batch { operation, keys, ends: Vec::new(), values: Vec::new(), kinds: Vec::new(), stride, right }
    }

    /// Looks up keys of these ranks.
    pub(crate) fn find(items: &Items<K, V>, ranks: &[u64], operation: Operation) -> Self {
        let mut batch = Self::of(operation, ranks.iter().map(|&rank| items.key(rank)).collect(), 0);
        batch.right.statuses = vec![OrderedStatus::Found; ranks.len()];
        batch.right.values = ranks.iter().map(|&rank| items.value(rank)).collect();
        batch
    }

    /// Looks up keys of these ranks and, in turn, those that [`insert`](Self::insert) inserts above them.
    pub(crate) fn find_old_and_new(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch = Self::of(Operation::Find, Vec::new(), 0);
        for (turn, &rank) in ranks.iter().enumerate() {
            let is_old = turn % 2 == 0;
            batch.keys.push(if is_old { items.key(rank) } else { items.absent(rank) });
            batch.right.values.push(if is_old { items.value(rank) } else { items.absent_value(rank) });
            batch.right.statuses.push(OrderedStatus::Found);
        }
        batch
    }

    pub(crate) fn successor(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch =
            Self::of(Operation::Successor, ranks.iter().map(|&rank| items.key(rank)).collect(), 0);
        for next in ranks.iter().map(|rank| rank + 1) {
            let is_there = next < items.count;
            let status = if is_there { OrderedStatus::Found } else { OrderedStatus::Absent };
            batch.right.statuses.push(status);
            batch.right.keys.push(if is_there { items.key(next) } else { K::zeroed() });
            batch.right.values.push(if is_there { items.value(next) } else { V::zeroed() });
        }
        batch
    }

    /// Ranges from these ranks on, or from the last one that has eight pairs.
    pub(crate) fn range(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch = Self::of(Operation::Range, Vec::new(), RANGE as usize);
        for &rank in ranks {
            batch.push_range(items, rank, RANGE, &HashSet::new());
        }
        batch
    }

    fn push_range(&mut self, items: &Items<K, V>, rank: u64, length: u64, inserted: &HashSet<u64>) {
        let first = rank.min(items.count - length);
        let last = first + length - 1;
        let before = self.right.pairs.len();
        for rank in first..=last {
            self.right.pairs.push((items.key(rank), items.value(rank)));
            if rank < last && inserted.contains(&rank) {
                self.right.pairs.push((items.absent(rank), items.absent_value(rank)));
            }
        }
        self.keys.push(items.key(first));
        self.ends.push(items.key(last));
        self.right.statuses.push(OrderedStatus::Found);
        self.right.counts.push((self.right.pairs.len() - before) as u32);
    }

    /// Inserts a key above each of these ranks.
    pub(crate) fn insert(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch =
            Self::of(Operation::Insert, ranks.iter().map(|&rank| items.absent(rank)).collect(), 0);
        batch.values = ranks.iter().map(|&rank| items.absent_value(rank)).collect();
        batch.right.statuses = vec![OrderedStatus::Inserted; ranks.len()];
        batch.right.values = vec![V::zeroed(); ranks.len()];
        batch
    }

    /// Puts the pairs of these ranks into an empty map.
    pub(crate) fn build(items: &Items<K, V>, ranks: impl Iterator<Item = u64> + Clone) -> Self {
        let mut batch = Self::of(Operation::Insert, ranks.clone().map(|rank| items.key(rank)).collect(), 0);
        batch.values = ranks.map(|rank| items.value(rank)).collect();
        batch.right.statuses = vec![OrderedStatus::Inserted; batch.keys.len()];
        batch.right.values = vec![V::zeroed(); batch.keys.len()];
        batch
    }

    /// Erases what [`insert`](Self::insert) inserted.
    pub(crate) fn erase(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch = Self::of(Operation::Erase, ranks.iter().map(|&rank| items.absent(rank)).collect(), 0);
        batch.right.statuses = vec![OrderedStatus::Erased; ranks.len()];
        batch.right.values = ranks.iter().map(|&rank| items.absent_value(rank)).collect();
        batch
    }

    /// In turn inserts a key above a rank, and asks for a range from one of the ranks on; a range has the keys that were inserted before it. Gives
    /// the ranks of the inserts, too.
    pub(crate) fn mixed(items: &Items<K, V>, ranks: &[u64]) -> (Self, Vec<u64>) {
        Self::mixed_of(items, ranks, 50, RANGE)
    }

    /// The same with this percentage of inserts, and ranges of this many pairs that were there before.
    pub(crate) fn mixed_of(
        items: &Items<K, V>,
        ranks: &[u64],
        percent: usize,
        length: u64,
    ) -> (Self, Vec<u64>) {
        // Between two neighbours there is one key more, at the most.
        let mut batch = Self::of(Operation::Mixed, Vec::new(), 2 * length as usize - 1);
        let (mut inserted, mut order) = (HashSet::new(), Vec::new());
        for (turn, &rank) in ranks.iter().enumerate() {
            if turn * percent % 100 < percent {
                inserted.insert(rank);
                order.push(rank);
                batch.keys.push(items.absent(rank));
                batch.ends.push(items.absent(rank));
                batch.values.push(items.absent_value(rank));
                batch.kinds.push(OrderedOpKind::Insert as u8);
                batch.right.statuses.push(OrderedStatus::Inserted);
                batch.right.counts.push(0);
            } else {
                batch.push_range(items, rank, length, &inserted);
                batch.values.push(V::zeroed());
                batch.kinds.push(OrderedOpKind::Range as u8);
            }
        }
        (batch, order)
    }

    /// Erases keys, inserts keys above others, and looks keys up: a turn of each as often as there are ranks of the kind. No two operations
    /// concern the same key, so that their order does not matter.
    pub(crate) fn points(items: &Items<K, V>, erase: &[u64], insert: &[u64], find: &[u64]) -> Self {
        let mut batch = Self::of(Operation::Mixed, Vec::new(), 0);
        let mut add = |key: K, value: V, kind: OrderedOpKind, status: OrderedStatus, before: V| {
            batch.keys.push(key);
            batch.values.push(value);
            batch.kinds.push(kind as u8);
            batch.right.statuses.push(status);
            batch.right.values.push(before);
        };
        for turn in 0..erase.len().max(insert.len()).max(find.len()) {
            if let Some(&rank) = erase.get(turn) {
                let before = items.value(rank);
                add(items.key(rank), V::zeroed(), OrderedOpKind::Erase, OrderedStatus::Erased, before);
            }
            if let Some(&rank) = insert.get(turn) {
                let (key, value) = (items.absent(rank), items.absent_value(rank));
                add(key, value, OrderedOpKind::Insert, OrderedStatus::Inserted, V::zeroed());
            }
            if let Some(&rank) = find.get(turn) {
                let before = items.value(rank);
                add(items.key(rank), V::zeroed(), OrderedOpKind::Find, OrderedStatus::Found, before);
            }
        }
        batch
    }

    /// Erases the pairs of these ranks.
    pub(crate) fn erase_pairs(items: &Items<K, V>, ranks: &[u64]) -> Self {
        let mut batch = Self::of(Operation::Erase, ranks.iter().map(|&rank| items.key(rank)).collect(), 0);
        batch.right.statuses = vec![OrderedStatus::Erased; ranks.len()];
        batch.right.values = ranks.iter().map(|&rank| items.value(rank)).collect();
        batch
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The kind of all operations; of a mixed batch, that of its first.
    pub(crate) fn kind(&self) -> OrderedOpKind {
        match self.operation {
            Operation::Find | Operation::FindSorted => OrderedOpKind::Find,
            Operation::Range => OrderedOpKind::Range,
            Operation::Successor => OrderedOpKind::Successor,
            Operation::Insert | Operation::Mixed => OrderedOpKind::Insert,
            Operation::Erase => OrderedOpKind::Erase,
        }
    }

    /// The same as operations of the host.
    pub(crate) fn ops(&self) -> Vec<OrderedOp<K, V>> {
        let op = |(at, &key)| {
            let is_range = self.kinds.get(at).is_some_and(|&kind| kind == OrderedOpKind::Range as u8);
            OrderedOp {
                kind: if is_range { OrderedOpKind::Range } else { self.kind() },
                key,
                end: self.ends.get(at).copied().unwrap_or(key),
                value: self.values.get(at).copied().unwrap_or_default(),
            }
        };
        self.keys.iter().enumerate().map(op).collect()
    }

    /// An error unless these are the right answers.
    pub(crate) fn check(&self, who: &str, answers: &Answers<K, V>) -> Result<(), BenchError> {
        let right = &self.right;
        let wrong = first_other("status", &right.statuses, &answers.statuses)
            .or_else(|| first_other("value", &right.values, &answers.values))
            .or_else(|| first_other("neighbour", &right.keys, &answers.keys))
            .or_else(|| first_other("number of pairs", &right.counts, &answers.counts))
            .or_else(|| first_other("pair", &right.pairs, &answers.pairs));
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(BenchError::Wrong(format!(
                "{who}: a batch of {} operations ({:?}): {wrong}",
                self.len(),
                self.operation
            ))),
        }
    }
}

/// The first element that is not right, for a message.
fn first_other<T: PartialEq + std::fmt::Debug>(what: &str, right: &[T], given: &[T]) -> Option<String> {
    if right.len() != given.len() {
        return Some(format!("{} answers with a {what}, and not {}", given.len(), right.len()));
    }
    let at = right.iter().zip(given).position(|(right, given)| right != given)?;
    Some(format!("{what} {at} is {:?}, and not {:?}", given[at], right[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_mixed_batch_have_what_was_inserted_before_them() {
        let items = Items::<u32, u32>::new(1, 20);
        // Inserts above 3, asks from 0 on; inserts above 7, which is outside of the range; inserts above 5, asks from 19 on: from 12.
        let (batch, inserted) = Batch::mixed(&items, &[3, 0, 7, 0, 5, 19]);
        assert_eq!(inserted, [3, 7, 5]);
        assert_eq!(batch.right.counts, [0, 9, 0, 9, 0, 8]);
        assert_eq!(batch.right.pairs[4], (items.absent(3), items.absent_value(3)));
        assert!(batch.right.pairs[..9].windows(2).all(|two| two[0].0 < two[1].0));
        assert_eq!(batch.ops()[1], OrderedOp::range(items.key(0), items.key(7)));
    }

    #[test]
    fn wrong_answers_are_found() {
        let items = Items::<u64, u64>::new(1, 20);
        let batch = Batch::successor(&items, &[4, 19]);
        let mut answers = Answers {
            statuses: vec![OrderedStatus::Found, OrderedStatus::Absent],
            values: vec![items.value(5), 0],
            keys: vec![items.key(5), 0],
            counts: Vec::new(),
            pairs: Vec::new(),
        };
        batch.check("a map", &answers).expect("they are right");
        answers.keys[0] += 1;
        let error = batch.check("a map", &answers).expect_err("a wrong neighbour").to_string();
        assert!(error.contains("neighbour 0"), "{error}");
        answers.statuses.pop();
        let error = batch.check("a map", &answers).expect_err("an answer is missing").to_string();
        assert!(error.contains("1 answers with a status"), "{error}");
    }
}
