//! The contents of a store, and the effect of a step.

use std::collections::{BTreeMap, BTreeSet};

use warpkeep::Durability;

use crate::script::{Do, Name, Step};

/// Keys and values of a table.
pub(crate) type Items = BTreeMap<u64, Vec<u8>>;
/// The tables.
pub(crate) type State = BTreeMap<Name, Items>;

/// Keys that scripts use are smaller.
pub(crate) const KEYS: u64 = 32;

impl Do {
    pub(crate) fn key(self) -> u64 {
        match self {
            Do::Put(key)
            | Do::Insert(key)
            | Do::Update(key)
            | Do::Delete(key)
            | Do::Add(key)
            | Do::Swap(key)
            | Do::Stale(key)
            | Do::Merge(key)
            | Do::Get(key) => key,
        }
    }

    fn apply(self, items: &mut Items, name: Name, stamp: u64) {
        let (there, value) = (items.get(&self.key()).cloned(), value(name, stamp));
        let next = match (self, there) {
            (Do::Delete(_), _) => None,
            (Do::Get(_) | Do::Stale(_), there) => there,
            (Do::Insert(_), Some(there)) => Some(there),
            (Do::Update(_) | Do::Swap(_), None) => None,
            (Do::Add(_), there) => {
                let before = there.map_or(0, |there| number(&there));
                Some((before + stamp).to_le_bytes().to_vec())
            }
            (Do::Merge(_), Some(there)) => Some(match name {
                Name::Words => [there, value].concat(),
                _ => (number(&there) + stamp).to_le_bytes().to_vec(),
            }),
            (Do::Put(_) | Do::Update(_) | Do::Swap(_), Some(_)) => Some(value),
            (Do::Put(_) | Do::Insert(_) | Do::Merge(_), None) => Some(value),
        };
        match next {
            Some(next) => items.insert(self.key(), next),
            None => items.remove(&self.key()),
        };
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("values of eight bytes"))
}

/// A value that identifies the operation that wrote it.
pub(crate) fn value(name: Name, stamp: u64) -> Vec<u8> {
    match name {
        Name::Words => format!("<{stamp}>").repeat(1 + stamp as usize % 4).into_bytes(),
        Name::Numbers | Name::After => stamp.to_le_bytes().to_vec(),
    }
}

/// Identifies operations: number `place` of a step with this stamp.
pub(crate) fn stamp(step: u64, place: usize) -> u64 {
    16 * step + place as u64 + 1
}

/// The state after a step. `number` identifies steps.
pub(crate) fn applied(state: &State, step: Step, number: u64) -> State {
    let mut next = state.clone();
    match step {
        Step::Create(name) => {
            next.entry(name).or_default();
        }
        Step::Drop(name) => {
            next.remove(&name);
        }
        Step::Batch(_, name, batch) => {
            if let Some(items) = next.get_mut(&name) {
                batch
                    .iter()
                    .enumerate()
                    .for_each(|(place, one)| one.apply(items, name, stamp(number, place)));
            }
        }
        Step::Maintain | Step::Checkpoint | Step::Flush | Step::Reopen => {}
    }
    next
}

/// All states there may be after a step that was interrupted, but for the one before it.
pub(crate) fn interrupted(state: &State, step: Step, number: u64) -> Vec<State> {
    let Step::Batch(Durability::Process, name, batch) = step else {
        return vec![applied(state, step, number)];
    };
    // Each key has seen some of its operations, the first ones.
    let mut states = vec![state.clone()];
    for key in batch.iter().map(|one| one.key()).collect::<BTreeSet<_>>() {
        states = states.iter().flat_map(|state| prefixes(state, name, batch, key, number)).collect();
    }
    states.retain(|other| other != state);
    states
}

/// The states after none, one, two.. of the operations on a key.
fn prefixes(state: &State, name: Name, batch: &[Do], key: u64, number: u64) -> Vec<State> {
    let mut states = vec![state.clone()];
    let mut next = state.clone();
    for (place, one) in batch.iter().enumerate().filter(|(_, one)| one.key() == key) {
        if let Some(items) = next.get_mut(&name) {
            one.apply(items, name, stamp(number, place));
        }
        states.push(next.clone());
    }
    states
}
