//! Batches of requests, and the right answers to them.

use std::ops::Range;

use super::items::{ABSENT, Items};
use crate::workload::Dice;

/// Requests as kernels know them: `wk::SlabOp`.
pub(crate) const SEARCH: u32 = 0;
pub(crate) const REPLACE: u32 = 2;
pub(crate) const DELETE: u32 = 3;

/// What a request came to, the upper half of an answer: `wk::SlabStatus`. The lower half is the value that was there.
pub(crate) const INSERTED: u32 = 1;
pub(crate) const UPDATED: u32 = 2;
pub(crate) const FOUND: u32 = 3;
pub(crate) const REMOVED: u32 = 4;
#[cfg(test)]
pub(crate) const PRESENT: u32 = 5;
pub(crate) const ABSENT_KEY: u32 = 6;
pub(crate) const FULL: u32 = 7;

/// An answer as a word.
pub(crate) fn answer(status: u32, value: u32) -> u64 {
    (u64::from(status) << 32) | u64::from(value)
}

/// Requests on different keys, so that each has one right answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) ops: Vec<u32>,
    pub(crate) keys: Vec<u32>,
    pub(crate) values: Vec<u32>,
    pub(crate) answers: Vec<u64>,
}

impl Batch {
    /// Stores keys that are not there.
    pub(crate) fn build(items: Items, numbers: Range<u32>) -> Batch {
        Batch::of(items, REPLACE, numbers, |_| answer(INSERTED, 0))
    }

    /// Searches for keys that are there.
    pub(crate) fn hits(items: Items, numbers: Range<u32>) -> Batch {
        Batch::of(items, SEARCH, numbers, |number| answer(FOUND, items.value(number)))
    }

    /// Searches for as many keys that are not there.
    pub(crate) fn misses(items: Items, count: u32) -> Batch {
        Batch::of(items, SEARCH, ABSENT..ABSENT + count, |_| answer(ABSENT_KEY, 0))
    }

    fn of(items: Items, op: u32, numbers: Range<u32>, right: impl Fn(u32) -> u64) -> Batch {
        let mut batch = Batch::default();
        for number in numbers {
            batch.push(items, op, number, right(number));
        }
        batch
    }

    fn push(&mut self, items: Items, op: u32, number: u32, right: u64) {
        self.ops.push(op);
        self.keys.push(items.key(number));
        self.values.push(items.value(number));
        self.answers.push(right);
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// What all requests are, if they are the same.
    pub(crate) fn one_op(&self) -> Option<u32> {
        let first = *self.ops.first()?;
        self.ops.iter().all(|&op| op == first).then_some(first)
    }

    /// The request at a position, for messages.
    pub(crate) fn describe(&self, at: usize) -> String {
        let what = match self.ops[at] {
            SEARCH => "search for",
            REPLACE => "storing",
            _ => "deletion of",
        };
        format!("request {at}, the {what} key {}", self.keys[at])
    }
}

/// Shares of the requests of a mixed batch: those that insert a new key, delete a present one, search for a present one and for an absent one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mix {
    pub(crate) name: &'static str,
    shares: [f64; 4],
}

impl Mix {
    /// Those of the slab hash's paper.
    pub(crate) const ALL: [Mix; 3] = [
        Mix { name: "100% updates", shares: [0.5, 0.5, 0.0, 0.0] },
        Mix { name: "40% updates", shares: [0.2, 0.2, 0.3, 0.3] },
        Mix { name: "20% updates", shares: [0.1, 0.1, 0.4, 0.4] },
    ];

    /// A batch on a table that has the keys of these numbers; the numbers that it has afterwards.
    pub(crate) fn batch(
        self,
        items: Items,
        present: Range<u32>,
        count: usize,
        dice: &mut Dice,
    ) -> (Batch, Range<u32>) {
        let [insert, delete, hit, _] = self.shares;
        let kinds: Vec<usize> = (0..count)
            .map(|_| match dice.fraction() {
                drawn if drawn < insert => 0,
                drawn if drawn < insert + delete => 1,
                drawn if drawn < insert + delete + hit => 2,
                _ => 3,
            })
            .collect();
        let deleted = kinds.iter().filter(|&&kind| kind == 1).count() as u32;
        // The first keys are deleted, and the others stay through the batch.
        let deleted = deleted.min(present.len() as u32 / 2);
        let stay = present.start + deleted..present.end;
        let (mut oldest, mut newest, mut absent) = (present.start, present.end, ABSENT);
        let mut batch = Batch::default();
        for kind in kinds {
            match kind {
                0 => {
                    batch.push(items, REPLACE, newest, answer(INSERTED, 0));
                    newest += 1;
                }
                1 if oldest < stay.start => {
                    batch.push(items, DELETE, oldest, answer(REMOVED, items.value(oldest)));
                    oldest += 1;
                }
                1 | 2 => {
                    let number = stay.start + dice.below(stay.len() as u64) as u32;
                    batch.push(items, SEARCH, number, answer(FOUND, items.value(number)));
                }
                _ => {
                    batch.push(items, SEARCH, absent, answer(ABSENT_KEY, 0));
                    absent += 1;
                }
            }
        }
        (batch, oldest..newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_leaves_the_keys_that_it_says() {
        let items = Items::new(1);
        for mix in Mix::ALL {
            let (batch, left) = mix.batch(items, 10..200, 100, &mut Dice::new(2, 0));
            let mut has: std::collections::HashMap<u32, u32> =
                (10..200).map(|number| (items.key(number), items.value(number))).collect();
            for at in 0..batch.len() {
                let (key, value) = (batch.keys[at], batch.values[at]);
                let right = match batch.ops[at] {
                    REPLACE => has.insert(key, value).map_or(answer(INSERTED, 0), |_| answer(PRESENT, 0)),
                    DELETE => has.remove(&key).map_or(answer(ABSENT_KEY, 0), |old| answer(REMOVED, old)),
                    _ => has.get(&key).map_or(answer(ABSENT_KEY, 0), |&old| answer(FOUND, old)),
                };
                assert_eq!(right, batch.answers[at], "{}: {}", mix.name, batch.describe(at));
            }
            let left: std::collections::HashMap<u32, u32> =
                left.map(|number| (items.key(number), items.value(number))).collect();
            assert_eq!(has, left, "{}", mix.name);
        }
    }
}
