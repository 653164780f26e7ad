//! The keys that clients see: a table, and the locks for changing it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use warpkeep::{Durability, KeySpec, ScanPosition, Store, Table, TableOptions, ValueSpec};
use warpkeep_core::{Seed, hash_bytes};
use warpkeep_image::ImageError;

use crate::commits::Commits;
use crate::databases::{self, DATABASES};
use crate::eviction::Evictor;
use crate::item::{Head, MAX_KEY};
use crate::stripes::Stripes;
use crate::touches::Touches;
use crate::{ServerError, Settings};

/// Tables of items have this name with a number; emptying makes the next and drops the one before.
const PREFIX: &str = "items.";

/// The server's own state beside the items; created when first needed.
const STATE: &str = "server.state";
/// In it: when all items are to be thrown away, and of which table.
const FLUSH: &[u8] = b"flush";
/// In it: databases that were selected at some time, a bit each.
const USED: &[u8] = b"databases";

/// The CAS value of an item that was replaced before it was stored: no version of the store is this large.
const NEVER_STORED: u64 = 1 << 63;

/// The items, and the shared state for changing them.
pub(crate) struct Keyspace<'s> {
    pub(crate) store: &'s Store,
    pub(crate) durability: Durability,
    pub(crate) stripes: Stripes,
    pub(crate) commits: Commits,
    pub(crate) touches: Touches,
    table: RwLock<Table>,
    /// Databases that may have items, a bit each.
    used: AtomicU16,
    /// Held while all items are thrown away. Its holder may wait for the table, so it is not taken with the table held.
    emptying: Mutex<()>,
    /// Held while the server's own state is written. Its holder waits for neither of the above.
    state: Mutex<()>,
    seed: Seed,
    tokens: AtomicU64,
    /// Recent requests, if items may be evicted.
    pub(crate) evictor: Option<Evictor>,
    /// An item that expires was stored.
    pub(crate) expiring: AtomicBool,
    /// Items that were thrown away to make room.
    pub(crate) evicted: AtomicU64,
}

impl<'s> Keyspace<'s> {
    /// Opens the items of a store; their table is created if there is none.
    pub(crate) fn open(store: &'s Store, settings: &Settings) -> Result<Keyspace<'s>, ServerError> {
        if settings.durability == Durability::Power && store.report().log.is_none() {
            return Err(ServerError::Setting(
                "this store has no log, so it cannot promise that writes survive the machine; ask for process, or serve a store \
                 with a log"
                    .to_owned(),
            ));
        }
        let mut numbers: Vec<u64> =
            store.tables().iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect();
        numbers.sort_unstable();
        let current = numbers.pop();
        // Left by a flush that a crash interrupted: it was to be dropped. In a read-only store it stays for now.
        for number in numbers.into_iter().filter(|_| store.report().only_reads.is_none()) {
            store.drop_table(&name_of(number))?;
        }
        let table = match current {
            Some(number) => store.table(&name_of(number))?,
            None => store.create_table(&name_of(1), options(settings.capacity)?)?,
        };
        let wanted = options(settings.capacity)?;
        if (table.key_spec(), table.value_spec()) != (wanted.key, wanted.value) {
            return Err(ServerError::ForeignTable { name: table.name().to_owned() });
        }
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|source| ServerError::Io { doing: "draw a random seed", source: source.into() })?;
        let used = used_databases(store)?;
        Ok(Keyspace {
            used: AtomicU16::new(used | 1),
            store,
            durability: settings.durability,
            stripes: Stripes::new(),
            commits: Commits::default(),
            touches: Touches::new(),
            table: RwLock::new(table),
            emptying: Mutex::new(()),
            state: Mutex::new(()),
            seed: Seed(u64::from_le_bytes(random)),
            tokens: AtomicU64::new(0),
            evictor: settings.evict.then(|| Evictor::new(settings.eviction, settings.max_memory)),
            // Items stored earlier may expire.
            expiring: AtomicBool::new(true),
            evicted: AtomicU64::new(0),
        })
    }

