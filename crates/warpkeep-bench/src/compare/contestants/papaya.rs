//! papaya: a lock-free map for reading.

use ahash::RandomState;
use papaya::{HashMap, HashMapRef, LocalGuard};

use super::Setup;
use super::map::{Map, MapAccess, MapContestant, MapKey, for_sizes};
use crate::BenchError;
use crate::compare::contestant::Contestant;

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    for_sizes!(setup.workload, make(setup))
}

fn make<K: MapKey, const V: usize>(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let map: HashMap<K, [u8; V], RandomState> =
        HashMap::builder().capacity(setup.workload.items as usize).hasher(RandomState::default()).build();
    let settings = "papaya 0.2, ahash, made for all items, one guard for 256 operations, incremental resize";
    Ok(MapContestant::<_, K, V>::boxed("papaya", settings, setup.workload, map))
}

impl<K: MapKey, const V: usize> Map<K, V> for HashMap<K, [u8; V], RandomState> {
    type Access<'a> = HashMapRef<'a, K, [u8; V], RandomState, LocalGuard<'a>>;

    fn access(&self) -> Self::Access<'_> {
        self.pin()
    }
}

impl<K: MapKey, const V: usize> MapAccess<K, V> for HashMapRef<'_, K, [u8; V], RandomState, LocalGuard<'_>> {
    #[inline]
    fn get(&self, key: &K, row: &mut [u8; V]) -> bool {
        HashMapRef::get(self, key).map(|value| *row = *value).is_some()
    }

    #[inline]
    fn put(&self, key: K, value: &[u8; V]) -> Result<(), BenchError> {
        self.insert(key, *value);
        Ok(())
    }

    #[inline]
    fn remove(&self, key: &K) -> Result<bool, BenchError> {
        Ok(HashMapRef::remove(self, key).is_some())
    }
}
