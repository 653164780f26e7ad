//! A table whose keys and values have Rust types.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use warpkeep_core::{Durability, Op, Status};
use warpkeep_image::{Coherent, Persist};

use super::{AsKey, AsValue, Key, Value};
use crate::metrics::{Kind, Tally};
use crate::table::refused;
use crate::{Error, Inserted, Result, Store, Swapped, Table, TableOptions};

/// A table whose keys and values have Rust types; made by [`Store::create_typed`] and [`Store::typed`]. A handle, as [`Table`] is: clones of it are the same
/// table.
///
/// ```
/// use warpkeep::{Durability, Store};
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let rows = store.create_typed::<u64, [f32; 4]>("rows", 1000)?;
/// rows.put_many(&[(1, [0.5; 4]), (2, [1.5; 4])], Durability::Power)?;
/// assert_eq!(rows.get_many(&[2, 3])?, [Some([1.5; 4]), None]);
/// # Ok::<(), warpkeep::Error>(())
/// ```
pub struct TypedTable<K, V, P: Persist = Coherent> {
    table: Table<P>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V, P: Persist> Clone for TypedTable<K, V, P> {
    fn clone(&self) -> TypedTable<K, V, P> {
        TypedTable { table: self.table.clone(), types: PhantomData }
    }
}

impl<P: Persist> Store<P> {
    /// Creates a table of keys and values of these types, with room for `capacity` items at once. For a table with
    /// a merge rule, another layout or other limits, see [`TableOptions::typed`].
    pub fn create_typed<K: Key, V: Value>(&self, name: &str, capacity: u64) -> Result<TypedTable<K, V, P>> {
        self.create_table(name, TableOptions::typed::<K, V>()?.capacity(capacity))?.typed()
    }

    /// The table of this name with keys and values of these types; created with room for `capacity` items if it does not exist yet. See
    /// [`Store::table_or_create`].
    pub fn typed_or_create<K: Key, V: Value>(
        &self,
        name: &str,
        capacity: u64,
    ) -> Result<TypedTable<K, V, P>> {
        match self.typed(name) {
            Err(Error::NoTable { .. }) => {}
            found => return found,
        }
        self.table_or_create(name, TableOptions::typed::<K, V>()?.capacity(capacity))?.typed()
    }

    /// A table that is there, with keys and values of these types.
    pub fn typed<K: Key, V: Value>(&self, name: &str) -> Result<TypedTable<K, V, P>> {
        self.table(name)?.typed()
    }
}

impl<P: Persist> Table<P> {
    /// The table with keys and values of these types, if it was created for them.
    pub fn typed<K: Key, V: Value>(self) -> Result<TypedTable<K, V, P>> {
        let (table_keys, table_values) = (self.key_spec(), self.value_spec());
        if K::fits(table_keys) && V::fits(table_values) {
            return Ok(TypedTable { table: self, types: PhantomData });
        }
        let (table, keys, values) = (self.name().to_owned(), K::spec()?, V::spec()?);
        Err(Error::OtherTypes { table, table_keys, table_values, keys, values })
    }
}

impl<K: Key, V: Value, P: Persist> TypedTable<K, V, P> {
    /// The table without the types: for batches.
    pub fn table(&self) -> &Table<P> {
        &self.table
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    /// The number of items. Exact while there are no writers.
    pub fn len(&self) -> u64 {
        self.table.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &(impl AsKey<K> + ?Sized)) -> Result<Option<V>> {
        Ok(self.get_versioned(key)?.map(|(_, value)| value))
    }

    /// The version of a key, which grows with every change of it, and its value.
    pub fn get_versioned(&self, key: &(impl AsKey<K> + ?Sized)) -> Result<Option<(u64, V)>> {
        let found = self.table.read(key.key_cell().as_ref(), |version, len, fill| {
            V::from_cell(len, fill).map(|value| (version, value))
        })?;
        found.map(|found| found.ok_or_else(|| self.undecodable("a value"))).transpose()
    }

    /// The values of many keys, in their order: faster than one by one, because their memory accesses overlap.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let call = self.table.lease.enter()?;
        let named = &call.named;
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(keys.len()));
        for key in keys {
            let key = key.to_cell();
            self.table.key_spec().check(key.as_ref())?;
            bytes.extend_from_slice(key.as_ref());
            ends.push(bytes.len());
        }
        let cells = (0..ends.len()).map(|index| {
            let start = if index == 0 { 0 } else { ends[index - 1] };
            &bytes[start..ends[index]]
        });
        let begun = named.metrics.begin(keys.len());
        let (mut values, mut tally, mut undecodable) =
            (Vec::with_capacity(keys.len()), Tally::default(), false);
        let mut damaged = None;
        named.table.get_many(cells, |index, found| {
            if found.as_ref().is_some_and(warpkeep_record::Value::is_damaged) {
                tally.add(Op::Get, Status::Corrupt);
                damaged = damaged.or(Some(index));
                return values.push(None);
            }
            let value = found.map(|found| V::from_cell(found.len(), |to| found.copy_to(to)));
            tally.add(Op::Get, if value.is_some() { Status::Ok } else { Status::NotFound });
            undecodable |= matches!(value, Some(None));
            values.push(value.flatten());
        });
        named.metrics.add(&tally);
        named.metrics.end(begun, Kind::Read, keys.len());
        if let Some(index) = damaged {
            return Err(crate::table::refused(named.table.kind(), index, Op::Get, Status::Corrupt, 0));
        }
        if undecodable { Err(self.undecodable("a value")) } else { Ok(values) }
    }

