//! Batches, and the right answers to them.

use std::collections::HashMap;
use std::ops::Range;

use warpkeep_containers::{MapAnswer, MapOp, MapOpKind, MapStatus};
use warpkeep_core::{Seed, mix64};

use crate::workload::Dice;

/// Numbers from here on are of keys that are not in a map at first.
pub(super) const ABSENT: u64 = 1 << 40;

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
    pub(super) fn key(&self, number: u64) -> u64 {
        mix64(self.seed, number)
    }

    pub(super) fn value(&self, number: u64) -> u64 {
        mix64(self.seed.derive(1), number)
    }
}

/// Operations, and the right answers to them.
#[derive(Debug)]
pub(super) struct Batch {
    /// The kind of all of them, if they have the same.
    pub(super) kind: Option<MapOpKind>,
    pub(super) ops: Vec<MapOp>,
    pub(super) answers: Vec<MapAnswer>,
}

impl Batch {
    /// Adds keys that are not there.
    pub(super) fn insert(items: Items, numbers: Range<u64>) -> Batch {
        let op = |number| MapOp::insert(items.key(number), items.value(number));
        let answer = MapAnswer { status: MapStatus::Inserted, before: 0 };
        Batch::of_one_kind(MapOpKind::Insert, numbers.map(|number| (op(number), answer)))
    }

    /// Asks for keys that are there.
    pub(super) fn hits(items: Items, numbers: Range<u64>) -> Batch {
        let pair = |number| {
            let answer = MapAnswer { status: MapStatus::Found, before: items.value(number) };
            (MapOp::find(items.key(number)), answer)
        };
        Batch::of_one_kind(MapOpKind::Find, numbers.map(pair))
    }

    /// Asks for keys that are not there.
    pub(super) fn misses(items: Items, numbers: Range<u64>) -> Batch {
        let absent = MapAnswer { status: MapStatus::Absent, before: 0 };
        Batch::of_one_kind(MapOpKind::Find, numbers.map(|number| (MapOp::find(items.key(number)), absent)))
    }

    /// Half of the operations are lookups, a quarter additions, an eighth erases, all on keys that were there, and an eighth inserts of others.
    /// Gives what the touched keys have afterwards, too.
    pub(super) fn mixed(
        items: Items,
        there: u64,
        count: u64,
        dice: &mut Dice,
    ) -> (Batch, HashMap<u64, Option<u64>>) {
        let mut touched = HashMap::new();
        let (mut ops, mut answers) = (Vec::new(), Vec::new());
        for turn in 0..count {
            let (kind, number) = match dice.below(8) {
                0..4 => (MapOpKind::Find, dice.below(there)),
                4..6 => (MapOpKind::Add, dice.below(there)),
                6 => (MapOpKind::Erase, dice.below(there)),
                _ => (MapOpKind::Insert, ABSENT + turn),
            };
            let before = || (number < ABSENT).then(|| items.value(number));
            let has = touched.entry(items.key(number)).or_insert_with(before);
            let op = MapOp::new(kind, items.key(number), turn);
            ops.push(op);
            answers.push(apply(has, op));
        }
        (Batch { kind: None, ops, answers }, touched)
    }

    /// Erases keys, of which some were touched after they had been inserted.
    pub(super) fn erase(items: Items, numbers: Range<u64>, touched: &HashMap<u64, Option<u64>>) -> Batch {
        let pair = |number| {
            let key = items.key(number);
            let has = touched.get(&key).copied().unwrap_or_else(|| Some(items.value(number)));
            let answer = match has {
                Some(before) => MapAnswer { status: MapStatus::Erased, before },
                None => MapAnswer { status: MapStatus::Absent, before: 0 },
            };
            (MapOp::erase(key), answer)
        };
        Batch::of_one_kind(MapOpKind::Erase, numbers.map(pair))
    }

    fn of_one_kind(kind: MapOpKind, pairs: impl Iterator<Item = (MapOp, MapAnswer)>) -> Batch {
        let (ops, answers) = pairs.unzip();
        Batch { kind: Some(kind), ops, answers }
    }

    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }
}

/// What an operation of a mixed batch does with a key that has this value.
fn apply(has: &mut Option<u64>, op: MapOp) -> MapAnswer {
    let (status, after) = match (op.kind, *has) {
        (MapOpKind::Erase, Some(_)) => (MapStatus::Erased, None),
        (MapOpKind::Add, Some(before)) => (MapStatus::Updated, Some(before.wrapping_add(op.value))),
        (_, Some(before)) => (MapStatus::Found, Some(before)),
        (MapOpKind::Add | MapOpKind::Insert, None) => (MapStatus::Inserted, Some(op.value)),
        (_, None) => (MapStatus::Absent, None),
    };
    let answer = MapAnswer { status, before: has.unwrap_or(0) };
    *has = after;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_one_key_are_answered_in_their_order() {
        let ops = [
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
