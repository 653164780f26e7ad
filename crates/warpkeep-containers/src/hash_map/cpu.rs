//! The map on the CPU: the same operations on a map of the standard library.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::columns::HostBatch;
use super::op::{MapAnswer, MapOp, MapOpKind, MapStatus};

#[derive(Debug, Default)]
pub(super) struct CpuMap(Mutex<HashMap<u64, u64>>);

impl CpuMap {
    pub(super) fn with_capacity(items: usize) -> CpuMap {
        CpuMap(Mutex::new(HashMap::with_capacity(items)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn run(&self, batch: &HostBatch<'_>, mut answer: impl FnMut(MapAnswer)) {
        let mut map = self.lock();
        for at in 0..batch.len() {
            answer(apply(&mut map, batch.op(at)));
        }
    }
}

fn apply(map: &mut HashMap<u64, u64>, op: MapOp) -> MapAnswer {
    match map.entry(op.key) {
        Entry::Vacant(place) if op.kind.inserts() => {
            place.insert(op.value);
            MapAnswer { status: MapStatus::Inserted, before: 0 }
        }
        Entry::Vacant(_) => MapAnswer { status: MapStatus::Absent, before: 0 },
        Entry::Occupied(mut place) => {
            let before = *place.get();
            let status = match op.kind {
                MapOpKind::Erase => {
                    place.remove();
                    MapStatus::Erased
                }
                MapOpKind::Insert | MapOpKind::Find => MapStatus::Found,
                MapOpKind::Contains => return MapAnswer { status: MapStatus::Found, before: 0 },
                kind => {
                    *place.get_mut() = kind.updated(before, op.value);
                    MapStatus::Updated
                }
            };
            MapAnswer { status, before }
        }
    }
}