    /// Stores a value, whether the key is there or not; gives its version.
    pub fn put(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
        durability: Durability,
    ) -> Result<u64> {
        self.table.put(key.key_cell().as_ref(), value.value_cell().as_ref(), durability)
    }

    /// Stores many values as one batch: all or nothing with `Power`. If one is refused, the error names it; with
    /// `Process` those that fit are stored all the same.
    pub fn put_many(&self, items: &[(K, V)], durability: Durability) -> Result<()> {
        let mut batch = self.table.batch();
        batch.reserve(items.len(), items.len() * self.table.value_spec().fixed_len().unwrap_or(0));
        for (key, value) in items {
            batch.push(Op::Put, key.to_cell().as_ref(), value.to_cell().as_ref(), 0)?;
        }
        let results = self.table.run(&batch, durability)?;
        match results.first_error() {
            None => Ok(()),
            Some((index, status)) => {
                let (key, value) = &items[index];
                let bytes = key.to_cell().as_ref().len() + value.to_cell().as_ref().len();
                Err(refused(self.table.index(), index, Op::Put, status, bytes))
            }
        }
    }

    /// Removes many keys as one batch, and returns how many of them existed: all or nothing with `Power`.
    pub fn delete_many(&self, keys: &[K], durability: Durability) -> Result<usize> {
        let mut batch = self.table.batch();
        batch.reserve(keys.len(), 0);
        for key in keys {
            batch.push(Op::Delete, key.to_cell().as_ref(), &[], 0)?;
        }
        let results = self.table.run(&batch, durability)?;
        match results.first_error() {
            None => Ok(results.statuses().iter().filter(|status| status.is_ok()).count()),
            Some((index, status)) => {
                let bytes = keys[index].to_cell().as_ref().len();
                Err(refused(self.table.index(), index, Op::Delete, status, bytes))
            }
        }
    }

    /// Stores a value if the key is not there.
    pub fn insert(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
        durability: Durability,
    ) -> Result<Inserted> {
        self.table.insert(key.key_cell().as_ref(), value.value_cell().as_ref(), durability)
    }

    /// Stores a value if the key is there; gives its version, or `None` if it is not.
    pub fn update(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
        durability: Durability,
    ) -> Result<Option<u64>> {
        self.table.update(key.key_cell().as_ref(), value.value_cell().as_ref(), durability)
    }

    /// Stores a value if the key has this version; see [`TypedTable::get_versioned`].
    pub fn compare_and_swap(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        expected_version: u64,
        value: &(impl AsValue<V> + ?Sized),
        durability: Durability,
    ) -> Result<Swapped> {
        let (key, value) = (key.key_cell(), value.value_cell());
        self.table.compare_and_swap(key.as_ref(), expected_version, value.as_ref(), durability)
    }

    /// Combines a value with the stored one by the table's [merge rule](Table::merge_rule), or stores it if the key
    /// is absent; returns the version. See [`Table::merge`].
    pub fn merge(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
        durability: Durability,
    ) -> Result<u64> {
        self.table.merge(key.key_cell().as_ref(), value.value_cell().as_ref(), durability)
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: &(impl AsKey<K> + ?Sized), durability: Durability) -> Result<bool> {
        self.table.delete(key.key_cell().as_ref(), durability)
    }

    /// Gives out all items, as [`Table::scan`] does.
    pub fn for_each(&self, mut each: impl FnMut(K, V)) -> Result<()> {
        let mut undecodable = None;
        self.table.scan(|item| {
            let Some(key) = K::from_cell(item.key) else {
                undecodable = Some("a key");
                return ControlFlow::Break(());
            };
            let Some(value) = V::from_cell(item.value.len(), |to| to.copy_from_slice(item.value)) else {
                undecodable = Some("a value");
                return ControlFlow::Break(());
            };
            each(key, value);
            ControlFlow::Continue(())
        })?;
        undecodable.map_or(Ok(()), |what| Err(self.undecodable(what)))
    }

    fn undecodable(&self, what: &'static str) -> Error {
        let wanted = if what == "a key" { type_name::<K>() } else { type_name::<V>() };
        Error::Undecodable { table: self.name().to_owned(), what, wanted }
    }
}

impl<K: Key, P: Persist> TypedTable<K, u64, P> {
    /// Adds to a number, wrapping, and returns the previous value; an absent key starts from 0.
    pub fn fetch_add(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        delta: u64,
        durability: Durability,
    ) -> Result<u64> {
        self.table.fetch_add(key.key_cell().as_ref(), delta, durability)
    }
}

impl<K: Key, P: Persist> TypedTable<K, i64, P> {
    /// Adds to a number, wrapping, and returns the previous value; an absent key starts from 0.
    pub fn fetch_add(
        &self,
        key: &(impl AsKey<K> + ?Sized),
        delta: i64,
        durability: Durability,
    ) -> Result<i64> {
        let before = self.table.fetch_add(key.key_cell().as_ref(), delta.cast_unsigned(), durability)?;
        Ok(before.cast_signed())
    }
}

impl<K, V, P: Persist> fmt::Debug for TypedTable<K, V, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedTable").field(&self.table).finish()
    }
}
