//! scc: a map for writing.

use ahash::RandomState;
use scc::HashMap;

use super::Setup;
use super::map::{Map, MapAccess, MapContestant, MapKey, for_sizes};
use crate::BenchError;
use crate::compare::contestant::Contestant;

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    for_sizes!(setup.workload, make(setup))
}

fn make<K: MapKey, const V: usize>(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let hasher = RandomState::default();
    let map: HashMap<K, [u8; V], RandomState> =
        HashMap::with_capacity_and_hasher(setup.workload.items as usize, hasher);
    let settings = "scc 3 HashMap, ahash, made for all items";
    Ok(MapContestant::<_, K, V>::boxed("scc", settings, setup.workload, map))
}

impl<K: MapKey, const V: usize> Map<K, V> for HashMap<K, [u8; V], RandomState> {
    type Access<'a> = &'a Self;

    fn access(&self) -> &Self {
        self
    }
}

impl<K: MapKey, const V: usize> MapAccess<K, V> for &HashMap<K, [u8; V], RandomState> {
    #[inline]
    fn get(&self, key: &K, row: &mut [u8; V]) -> bool {
        self.read_sync(key, |_, value| *row = *value).is_some()
    }

    #[inline]
    fn put(&self, key: K, value: &[u8; V]) -> Result<(), BenchError> {
        self.upsert_sync(key, *value);
        Ok(())
    }

    #[inline]
    fn remove(&self, key: &K) -> Result<bool, BenchError> {
        Ok(self.remove_sync(key).is_some())
    }
}