    /// The table, which stays the same while this is held.
    pub(crate) fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read()
    }

    /// A key's hash within this process.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        hash_bytes(self.seed, key)
    }

    /// Reserves `count` unique CAS values; returns the first.
    pub(crate) fn tokens(&self, count: u64) -> u64 {
        NEVER_STORED | self.tokens.fetch_add(count, Ordering::Relaxed)
    }

    /// Remembers that the items of now are to be thrown away at a moment.
    pub(crate) fn keep_flush(&self, moment: u64) -> Result<(), ServerError> {
        let _alone = self.emptying.lock();
        // With the table's number: when that table is dropped the flush is done, wherever a crash hits.
        let number = number_of(self.table.read().name());
        let value = [moment.to_le_bytes(), number.to_le_bytes()].concat();
        let held = self.state.lock();
        self.put_state(&held, FLUSH, &value)
    }

    /// Writes a part of the server's own state. Its table is created if there is none.
    fn put_state(&self, _held: &MutexGuard<'_, ()>, name: &[u8], value: &[u8]) -> Result<(), ServerError> {
        let state = match self.store.tables().iter().any(|name| name == STATE) {
            true => self.store.table(STATE)?,
            false => self.store.create_table(STATE, options(0)?)?,
        };
        state.put(name, value, self.durability)?;
        Ok(())
    }

    /// Remembers that a database may have items. The caller may hold the table.
    pub(crate) fn use_database(&self, database: u8) -> Result<(), ServerError> {
        let bit = 1 << database;
        if self.used.load(Ordering::Acquire) & bit == 0 {
            let held = self.state.lock();
            let used = self.used.load(Ordering::Acquire) | bit;
            self.put_state(&held, USED, &used.to_le_bytes())?;
            self.used.store(used, Ordering::Release);
        }
        Ok(())
    }

    /// Whether no other database than this one may have items.
    pub(crate) fn is_only_database(&self, database: u8) -> bool {
        self.used.load(Ordering::Acquire) & !(1 << database) == 0
    }

    /// The number of items of a database. They are counted one by one if other databases may have items.
    pub(crate) fn count(&self, database: u8) -> Result<u64, ServerError> {
        match self.is_only_database(database) {
            true => Ok(self.table().len()),
            false => Ok(self.counts()?[database as usize]),
        }
    }

    /// How many items each database has.
    pub(crate) fn counts(&self) -> Result<[u64; DATABASES as usize], ServerError> {
        let mut counts = [0; DATABASES as usize];
        let table = self.table();
        if self.is_only_database(0) {
            counts[0] = table.len();
            return Ok(counts);
        }
        table.scan(|item| {
            counts[databases::of(item.key).0 as usize] += 1;
            ControlFlow::Continue(())
        })?;
        Ok(counts)
    }

    /// Throws the items of one database away, a slice of the table at a time.
    pub(crate) fn empty_database(&self, database: u8) -> Result<(), ServerError> {
        let table = self.table();
        let _still = table.hold_still();
        let mut position = ScanPosition::default();
        let mut more = true;
        while more {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            more = table.scan_some(&mut position, |item| {
                if databases::of(item.key).0 == database {
                    keys.push(item.key.to_vec());
                }
            })?;
            if keys.is_empty() {
                continue;
            }
            let mut held = Vec::new();
            self.stripes.hold(keys.iter().map(|key| self.hash(key)), &mut Vec::new(), &mut held);
            let mut batch = table.batch();
            for key in &keys {
                batch.delete(key.as_slice()).map_err(warpkeep::Error::from)?;
            }
            if let Some((index, status)) = table.run(&batch, self.durability)?.first_error() {
                return Err(warpkeep::Error::Refused { index, op: warpkeep::Op::Delete, status }.into());
            }
        }
        Ok(())
    }

    /// When the items are to be thrown away, as it was remembered; 0 is never.
    pub(crate) fn flush_to_come(&self) -> Result<u64, ServerError> {
        if !self.store.tables().iter().any(|name| name == STATE) {
            return Ok(0);
        }
        let kept = self.store.table(STATE)?.get(FLUSH)?;
        let (moment, number) = match kept.as_deref().map(<[u8]>::as_chunks::<8>) {
            None => return Ok(0),
            Some(([moment, number], [])) => (u64::from_le_bytes(*moment), u64::from_le_bytes(*number)),
            Some(_) => return Err(ServerError::ForeignTable { name: STATE.to_owned() }),
        };
        Ok(if number == number_of(self.table.read().name()) { moment } else { 0 })
    }

    /// Throws all items away.
    pub(crate) fn empty(&self) -> Result<(), ServerError> {
        let _alone = self.emptying.lock();
        let (old, number) = {
            let table = self.table.read();
            (table.name().to_owned(), number_of(table.name()))
        };
        let name = name_of(number + 1);
        match self.store.create_table(&name, options(0)?) {
            // No batch is in progress when the table is replaced, so nothing read from the old table is written to
            // the new one.
            Ok(fresh) => *self.table.write() = fresh,
            Err(full @ warpkeep::Error::Image(ImageError::OutOfSpace { .. })) => {
                let mut table = self.table.write();
                *table = self.replace_full(&table, &name, full)?;
            }
            Err(error) => return Err(error.into()),
        }
        self.store.drop_table(&old)?;
        Ok(())
    }

    /// Replaces a table whose items leave no space for another: some of them are removed first, since all are to
    /// go.
    fn replace_full(
        &self,
        table: &Table,
        name: &str,
        mut full: warpkeep::Error,
    ) -> Result<Table, ServerError> {
        const ATTEMPTS: usize = 64;
        for _ in 0..ATTEMPTS {
            let warpkeep::Error::Image(ImageError::OutOfSpace { wanted, .. }) = &full else { break };
            table.vacate_bytes(*wanted, |key| {
                if let Err(error) = table.delete(key, Durability::Process) {
                    tracing::warn!(%error, "an item could not be thrown away");
                }
            })?;
            match self.store.create_table(name, options(0)?) {
                Ok(fresh) => return Ok(fresh),
                Err(error) => full = error,
            }
        }
        Err(full.into())
    }

    /// Removes a key to make room, unless another worker is changing it; returns whether it did. The caller may
    /// hold other keys.
    pub(crate) fn evict(&self, table: &Table, key: &[u8]) -> Result<bool, ServerError> {
        match self.stripes.try_hold(self.hash(key)) {
            Some(_held) => Ok(table.delete(key, Durability::Process)?),
            None => Ok(false),
        }
    }

    /// Removes a key if its item has expired; whether it did.
    pub(crate) fn remove_expired(&self, key: &[u8], now: u64) -> Result<bool, ServerError> {
        let table = self.table();
        let mut held = Vec::new();
        self.stripes.hold(std::iter::once(self.hash(key)), &mut Vec::new(), &mut held);
        match table.get(key)?.as_deref().and_then(Head::from_bytes) {
            Some(head) if head.is_expired(now) => Ok(table.delete(key, Durability::Process)?),
            _ => Ok(false),
        }
    }
}

