//! What operations on a cuckoo index answer and leave, on a multimap of the standard library.

use std::collections::BTreeMap;

use warpkeep_containers::{ContainerError, CuckooIndex, IndexAnswer, IndexOp, IndexOpKind, IndexStatus};
use warpkeep_suites::device::Dice;

/// The locations of each hash, the lowest first.
pub(crate) type Model = BTreeMap<u64, Vec<u32>>;

/// A status, how many entries matched, and their locations. Whether others were displaced depends on more than the contents.
pub(crate) type Plain = (IndexStatus, u8, Vec<u32>);

pub(crate) fn plain(answer: &IndexAnswer) -> Plain {
    let status = if answer.status.is_added() { IndexStatus::Inserted } else { answer.status };
    (status, answer.matches, answer.locations().to_vec())
}

fn remove(model: &mut Model, hash: u64, location: u32) -> bool {
    let Some(locations) = model.get_mut(&hash) else { return false };
    let Ok(at) = locations.binary_search(&location) else { return false };
    locations.remove(at);
    if locations.is_empty() {
        model.remove(&hash);
    }
    true
}

fn add(model: &mut Model, hash: u64, location: u32) {
    let locations = model.entry(hash).or_default();
    locations.insert(locations.partition_point(|its| *its < location), location);
}

/// What an operation answers and leaves if there is a cell for all.
pub(crate) fn expected(model: &mut Model, op: IndexOp) -> Plain {
    match op.kind {
        IndexOpKind::Search => {
            let found = model.get(&op.hash).cloned().unwrap_or_default();
            let status = match found.len() {
                0 => IndexStatus::Absent,
                1 | 2 => IndexStatus::Found,
                _ => IndexStatus::Truncated,
            };
            (status, found.len() as u8, found.into_iter().take(2).collect())
        }
        IndexOpKind::Delete => match remove(model, op.hash, op.location) {
            true => (IndexStatus::Deleted, 1, vec![op.location]),
            false => (IndexStatus::Absent, 0, vec![]),
        },
        IndexOpKind::Insert | IndexOpKind::Replace if op.location == u32::MAX => {
            (IndexStatus::BadLocation, 0, vec![])
        }
        kind => {
            let replaces = kind == IndexOpKind::Replace && remove(model, op.hash, op.old);
            add(model, op.hash, op.location);
            match replaces {
                true => (IndexStatus::Replaced, 1, vec![op.old]),
                false => (IndexStatus::Inserted, 0, vec![]),
            }
        }
    }
}

/// Compares answers with the model's. What was refused is not there.
pub(crate) fn check_answers(
    model: &mut Model,
    batch: &[IndexOp],
    answers: &[IndexAnswer],
) -> Result<(), String> {
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = expected(model, *op);
        if answer.status == IndexStatus::Full && right.0 == IndexStatus::Inserted {
            remove(model, op.hash, op.location);
        } else if plain(answer) != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}

/// The columns of all entries.
pub(crate) fn columns(model: &Model) -> (Vec<u64>, Vec<u32>) {
    model.iter().flat_map(|(hash, locations)| locations.iter().map(|location| (*hash, *location))).unzip()
}

/// An error unless the index has these entries, is sound, and finds all.
pub(crate) fn check_contents(index: &CuckooIndex, model: &Model) -> Result<(), ContainerError> {
    let (hashes, locations) = columns(model);
    index.verify_entries(&hashes, &locations)?;
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    if index.len()? != locations.len() as u64 {
        return wrong(format!("the length is {} and not {}", index.len()?, locations.len()));
    }
    let asked: Vec<u64> = model.keys().copied().collect();
    for (answer, (hash, there)) in index.search(&asked)?.iter().zip(model) {
        let low = &there[..there.len().min(2)];
        if answer.locations() != low || usize::from(answer.matches) != there.len() {
            return wrong(format!("{hash:x} is at {there:?}, and {answer:?} was found"));
        }
    }
    Ok(())
}

/// An operation on a hash, with few locations.
pub(crate) fn random_op(dice: &mut Dice, hash: u64) -> IndexOp {
    let (location, old) = (dice.below(6) as u32, dice.below(6) as u32);
    match dice.below(5) {
        0 | 1 => IndexOp::insert(hash, location),
        2 => IndexOp::replace(hash, old, location),
        3 => IndexOp::delete(hash, location),
        _ => IndexOp::search(hash),
    }
}
