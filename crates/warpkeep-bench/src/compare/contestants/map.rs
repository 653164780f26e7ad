//! Maps in memory, whichever: keys and values inline, all of them driven alike.

use std::hash::Hash;
use std::marker::PhantomData;

use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::{Action, Workload};

/// A key as a map holds it.
pub(crate) trait MapKey: Copy + Eq + Hash + Send + Sync + 'static {
    fn of(workload: &Workload, number: u64) -> Self;

    /// As a log writes it down.
    #[cfg_attr(not(feature = "peer-dashmap"), allow(dead_code, reason = "only dashmap is logged"))]
    fn bytes(&self) -> impl AsRef<[u8]>;
}

impl MapKey for u64 {
    #[inline]
    fn of(workload: &Workload, number: u64) -> u64 {
        workload.key_word(number)
    }

    #[inline]
    fn bytes(&self) -> impl AsRef<[u8]> {
        self.to_le_bytes()
    }
}

impl<const N: usize> MapKey for [u8; N] {
    #[inline]
    fn of(workload: &Workload, number: u64) -> [u8; N] {
        let mut key = [0; N];
        workload.write_key(number, &mut key);
        key
    }

    #[inline]
    fn bytes(&self) -> impl AsRef<[u8]> {
        *self
    }
}

/// A map that many threads use at once.
pub(crate) trait Map<K: MapKey, const V: usize>: Sync + 'static {
    /// A thread's handle for a while: a guard, where the map has guards, else a reference.
    type Access<'a>: MapAccess<K, V>
    where
        Self: 'a;

    fn access(&self) -> Self::Access<'_>;

    /// As [`Contestant::loaded`].
    fn loaded(&self) {}

    /// As [`Contestant::on_disk`].
    fn on_disk(&self) -> Promise {
        Promise::NoLog
    }
}

/// A map in use.
pub(crate) trait MapAccess<K, const V: usize> {
    /// Copies the value; `false` if there is none.
    fn get(&self, key: &K, row: &mut [u8; V]) -> bool;
    /// Puts a value, whether the key is there or not.
    fn put(&self, key: K, value: &[u8; V]) -> Result<(), BenchError>;
    /// Removes a key; `false` if it was not there.
    fn remove(&self, key: &K) -> Result<bool, BenchError>;
}

/// A map that takes part.
pub(crate) struct MapContestant<M, K, const V: usize> {
    name: &'static str,
    settings: String,
    workload: Workload,
    map: M,
    keys: PhantomData<K>,
}

impl<M: Map<K, V>, K: MapKey, const V: usize> MapContestant<M, K, V> {
    pub(crate) fn boxed(
        name: &'static str,
        settings: impl Into<String>,
        workload: Workload,
        map: M,
    ) -> Box<dyn Contestant> {
        Box::new(MapContestant { name, settings: settings.into(), workload, map, keys: PhantomData })
    }
}

impl<M: Map<K, V>, K: MapKey, const V: usize> Contestant for MapContestant<M, K, V> {
    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> String {
        format!(
            "{}; keys of {} and values of {V} bytes inline; has no batches, and none can be prefetched from outside: where \
             a key lies in memory is not to be had",
            self.settings,
            size_of::<K>()
        )
    }

    fn ways(&self) -> Vec<Way> {
        vec![Way::one_by_one("")]
    }

    fn loaded(&self) {
        self.map.loaded();
    }

    fn on_disk(&self) -> Promise {
        self.map.on_disk()
    }

    fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        Ok(Box::new(MapSession { of: self, row: [0; V] }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct MapSession<'a, M, K, const V: usize> {
    of: &'a MapContestant<M, K, V>,
    row: [u8; V],
}

impl<M: Map<K, V>, K: MapKey, const V: usize> Session for MapSession<'_, M, K, V> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        let (workload, access) = (&self.of.workload, self.of.map.access());
        for &number in numbers {
            let found = access.get(&K::of(workload, number), &mut self.row);
            tally.see(workload, number, found.then_some(&std::hint::black_box(&self.row)[..]));
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        let (workload, access) = (&self.of.workload, self.of.map.access());
        for &number in numbers {
            workload.write_value(number, generation, &mut self.row);
            access.put(K::of(workload, number), &self.row)?;
        }
        Ok(())
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        let (workload, access) = (&self.of.workload, self.of.map.access());
        for &number in numbers {
            tally.note(access.remove(&K::of(workload, number))?);
        }
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        let (workload, access) = (&self.of.workload, self.of.map.access());
        for (&number, &action) in numbers.iter().zip(actions) {
            let key = K::of(workload, number);
            if action == Action::Put {
                workload.write_value(number, generation, &mut self.row);
            } else {
                let found = access.get(&key, &mut self.row);
                tally.see_there(workload, number, found.then_some(&std::hint::black_box(&self.row)[..]));
            }
            if action == Action::Modify {
                workload.modify(number, &mut self.row);
            }
            if action != Action::Get {
                access.put(key, &self.row)?;
            }
        }
        Ok(())
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        let found = self.of.map.access().get(&K::of(&self.of.workload, number), &mut self.row);
        Ok(found.then(|| self.row.to_vec()))
    }
}

/// Calls `$make::<K, V>($args)` for the sizes of a workload, which must be known when the program is compiled.
macro_rules! for_sizes {
    ($workload:expr, $make:ident($($argument:expr),*)) => {
        match ($workload.key_bytes, $workload.value_bytes) {
            (8, 8) => $make::<u64, 8>($($argument),*),
            (8, 64) => $make::<u64, 64>($($argument),*),
            (8, 128) => $make::<u64, 128>($($argument),*),
            (8, 1024) => $make::<u64, 1024>($($argument),*),
            (15, 15) => $make::<[u8; 15], 15>($($argument),*),
            (16, 128) => $make::<[u8; 16], 128>($($argument),*),
            (32, 8) => $make::<[u8; 32], 8>($($argument),*),
            (32, 128) => $make::<[u8; 32], 128>($($argument),*),
            (64, 128) => $make::<[u8; 64], 128>($($argument),*),
            (128, 128) => $make::<[u8; 128], 128>($($argument),*),
            (key, value) => Err($crate::BenchError::Invalid(format!(
                "maps hold keys and values inline, and are compiled for keys of 8, 16, 32, 64 and 128 bytes with values of 128, for \
                 keys of 8 also with values of 8, 64 and 1024, for keys of 32 with values of 8, and for keys of 15 with values of 15, \
                 not for {key} and {value}; choose from these, or leave the maps out"
            ))),
        }
    };
}
pub(crate) use for_sizes;

/// Whether maps are compiled for the sizes of a workload.
pub(crate) fn has_sizes(workload: &Workload) -> bool {
    fn yes<K: MapKey, const V: usize>() -> Result<(), BenchError> {
        Ok(())
    }
    for_sizes!(workload, yes()).is_ok()
}
