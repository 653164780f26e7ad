//! The slab hash on the CPU: the same requests on maps of the standard library, one after the other.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::cell::{CellValue, SlabKey};
use super::request::{RawRequest, SlabAnswer, SlabOpKind};

/// The pairs. A key has its values in the order in which they were inserted.
#[derive(Debug)]
pub(super) enum CpuTable<K, V> {
    Unique(HashMap<K, V>),
    Multi { values: HashMap<K, VecDeque<V>>, len: u64 },
}

impl<K: SlabKey<V>, V: CellValue> CpuTable<K, V> {
    pub(super) fn new(unique: bool, capacity: u64) -> Self {
        // No more than that, because a hint must not take all memory.
        let capacity = capacity.min(1 << 20) as usize;
        match unique {
            true => Self::Unique(HashMap::with_capacity(capacity)),
            false => Self::Multi { values: HashMap::new(), len: 0 },
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Unique(map) => map.len() as u64,
            Self::Multi { len, .. } => *len,
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Unique(map) => map.clear(),
            Self::Multi { values, len } => {
                values.clear();
                *len = 0;
            }
        }
    }

    /// The answer to a request that changes nothing: all others are answered as a search.
    pub(super) fn read(&self, request: RawRequest<K, V>) -> SlabAnswer<V> {
        let (first, count) = match self {
            Self::Unique(map) => (map.get(&request.key), usize::from(map.contains_key(&request.key))),
            Self::Multi { values, .. } => {
                let values = values.get(&request.key);
                (values.and_then(VecDeque::front), values.map_or(0, VecDeque::len))
            }
        };
        match request.code == SlabOpKind::Count as u8 {
            true => SlabAnswer::Counted(count as u32),
            false => first.map_or(SlabAnswer::Absent, |value| SlabAnswer::Found(*value)),
        }
    }

    pub(super) fn apply(&mut self, request: RawRequest<K, V>) -> SlabAnswer<V> {
        let RawRequest { code, key, value } = request;
        const INSERT: u8 = SlabOpKind::Insert as u8;
        const REPLACE: u8 = SlabOpKind::Replace as u8;
        const DELETE: u8 = SlabOpKind::Delete as u8;
        const DELETE_ALL: u8 = SlabOpKind::DeleteAll as u8;
        match (self, code) {
            (Self::Unique(map), INSERT | REPLACE) => match map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                    SlabAnswer::Inserted
                }
                Entry::Occupied(place) if code == INSERT => SlabAnswer::Present(*place.get()),
                Entry::Occupied(mut place) => SlabAnswer::Updated(place.insert(value)),
            },
            (Self::Unique(map), DELETE) => map.remove(&key).map_or(SlabAnswer::Absent, SlabAnswer::Removed),
            (Self::Unique(map), DELETE_ALL) => SlabAnswer::Counted(map.remove(&key).is_some().into()),
            (Self::Multi { values, len }, INSERT | REPLACE) => {
                values.entry(key).or_default().push_back(value);
                *len += 1;
                SlabAnswer::Inserted
            }
            (Self::Multi { values, len }, DELETE) => {
                let Entry::Occupied(mut place) = values.entry(key) else { return SlabAnswer::Absent };
                let removed = place.get_mut().pop_front();
                if place.get().is_empty() {
                    place.remove();
                }
                *len -= u64::from(removed.is_some());
                removed.map_or(SlabAnswer::Absent, SlabAnswer::Removed)
            }
            (Self::Multi { values, len }, DELETE_ALL) => {
                let removed = values.remove(&key).map_or(0, |values| values.len());
                *len -= removed as u64;
                SlabAnswer::Counted(removed as u32)
            }
            (table, _) => table.read(request),
        }
    }

    /// The values of a key.
    pub(super) fn values(&self, key: K) -> Vec<V> {
        match self {
            Self::Unique(map) => map.get(&key).copied().into_iter().collect(),
            Self::Multi { values, .. } => {
                values.get(&key).map(|values| values.iter().copied().collect()).unwrap_or_default()
            }
        }
    }

    pub(super) fn pairs(&self) -> Vec<(K, V)> {
        match self {
            Self::Unique(map) => map.iter().map(|(key, value)| (*key, *value)).collect(),
            Self::Multi { values, .. } => {
                let of_key = |(key, values): (&K, &VecDeque<V>)| {
                    values.iter().map(|value| (*key, *value)).collect::<Vec<_>>()
                };
                values.iter().flat_map(of_key).collect()
            }
        }
    }
}
