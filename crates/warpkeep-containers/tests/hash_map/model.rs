//! What operations on a hash map answer and leave, on a map of the standard library.

use std::collections::BTreeMap;

use warpkeep_containers::{ContainerError, HashMap, MapAnswer, MapOp, MapOpKind, MapStatus};
use warpkeep_suites::device::Dice;

use crate::keys::{TestKey, TestValue};

pub(crate) type Model<K = u64, V = u64> = BTreeMap<K, V>;

pub(crate) const KINDS: [MapOpKind; 8] = [
    MapOpKind::Insert,
    MapOpKind::Put,
    MapOpKind::Find,
    MapOpKind::Contains,
    MapOpKind::Erase,
    MapOpKind::Add,
    MapOpKind::Min,
    MapOpKind::Max,
];

/// The kinds of operations that values know.
pub(crate) fn kinds<V: TestValue>() -> &'static [MapOpKind] {
    if V::NUMBERS { &KINDS } else { &KINDS[..5] }
}

/// What the operations answer, and what they leave.
pub(crate) fn expected<K: TestKey, V: TestValue>(model: &mut Model<K, V>, op: MapOp<K, V>) -> MapAnswer<V> {
    let old = model.get(&op.key).copied();
    let (status, new) = match (op.kind, old) {
        (MapOpKind::Find | MapOpKind::Contains, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Insert, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Erase, Some(_)) => (MapStatus::Erased, None),
        (MapOpKind::Put, Some(_)) => (MapStatus::Updated, Some(op.value)),
        (MapOpKind::Add, Some(old)) => (MapStatus::Updated, Some(old.plus(op.value))),
        (MapOpKind::Min, Some(old)) => (MapStatus::Updated, Some(old.min(op.value))),
        (MapOpKind::Max, Some(old)) => (MapStatus::Updated, Some(old.max(op.value))),
        (MapOpKind::Find | MapOpKind::Contains | MapOpKind::Erase, None) => (MapStatus::Absent, None),
        (_, None) => (MapStatus::Inserted, Some(op.value)),
    };
    match new {
        Some(new) => model.insert(op.key, new),
        None => model.remove(&op.key),
    };
    let before = old.filter(|_| op.kind != MapOpKind::Contains);
    MapAnswer { status, before: before.unwrap_or(bytemuck::Zeroable::zeroed()) }
}

/// An error unless the map has these pairs and is sound.
pub(crate) fn check_contents<K: TestKey, V: TestValue>(
    map: &HashMap<K, V>,
    model: &Model<K, V>,
) -> Result<(), ContainerError> {
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    map.verify()?;
    let pairs = map.retrieve_all()?;
    let found: Model<K, V> = pairs.iter().copied().collect();
    if &found != model || pairs.len() != model.len() {
        return wrong(format!("there is {found:?}, and not {model:?}"));
    }
    if map.len()? != model.len() as u64 {
        return wrong(format!("the length is {} and not {}", map.len()?, model.len()));
    }
    Ok(())
}

pub(crate) fn random_op<K: TestKey, V: TestValue>(dice: &mut Dice, key: K) -> MapOp<K, V> {
    let kinds = kinds::<V>();
    MapOp::new(kinds[dice.below(kinds.len() as u64) as usize], key, V::of(dice.below(100)))
}

pub(crate) fn check_answers<K: TestKey, V: TestValue>(
    model: &mut Model<K, V>,
    batch: &[MapOp<K, V>],
    answers: &[MapAnswer<V>],
) -> Result<(), String> {
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = expected(model, *op);
        if *answer != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}
