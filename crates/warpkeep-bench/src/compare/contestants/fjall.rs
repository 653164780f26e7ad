//! fjall: a log-structured merge tree in Rust.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};

use super::Setup;
use super::tree::{Tree, TreeContestant, Writer, Writes};
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::Contestant;
use crate::size::Size;
use crate::workload::Workload;

const MAX_CACHE: u64 = 4 << 30;

/// Bytes of its files for a workload: tables, files that compaction has not removed yet, and journals.
pub(crate) fn file_bytes(workload: &Workload) -> u64 {
    2 * workload.data_bytes() + (1 << 30)
}

/// Bytes of its own cache.
pub(crate) fn cache_bytes(workload: &Workload) -> u64 {
    workload.data_bytes().clamp(64 << 20, MAX_CACHE)
}

struct Fjall {
    database: Database,
    rows: Keyspace,
    persist: Option<PersistMode>,
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(error: fjall::Error) -> BenchError {
    BenchError::Peer { name: "fjall", what: error.to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("fjall")?;
    let cache = cache_bytes(&setup.workload);
    let database = Database::builder(path).cache_size(cache).open().map_err(failed)?;
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default).map_err(failed)?;
    let (persist, how) = match setup.promise {
        Promise::NoLog => (None, "batches not persisted"),
        Promise::Process => (Some(PersistMode::Buffer), "batches with PersistMode::Buffer"),
        Promise::Power => (Some(PersistMode::SyncData), "batches with PersistMode::SyncData"),
    };
    let settings = format!(
        "fjall 3, a cache of {}, no compression, {how}; has no batched get, and a delete does not say whether the key was \
         there: what it left is looked at afterwards",
        Size(cache)
    );
    Ok(TreeContestant::boxed("fjall", &settings, setup, Fjall { database, rows, persist }))
}

impl Tree for Fjall {
    /// A get sees everything committed before it.
    type Reader<'a> = ();

    fn reader(&self) -> Result<(), BenchError> {
        Ok(())
    }

    fn get(&self, _reader: &(), key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = self.rows.get(key).map_err(failed)?;
        if let Some(found) = &found {
            value.clear();
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn write(&self, work: &mut Writes<'_>) -> Result<(), BenchError> {
        let mut writing = Writing { rows: &self.rows, batch: self.database.batch().durability(self.persist) };
        work(&mut writing)?;
        writing.batch.commit().map_err(failed)
    }
}

struct Writing<'a> {
    rows: &'a Keyspace,
    batch: OwnedWriteBatch,
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.batch.insert(self.rows, key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Option<bool>, BenchError> {
        self.batch.remove(self.rows, key);
        Ok(None)
    }
}
