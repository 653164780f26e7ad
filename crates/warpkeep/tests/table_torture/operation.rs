//! A thread's operations, and their effects.

use std::collections::BTreeSet;

use fastrand::Rng;
use warpkeep::{Durability, Op};

use crate::kind::{KEYS, LONGEST, TABLES, tables_of};
use crate::state::{Items, State};

/// An operation on one key.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) op: Op,
    pub(crate) key: u64,
    pub(crate) value: Vec<u8>,
    /// The addend. A swap expects the version that the key had before the batch.
    pub(crate) argument: u64,
}

/// Calls of a `Process` batch are logged in groups of this size, or of some multiple of it.
const GROUP: usize = 8;

/// One thing a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Creates the table if it is not there, drops it if it is.
    Toggle(usize),
    /// Skipped if there is no such table.
    Batch {
        table: usize,
        calls: Vec<Call>,
        durability: Durability,
    },
    Checkpoint,
    Flush,
}

impl Operation {
    /// A thread's operation number `number`.
    pub(crate) fn number(seed: u64, writer: usize, number: u64) -> Operation {
        let mut random =
            Rng::with_seed((seed << 8 | writer as u64) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let tables = tables_of(writer);
        // All tables are there at first.
        if number < tables.len() as u64 {
            return Operation::Toggle(tables.start + number as usize);
        }
        let table = random.usize(tables);
        match random.u8(..60) {
            0 | 1 => return Operation::Toggle(table),
            2 => return Operation::Checkpoint,
            3 => return Operation::Flush,
            _ => {}
        }
        let mut calls: Vec<Call> = Vec::new();
        for _ in 0..random.usize(1..24) {
            let (kind, key) = (&TABLES[table], random.u64(..KEYS));
            let op = match random.u8(..20) {
                0..=7 => Op::Put,
                8..=10 => Op::Insert,
                11 | 12 => Op::Update,
                13..=15 => Op::Delete,
                16 | 17 => Op::Merge,
                18 if calls.iter().all(|other| other.key != key) => Op::CompareAndSwap,
                _ if kind.adds() => Op::FetchAdd,
                _ => Op::Put,
            };
            let argument = if op == Op::FetchAdd { random.u64(1..1000) } else { 0 };
            calls.push(Call { op, key, value: kind.value(&mut random), argument });
        }
        let durability = if random.u8(..5) == 0 { Durability::Power } else { Durability::Process };
        Operation::Batch { table, calls, durability }
    }

    /// Whether everything the thread did survives the image when it is done. A batch that changes nothing is not
    /// logged.
    pub(crate) fn makes_durable(&self, before: &State) -> bool {
        match self {
            Operation::Batch { durability, .. } => {
                *durability == Durability::Power && self.applied(before) != *before
            }
            Operation::Toggle(_) | Operation::Checkpoint | Operation::Flush => true,
        }
    }

    /// Whether it is there as a whole or not at all.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Operation::Toggle(_) | Operation::Batch { durability: Durability::Power, .. })
    }

    /// Its effect on a state.
    pub(crate) fn applied(&self, state: &State) -> State {
        let mut next = state.clone();
        match self {
            Operation::Toggle(table) => {
                if next.remove(table).is_none() {
                    next.insert(*table, Items::new());
                }
            }
            Operation::Batch { table, calls, .. } => {
                if let Some(items) = next.get_mut(table) {
                    calls.iter().for_each(|call| call.apply(*table, items));
                }
            }
            Operation::Checkpoint | Operation::Flush => {}
        }
        next
    }

    /// The possible logged states when it is done, but the end of the log is lost.
    pub(crate) fn logged_in_part(&self, before: &State) -> Vec<State> {
        let Operation::Batch { table, calls, durability: Durability::Process } = self else {
            return Vec::new();
        };
        let part = |groups: usize| Operation::Batch {
            table: *table,
            calls: calls[..groups * GROUP].to_vec(),
            durability: Durability::Process,
        };
        (1..calls.len().div_ceil(GROUP)).map(|groups| part(groups).applied(before)).collect()
    }

    /// Whether it may have left this state when it was interrupted.
    pub(crate) fn may_leave(&self, before: &State, found: &State) -> bool {
        if found == before || *found == self.applied(before) {
            return true;
        }
        let Operation::Batch { table, calls, durability: Durability::Process } = self else { return false };
        let (Some(items), Some(found_items)) = (before.get(table), found.get(table)) else { return false };
        // Each key has seen a prefix of its operations; nothing else has changed.
        let keys: BTreeSet<u64> = calls.iter().map(|call| call.key).collect();
        let mut rest = found.clone();
        for &key in &keys {
            let mut single: Items = items.get(&key).map(|value| (key, value.clone())).into_iter().collect();
            let mut seen = vec![single.get(&key).cloned()];
            for call in calls.iter().filter(|call| call.key == key) {
                call.apply(*table, &mut single);
                seen.push(single.get(&key).cloned());
            }
            if !seen.contains(&found_items.get(&key).cloned()) {
                return false;
            }
            let rest = rest.entry(*table).or_default();
            match items.get(&key) {
                Some(value) => rest.insert(key, value.clone()),
                None => rest.remove(&key),
            };
        }
        rest == *before
    }
}

impl Call {
    fn apply(&self, table: usize, items: &mut Items) {
        let there = items.get(&self.key).cloned();
        let next = match (self.op, there) {
            (Op::Delete, _) => None,
            (Op::Get | Op::Insert, there @ Some(_)) => there,
            (Op::Get | Op::Update | Op::CompareAndSwap, None) => None,
            (Op::FetchAdd, None) => Some(self.argument.to_le_bytes().to_vec()),
            (Op::FetchAdd, Some(there)) => Some(match <[u8; 8]>::try_from(&there[..]) {
                Ok(number) => u64::from_le_bytes(number).wrapping_add(self.argument).to_le_bytes().to_vec(),
                Err(_) => there,
            }),
            (Op::Merge, Some(there)) => {
                let mut merged = there.clone();
                let done = TABLES[table].merge.merge(&mut merged, &self.value) && merged.len() <= LONGEST;
                Some(if done { merged } else { there })
            }
            _ => Some(self.value.clone()),
        };
        match next {
            Some(next) => items.insert(self.key, next),
            None => items.remove(&self.key),
        };
    }
}
