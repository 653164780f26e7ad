//! What operations on a hash map answer and leave, on a map of the standard library.

use std::collections::BTreeMap;

use warpkeep_containers::{ContainerError, HashMap, MapAnswer, MapOp, MapOpKind, MapStatus};
use warpkeep_suites::device::Dice;

pub(crate) type Model = BTreeMap<u64, u64>;

pub(crate) const KINDS: [MapOpKind; 8] = [
    MapOpKind::Insert,
    MapOpKind::Put,
    MapOpKind::Add,
    MapOpKind::Min,
    MapOpKind::Max,
    MapOpKind::Find,
    MapOpKind::Contains,
    MapOpKind::Erase,
];

/// What the operations answer, and what they leave.
pub(crate) fn expected(model: &mut Model, op: MapOp) -> MapAnswer {
    let old = model.get(&op.key).copied();
    let (status, new) = match (op.kind, old) {
        (MapOpKind::Find | MapOpKind::Contains, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Insert, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Erase, Some(_)) => (MapStatus::Erased, None),
        (MapOpKind::Put, Some(_)) => (MapStatus::Updated, Some(op.value)),
        (MapOpKind::Add, Some(old)) => (MapStatus::Updated, Some(old.wrapping_add(op.value))),
        (MapOpKind::Min, Some(old)) => (MapStatus::Updated, Some(old.min(op.value))),
        (MapOpKind::Max, Some(old)) => (MapStatus::Updated, Some(old.max(op.value))),
        (MapOpKind::Find | MapOpKind::Contains | MapOpKind::Erase, None) => (MapStatus::Absent, None),
        (_, None) => (MapStatus::Inserted, Some(op.value)),
    };
    match new {
        Some(new) => model.insert(op.key, new),
        None => model.remove(&op.key),
    };
    MapAnswer { status, before: if op.kind == MapOpKind::Contains { 0 } else { old.unwrap_or(0) } }
}

/// An error unless the map has these pairs and is sound.
pub(crate) fn check_contents(map: &HashMap, model: &Model) -> Result<(), ContainerError> {
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    map.verify()?;
    let pairs = map.retrieve_all()?;
    let found: Model = pairs.iter().copied().collect();
    if &found != model || pairs.len() != model.len() {
        return wrong(format!("there is {found:?}, and not {model:?}"));
    }
    if map.len()? != model.len() as u64 {
        return wrong(format!("the length is {} and not {}", map.len()?, model.len()));
    }
    Ok(())
}

pub(crate) fn random_op(dice: &mut Dice, key: u64) -> MapOp {
    MapOp::new(KINDS[dice.below(8) as usize], key, dice.below(100))
}

pub(crate) fn check_answers(model: &mut Model, batch: &[MapOp], answers: &[MapAnswer]) -> Result<(), String> {
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = expected(model, *op);
        if *answer != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}
