//! Batches, and the right answers to them.

use std::collections::HashMap;
use std::ops::Range;

use warpkeep_containers::{MapAnswer, MapOp, MapOpKind, MapStatus};
use warpkeep_core::{Seed, mix64};

use super::pairs::{Key, Value};
use crate::workload::Dice;

/// Numbers from here on are of keys that are not in a map at first. It has fewer keys, and all numbers have 32 bits.
pub(super) const ABSENT: u64 = 1 << 31;

/// Keys and their values, each by a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    seed: Seed,
}

impl Items {
    pub(super) fn new(seed: u64) -> Items {
        Items { seed: Seed(seed) }
    }

    /// Every number has another.
    pub(super) fn key<K: Key>(&self, number: u64) -> K {
        K::of(number, mix64(self.seed, number), self.seed.0)
    }

    pub(super) fn value<V: Value>(&self, number: u64) -> V {
        V::of(mix64(self.seed.derive(1), number))
    }
}

/// Operations, and the right answers to them.
#[derive(Debug)]
pub(super) struct Batch<K, V> {
    /// The kind of all of them, if they have the same.
    pub(super) kind: Option<MapOpKind>,
    pub(super) ops: Vec<MapOp<K, V>>,
    pub(super) answers: Vec<MapAnswer<V>>,
}

impl<K: Key, V: Value> Batch<K, V> {
    /// Adds keys that are not there.
    pub(super) fn insert(items: Items, numbers: Range<u64>) -> Self {
        let op = |number| MapOp::insert(items.key(number), items.value(number));
        let answer = MapAnswer { status: MapStatus::Inserted, before: V::zeroed() };
        Batch::of_one_kind(MapOpKind::Insert, numbers.map(|number| (op(number), answer)))
    }

    /// Asks for keys that are there.
    pub(super) fn hits(items: Items, numbers: Range<u64>) -> Self {
        let pair = |number| {
            let answer = MapAnswer { status: MapStatus::Found, before: items.value(number) };
            (MapOp::find(items.key(number)), answer)
        };
        Batch::of_one_kind(MapOpKind::Find, numbers.map(pair))
    }

    /// Asks for keys that are not there.
    pub(super) fn misses(items: Items, numbers: Range<u64>) -> Self {
        let absent = MapAnswer { status: MapStatus::Absent, before: V::zeroed() };
        Batch::of_one_kind(MapOpKind::Find, numbers.map(|number| (MapOp::find(items.key(number)), absent)))
    }

    /// Half of the operations are lookups, a quarter additions or replacements, an eighth erases, all on keys that were there, and an eighth inserts of others.
    /// Gives what the touched keys have afterwards, too.
    pub(super) fn mixed(
        items: Items,
        there: u64,
        count: u64,
        dice: &mut Dice,
    ) -> (Self, HashMap<K, Option<V>>) {
        let mut touched = HashMap::new();
        let (mut ops, mut answers) = (Vec::new(), Vec::new());
        for turn in 0..count {
            let (kind, number) = match dice.below(8) {
                0..4 => (MapOpKind::Find, dice.below(there)),
                4..6 if V::ARE_NUMBERS => (MapOpKind::Add, dice.below(there)),
                4..6 => (MapOpKind::Put, dice.below(there)),
                6 => (MapOpKind::Erase, dice.below(there)),
                _ => (MapOpKind::Insert, ABSENT + turn),
            };
            let before = || (number < ABSENT).then(|| items.value(number));
            let has = touched.entry(items.key::<K>(number)).or_insert_with(before);
            let op = MapOp::new(kind, items.key(number), V::of(turn));
            ops.push(op);
            answers.push(apply(has, op));
        }
        (Batch { kind: None, ops, answers }, touched)
    }

    /// Erases keys, of which some were touched after they had been inserted.
    pub(super) fn erase(items: Items, numbers: Range<u64>, touched: &HashMap<K, Option<V>>) -> Self {
        let pair = |number| {
            let key: K = items.key(number);
            let has = touched.get(&key).copied().unwrap_or_else(|| Some(items.value(number)));
            let answer = match has {
                Some(before) => MapAnswer { status: MapStatus::Erased, before },
                None => MapAnswer { status: MapStatus::Absent, before: V::zeroed() },
            };
            (MapOp::erase(key), answer)
        };
        Batch::of_one_kind(MapOpKind::Erase, numbers.map(pair))
    }

    fn of_one_kind(kind: MapOpKind, pairs: impl Iterator<Item = (MapOp<K, V>, MapAnswer<V>)>) -> Self {
        let (ops, answers) = pairs.unzip();
        Batch { kind: Some(kind), ops, answers }
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }
}

/// What an operation of a mixed batch does with a key that has this value.
fn apply<K: Key, V: Value>(has: &mut Option<V>, op: MapOp<K, V>) -> MapAnswer<V> {
    let (status, after) = match (op.kind, *has) {
        (MapOpKind::Erase, Some(_)) => (MapStatus::Erased, None),
        (MapOpKind::Add | MapOpKind::Put, Some(before)) => {
            (MapStatus::Updated, Some(before.changed_by(op.value)))
        }
        (_, Some(before)) => (MapStatus::Found, Some(before)),
        (MapOpKind::Add | MapOpKind::Put | MapOpKind::Insert, None) => (MapStatus::Inserted, Some(op.value)),
        (_, None) => (MapStatus::Absent, None),
    };
    let answer = MapAnswer { status, before: has.unwrap_or(V::zeroed()) };
    *has = after;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_32_bits_are_different() {
        let items = Items::new(7);
        let numbers = (0..50_000).chain(ABSENT..ABSENT + 50_000);
        let keys: std::collections::HashSet<u32> = numbers.map(|number| items.key(number)).collect();
        assert_eq!(keys.len(), 100_000);
    }

    #[test]
    fn operations_on_one_key_are_answered_in_their_order() {
        let ops: [MapOp; 6] = [
            MapOp::find(1),
            MapOp::add(1, 5),
            MapOp::add(1, 2),
            MapOp::insert(1, 9),
            MapOp::erase(1),
            MapOp::erase(1),
        ];
        let mut has = None;
        let answers = ops.map(|op| apply(&mut has, op));
        assert_eq!(answers.map(|answer| answer.before), [0, 0, 5, 7, 7, 0]);
        let statuses = answers.map(|answer| answer.status);
        assert_eq!(
            statuses,
            [
                MapStatus::Absent,
                MapStatus::Inserted,
                MapStatus::Updated,
                MapStatus::Found,
                MapStatus::Erased,
                MapStatus::Absent
            ]
        );
        assert_eq!(has, None);
    }
}
