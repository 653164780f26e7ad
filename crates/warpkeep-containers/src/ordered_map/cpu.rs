//! The map on the CPU: the same operations on a map of the standard library.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::key::{OrderedWord, updated};
use super::near::Near;
use super::op::{OrderedAnswer, OrderedOp, OrderedOpKind, OrderedStatus};

/// A snapshot is another reference to the map: a batch copies it if there is one.
#[derive(Debug)]
pub(super) struct CpuMap<K, V>(Mutex<Arc<BTreeMap<K, V>>>);

impl<K: OrderedWord, V: OrderedWord> CpuMap<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Arc::new(BTreeMap::new())))
    }

    pub(super) fn current(&self) -> Arc<BTreeMap<K, V>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Arc<BTreeMap<K, V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(&self, ops: &[OrderedOp<K, V>]) -> Vec<OrderedAnswer<K, V>> {
        let mut map = self.lock();
        if ops.iter().all(|op| op.kind.only_reads()) {
            return ops.iter().map(|op| read(&map, op)).collect();
        }
        let map = Arc::make_mut(&mut map);
        ops.iter().map(|op| if op.kind.only_reads() { read(map, op) } else { change(map, op) }).collect()
    }
}

fn answer<K: OrderedWord, V: OrderedWord>(status: OrderedStatus, value: V) -> OrderedAnswer<K, V> {
    OrderedAnswer { status, key: K::default(), value, count: 0, pairs: Vec::new() }
}

fn change<K: OrderedWord, V: OrderedWord>(
    map: &mut BTreeMap<K, V>,
    op: &OrderedOp<K, V>,
) -> OrderedAnswer<K, V> {
    if op.kind == OrderedOpKind::Erase {
        return match map.remove(&op.key) {
            Some(old) => answer(OrderedStatus::Erased, old),
            None => answer(OrderedStatus::Absent, V::default()),
        };
    }
    match map.get_mut(&op.key) {
        None => {
            map.insert(op.key, op.value);
            answer(OrderedStatus::Inserted, V::default())
        }
        Some(value) => {
            let old = *value;
            *value = updated(op.kind, old, op.value);
            let status =
                if op.kind == OrderedOpKind::Insert { OrderedStatus::Found } else { OrderedStatus::Updated };
            answer(status, old)
        }
    }
}

fn read<K: OrderedWord, V: OrderedWord>(map: &BTreeMap<K, V>, op: &OrderedOp<K, V>) -> OrderedAnswer<K, V> {
    let found = |found: bool| if found { OrderedStatus::Found } else { OrderedStatus::Absent };
    match op.kind {
        OrderedOpKind::Count => {
            let count = count(map, op.key, op.end);
            OrderedAnswer { count, ..answer(found(count > 0), V::default()) }
        }
        OrderedOpKind::Range => {
            let pairs = range(map, op.key, op.end);
            let (status, count) = (found(!pairs.is_empty()), pairs.len() as u64);
            OrderedAnswer { count, pairs, ..answer(status, V::default()) }
        }
        OrderedOpKind::Successor
        | OrderedOpKind::Predecessor
        | OrderedOpKind::Ceiling
        | OrderedOpKind::Floor => {
            let is_down = matches!(op.kind, OrderedOpKind::Predecessor | OrderedOpKind::Floor);
            let strict = matches!(op.kind, OrderedOpKind::Predecessor | OrderedOpKind::Successor);
            let pair = nearest(map, op.key, is_down, &if strict { Near::strict() } else { Near::or_equal() });
            let (key, value) = pair.unwrap_or_default();
            OrderedAnswer { key, ..answer(found(pair.is_some()), value) }
        }
        _ => {
            let value = map.get(&op.key).copied();
            let shown = if op.kind == OrderedOpKind::Contains { None } else { value };
            answer(found(value.is_some()), shown.unwrap_or_default())
        }
    }
}

/// All pairs between two bounds, both included; none if the first is the larger.
pub(super) fn range<K: OrderedWord, V: OrderedWord>(map: &BTreeMap<K, V>, low: K, high: K) -> Vec<(K, V)> {
    if low > high {
        return Vec::new();
    }
    map.range(low..=high).map(|(key, value)| (*key, *value)).collect()
}

/// How many keys there are between two bounds, both included.
pub(super) fn count<K: OrderedWord, V>(map: &BTreeMap<K, V>, low: K, high: K) -> u64 {
    if low > high { 0 } else { map.range(low..=high).count() as u64 }
}

pub(super) fn nearest<K: OrderedWord, V: OrderedWord>(
    map: &BTreeMap<K, V>,
    key: K,
    is_down: bool,
    near: &Near<K>,
) -> Option<(K, V)> {
    let bound = if near.or_equal { Bound::Included(key) } else { Bound::Excluded(key) };
    let pair = match is_down {
        true => map.range((Bound::Unbounded, bound)).next_back(),
        false => map.range((bound, Bound::Unbounded)).next(),
    };
    pair.map(|(key, value)| (*key, *value)).filter(|(found, _)| near.accepts(key, *found))
}