/// Databases that were selected at some time, as it was remembered.
fn used_databases(store: &Store) -> Result<u16, ServerError> {
    if !store.tables().iter().any(|name| name == STATE) {
        return Ok(0);
    }
    match store.table(STATE)?.get(USED)?.as_deref() {
        None => Ok(0),
        Some(&[low, high]) => Ok(u16::from_le_bytes([low, high])),
        Some(_) => Err(ServerError::ForeignTable { name: STATE.to_owned() }),
    }
}

fn number_of(name: &str) -> u64 {
    name.strip_prefix(PREFIX).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn name_of(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn options(capacity: u64) -> Result<TableOptions, ServerError> {
    let key = KeySpec::variable(MAX_KEY as u32).map_err(warpkeep::Error::from)?;
    let value = ValueSpec::variable(ValueSpec::MAX).map_err(warpkeep::Error::from)?;
    Ok(TableOptions::new(key, value).capacity(capacity.max(1024)))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use warpkeep::StoreOptions;

    use super::*;

    #[test]
    fn a_database_can_be_noted_while_a_flush_waits_for_the_table() {
        let home = tempfile::tempdir().unwrap();
        let options = StoreOptions { without_log: true, ..StoreOptions::default() };
        let store = Store::open_with(home.path(), options).unwrap();
        let keyspace = Keyspace::open(&store, &Settings::default()).unwrap();
        let noted = std::thread::scope(|scope| {
            let table = keyspace.table();
            scope.spawn(|| keyspace.empty().unwrap());
            while !keyspace.emptying.is_locked() {
                std::thread::yield_now();
            }
            // As a transaction that writes to a database for the first time.
            let (done, is_done) = mpsc::channel();
            let keyspace = &keyspace;
            scope.spawn(move || done.send(keyspace.use_database(5).is_ok()));
            let noted = is_done.recv_timeout(Duration::from_secs(20));
            drop(table);
            noted
        });
        assert_eq!(noted, Ok(true), "it waits for the flush, which waits for the table");
        assert!(!keyspace.is_only_database(0));
        assert_eq!(used_databases(&store).unwrap(), 1 << 5 | 1);
    }
}
