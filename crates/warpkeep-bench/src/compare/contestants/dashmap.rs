//! dashmap: a map of locked shards; by itself, and with our log behind it.
//!
//! The second is the fair rival of a persistent index: a map that is rebuilt from a log. Puts do the same as our
//! store around its log, in the same order, while the key's shard is locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ahash::RandomState;
use dashmap::{DashMap, Entry};
use warpkeep::Durability;
use warpkeep::engine::{Change, ChangeKind};
use warpkeep_log::{ChangeBatch, Log, LogOptions, OsDisk};

use super::Setup;
use super::map::{Map, MapAccess, MapContestant, MapKey, for_sizes};
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::Contestant;

const SETTINGS: &str = "dashmap 6, ahash, made for all items, shards as it chooses";

type Shards<K, const V: usize> = DashMap<K, [u8; V], RandomState>;

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    for_sizes!(setup.workload, make(setup))
}

fn make<K: MapKey, const V: usize>(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    Ok(MapContestant::<_, K, V>::boxed("dashmap", SETTINGS, setup.workload, shards::<K, V>(setup)))
}

fn shards<K: MapKey, const V: usize>(setup: &Setup<'_>) -> Shards<K, V> {
    DashMap::with_capacity_and_hasher(setup.workload.items as usize, RandomState::default())
}

pub(crate) fn open_logged(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    for_sizes!(setup.workload, make_logged(setup))
}

fn make_logged<K: MapKey, const V: usize>(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let disk = OsDisk::open(setup.scratch.disk().join("dashmap-log"))?;
    let log = Log::create(Arc::new(disk), [7; 16], 1, LogOptions::default())?;
    let (promise, versions) = (setup.promise, AtomicU64::new(0));
    let map = Logged { map: shards::<K, V>(setup), log, versions, promise, loaded: AtomicBool::new(false) };
    let settings = format!("{SETTINGS}; each put and delete logged on the disk, to survive {promise}");
    Ok(MapContestant::<_, K, V>::boxed("dashmap + log", settings, setup.workload, map))
}

impl<K: MapKey, const V: usize> Map<K, V> for Shards<K, V> {
    type Access<'a> = &'a Self;

    fn access(&self) -> &Self {
        self
    }
}

impl<K: MapKey, const V: usize> MapAccess<K, V> for &Shards<K, V> {
    #[inline]
    fn get(&self, key: &K, row: &mut [u8; V]) -> bool {
        DashMap::get(self, key).map(|value| *row = *value).is_some()
    }

    #[inline]
    fn put(&self, key: K, value: &[u8; V]) -> Result<(), BenchError> {
        self.insert(key, *value);
        Ok(())
    }

    #[inline]
    fn remove(&self, key: &K) -> Result<bool, BenchError> {
        Ok(DashMap::remove(self, key).is_some())
    }
}

/// A map whose changes are logged.
struct Logged<K: MapKey, const V: usize> {
    map: Shards<K, V>,
    log: Log,
    versions: AtomicU64,
    promise: Promise,
    /// Before, `Process` will do: a sync an item would take days.
    loaded: AtomicBool,
}

/// A thread's access to it, with a buffer for its log records.
struct Pen<'a, K: MapKey, const V: usize> {
    logged: &'a Logged<K, V>,
    changes: std::cell::RefCell<ChangeBatch>,
}

impl<K: MapKey, const V: usize> Map<K, V> for Logged<K, V> {
    type Access<'a> = Pen<'a, K, V>;

    fn access(&self) -> Pen<'_, K, V> {
        Pen { logged: self, changes: std::cell::RefCell::default() }
    }

    fn loaded(&self) {
        self.loaded.store(true, Ordering::Release);
    }

    fn on_disk(&self) -> Promise {
        self.promise
    }
}

impl<K: MapKey, const V: usize> Pen<'_, K, V> {
    /// Logs a change and applies it; the caller holds the key's shard.
    fn write(&self, kind: ChangeKind, key: &K, value: &[u8], apply: impl FnOnce()) -> Result<(), BenchError> {
        let Logged { log, versions, loaded, .. } = self.logged;
        let durability = match loaded.load(Ordering::Acquire) {
            true => self.logged.promise.durability(),
            false => Durability::Process,
        };
        let version = versions.fetch_add(1, Ordering::Relaxed) + 1;
        let mut changes = self.changes.borrow_mut();
        changes.clear();
        changes.push(&Change { table: 1, kind, version, key: key.bytes().as_ref(), value })?;
        match durability {
            Durability::Process => {
                let promise = log.promise(&changes, durability)?;
                apply();
                log.append_promised(promise, &changes, durability)?;
            }
            Durability::Power => {
                let _inside = log.enter();
                let lsn = log.append(&changes, durability, |_| ())?;
                log.wait_durable(lsn)?;
                apply();
            }
        }
        Ok(())
    }
}

impl<K: MapKey, const V: usize> MapAccess<K, V> for Pen<'_, K, V> {
    #[inline]
    fn get(&self, key: &K, row: &mut [u8; V]) -> bool {
        MapAccess::get(&&self.logged.map, key, row)
    }

    #[inline]
    fn put(&self, key: K, value: &[u8; V]) -> Result<(), BenchError> {
        // Before any lock is taken.
        self.logged.log.back_pressure()?;
        match self.logged.map.entry(key) {
            Entry::Occupied(mut entry) => {
                self.write(ChangeKind::Put, &key, value, || *entry.get_mut() = *value)
            }
            Entry::Vacant(entry) => self.write(ChangeKind::Put, &key, value, || {
                entry.insert(*value);
            }),
        }
    }

    #[inline]
    fn remove(&self, key: &K) -> Result<bool, BenchError> {
        self.logged.log.back_pressure()?;
        match self.logged.map.entry(*key) {
            Entry::Vacant(_) => Ok(false),
            Entry::Occupied(entry) => {
                self.write(ChangeKind::Delete, key, &[], || {
                    entry.remove();
                })?;
                Ok(true)
            }
        }
    }
}
