//! What operations on an ordered map answer and leave, on a map of the standard library.

use std::collections::BTreeMap;

use warpkeep_containers::{
    ContainerError, OrderedAnswer, OrderedKey, OrderedMap, OrderedOp, OrderedOpKind, OrderedStatus,
    OrderedWord,
};

pub(crate) type Model<K, V> = BTreeMap<K, V>;

pub(crate) const KINDS: [OrderedOpKind; 14] = [
    OrderedOpKind::Insert,
    OrderedOpKind::Put,
    OrderedOpKind::Add,
    OrderedOpKind::Min,
    OrderedOpKind::Max,
    OrderedOpKind::Find,
    OrderedOpKind::Contains,
    OrderedOpKind::Erase,
    OrderedOpKind::Successor,
    OrderedOpKind::Predecessor,
    OrderedOpKind::Ceiling,
    OrderedOpKind::Floor,
    OrderedOpKind::Count,
    OrderedOpKind::Range,
];

/// By how many bits the numbers of keys are shifted: those of 16 bytes are to differ in both halves.
pub(crate) fn shift<K>() -> u32 {
    if size_of::<K>() == 16 { 61 } else { 0 }
}

/// The key of a number; the last one is the largest key.
pub(crate) fn key_of<K: OrderedWord>(number: u64) -> K {
    if number == u64::MAX { K::LARGEST } else { K::from_u128(u128::from(number) << shift::<K>()) }
}

/// What the operation answers, and what it leaves.
pub(crate) fn expected<K: OrderedWord, V: OrderedWord>(
    model: &mut Model<K, V>,
    op: &OrderedOp<K, V>,
) -> OrderedAnswer<K, V> {
    use OrderedOpKind as Kind;
    let nothing = OrderedAnswer {
        status: OrderedStatus::Absent,
        key: K::default(),
        value: V::default(),
        count: 0,
        pairs: vec![],
    };
    let around = |pair: Option<(&K, &V)>| match pair {
        Some((key, value)) => {
            OrderedAnswer { status: OrderedStatus::Found, key: *key, value: *value, ..nothing.clone() }
        }
        None => nothing.clone(),
    };
    let old = model.get(&op.key).copied();
    let (status, new) = match (op.kind, old) {
        (Kind::Successor, _) => return around(model.iter().find(|(key, _)| **key > op.key)),
        (Kind::Ceiling, _) => return around(model.iter().find(|(key, _)| **key >= op.key)),
        (Kind::Predecessor, _) => return around(model.iter().rev().find(|(key, _)| **key < op.key)),
        (Kind::Floor, _) => return around(model.iter().rev().find(|(key, _)| **key <= op.key)),
        (Kind::Count | Kind::Range, _) => {
            let inside = |(key, _): &(&K, &V)| op.key <= **key && **key <= op.end;
            let pairs: Vec<(K, V)> = model.iter().filter(inside).map(|(key, value)| (*key, *value)).collect();
            let status = if pairs.is_empty() { OrderedStatus::Absent } else { OrderedStatus::Found };
            let count = pairs.len() as u64;
            let pairs = if op.kind == Kind::Range { pairs } else { vec![] };
            return OrderedAnswer { status, count, pairs, ..nothing };
        }
        (Kind::Find | Kind::Contains | Kind::Insert, Some(old)) => (OrderedStatus::Found, Some(old)),
        (Kind::Erase, Some(_)) => (OrderedStatus::Erased, None),
        (Kind::Put, Some(_)) => (OrderedStatus::Updated, Some(op.value)),
        (Kind::Add, Some(old)) => {
            let sum = old.to_u128().wrapping_add(op.value.to_u128());
            (OrderedStatus::Updated, Some(V::from_u128(sum)))
        }
        (Kind::Min, Some(old)) => (OrderedStatus::Updated, Some(old.min(op.value))),
        (Kind::Max, Some(old)) => (OrderedStatus::Updated, Some(old.max(op.value))),
        (Kind::Find | Kind::Contains | Kind::Erase, None) => (OrderedStatus::Absent, None),
        (_, None) => (OrderedStatus::Inserted, Some(op.value)),
    };
    match new {
        Some(new) => model.insert(op.key, new),
        None => model.remove(&op.key),
    };
    let value = if op.kind == Kind::Contains { V::default() } else { old.unwrap_or_default() };
    OrderedAnswer { status, value, ..nothing }
}

pub(crate) fn check_answers<K: OrderedWord, V: OrderedWord>(
    model: &mut Model<K, V>,
    batch: &[OrderedOp<K, V>],
    answers: &[OrderedAnswer<K, V>],
) -> Result<(), String> {
    assert_eq!(batch.len(), answers.len());
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = expected(model, op);
        if *answer != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}

/// An error unless the map has these pairs and is sound.
pub(crate) fn check_contents<K: OrderedKey<V>, V: OrderedWord>(
    map: &OrderedMap<K, V>,
    model: &Model<K, V>,
) -> Result<(), ContainerError> {
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    map.verify()?;
    let pairs = map.retrieve_all()?;
    if !pairs.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))) {
        return wrong(format!("there is {pairs:?}, and not {model:?}"));
    }
    if map.len() != model.len() as u64 {
        return wrong(format!("the length is {} and not {}", map.len(), model.len()));
    }
    Ok(())
}
