//! The map on the CPU: the same operations on a map of the standard library.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::columns::HostBatch;
use super::op::{MapAnswer, MapOp, MapOpKind, MapStatus};
use super::width::{MapKey, MapValue};

#[derive(Debug, Default)]
pub(super) struct CpuMap<K, V>(Mutex<HashMap<K, V>>);

impl<K: MapKey, V: MapValue> CpuMap<K, V> {
    pub(super) fn with_capacity(items: usize) -> Self {
        CpuMap(Mutex::new(HashMap::with_capacity(items)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(&self, batch: &HostBatch<'_, K, V>, mut answer: impl FnMut(MapAnswer<V>)) {
        let mut map = self.lock();
        for at in 0..batch.len() {
            answer(apply(&mut map, batch.op(at)));
        }
    }
}

fn apply<K: MapKey, V: MapValue>(map: &mut HashMap<K, V>, op: MapOp<K, V>) -> MapAnswer<V> {
    match map.entry(op.key) {
        Entry::Vacant(place) if op.kind.inserts() => {
            place.insert(op.value);
            MapAnswer { status: MapStatus::Inserted, before: V::zeroed() }
        }
        Entry::Vacant(_) => MapAnswer { status: MapStatus::Absent, before: V::zeroed() },
        Entry::Occupied(mut place) => {
            let before = *place.get();
            let status = match op.kind {
                MapOpKind::Erase => {
                    place.remove();
                    MapStatus::Erased
                }
                MapOpKind::Insert | MapOpKind::Find => MapStatus::Found,
                MapOpKind::Contains => return MapAnswer { status: MapStatus::Found, before: V::zeroed() },
                kind => {
                    *place.get_mut() = before.updated(kind, op.value);
                    MapStatus::Updated
                }
            };
            MapAnswer { status, before }
        }
    }
}
