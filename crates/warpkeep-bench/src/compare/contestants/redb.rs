//! redb: a copy-on-write B-tree in Rust.

use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, Table, TableDefinition};

use super::Setup;
use super::tree::{Tree, TreeContestant, Writer, Writes};
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::Contestant;
use crate::size::Size;
use crate::workload::Workload;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const MAX_CACHE: u64 = 4 << 30;
/// One commit in this many is durable: only a durable one lets it reuse the space of old pages; otherwise its file
/// would grow without end.
const LASTING: u64 = 16;

/// Bytes of its pages for a workload, filled by random inserts.
fn page_bytes(workload: &Workload) -> u64 {
    workload.items * (workload.key_bytes + workload.value_bytes + 16) as u64 * 19 / 10
}

/// Bytes of its file, with pages that wait for a commit that lasts.
pub(crate) fn file_bytes(workload: &Workload) -> u64 {
    page_bytes(workload) + (1 << 30)
}

/// Bytes of its own cache.
pub(crate) fn cache_bytes(workload: &Workload) -> u64 {
    page_bytes(workload).clamp(64 << 20, MAX_CACHE)
}

struct Redb {
    database: Database,
    promise: Promise,
    commits: AtomicU64,
}

fn failed(error: impl Into<redb::Error>) -> BenchError {
    BenchError::Peer { name: "redb", what: error.into().to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("redb")?.join("redb");
    let cache = cache_bytes(&setup.workload);
    let database = Builder::new().set_cache_size(cache as usize).create(path).map_err(failed)?;
    let redb = Redb { database, promise: setup.promise, commits: AtomicU64::new(0) };
    // The first commit lasts, and makes the table.
    redb.write(&mut |_| Ok(()))?;
    let settings = format!(
        "redb 3, a cache of {}, {}; has no batched get",
        Size(cache),
        match setup.promise {
            Promise::NoLog | Promise::Process =>
                "Durability::None, with every 16th commit Immediate, without which its file grows",
            Promise::Power => "Durability::Immediate",
        }
    );
    Ok(TreeContestant::boxed("redb", &settings, setup, redb))
}

impl Redb {
    fn next_commit(&self) -> Durability {
        let turn = self.commits.fetch_add(1, Ordering::Relaxed);
        match self.promise {
            Promise::NoLog | Promise::Process if !turn.is_multiple_of(LASTING) => Durability::None,
            _ => Durability::Immediate,
        }
    }
}

impl Tree for Redb {
    type Reader<'a> = ReadOnlyTable<&'static [u8], &'static [u8]>;

    fn reader(&self) -> Result<Self::Reader<'_>, BenchError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        transaction.open_table(TABLE).map_err(failed)
    }

    fn get(&self, reader: &Self::Reader<'_>, key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = reader.get(key).map_err(failed)?;
        if let Some(found) = &found {
            value.clear();
            value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }

    fn write(&self, work: &mut Writes<'_>) -> Result<(), BenchError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(self.next_commit()).map_err(failed)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            work(&mut table)?;
        }
        transaction.commit().map_err(failed)
    }
}

impl Writer for Table<'_, &'static [u8], &'static [u8]> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.insert(key, value).map(drop).map_err(failed)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Option<bool>, BenchError> {
        Table::remove(self, key).map(|old| Some(old.is_some())).map_err(failed)
    }
}
