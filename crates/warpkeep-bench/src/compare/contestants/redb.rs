//! redb: a copy-on-write B-tree in Rust.

use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use warpkeep::Durability;

use super::Setup;
use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::Workload;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const MAX_CACHE: u64 = 4 << 30;
/// One commit in so many lasts: only such a one lets it use the space of old pages again, and its file would grow without end.
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

pub(crate) struct Redb {
    database: Database,
    workload: Workload,
    batch: usize,
    durability: Durability,
    commits: AtomicU64,
}

fn failed(error: impl Into<redb::Error>) -> BenchError {
    BenchError::Peer { name: "redb", what: error.into().to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("redb")?.join("redb");
    let database =
        Builder::new().set_cache_size(cache_bytes(&setup.workload) as usize).create(path).map_err(failed)?;
    let Setup { workload, batch, durability, .. } = *setup;
    let redb = Redb { database, workload, batch, durability, commits: AtomicU64::new(0) };
    redb.write(redb::Durability::Immediate, |_| Ok(()))?;
    Ok(Box::new(redb))
}

type Rows<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

impl Redb {
    fn write(
        &self,
        durability: redb::Durability,
        work: impl FnOnce(&mut Rows<'_>) -> Result<(), redb::StorageError>,
    ) -> Result<(), BenchError> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(durability).map_err(failed)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            work(&mut table).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn next_commit(&self) -> redb::Durability {
        let turn = self.commits.fetch_add(1, Ordering::Relaxed);
        match self.durability {
            Durability::Process if !turn.is_multiple_of(LASTING) => redb::Durability::None,
            Durability::Process | Durability::Power => redb::Durability::Immediate,
        }
    }
}

impl Contestant for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    fn settings(&self) -> String {
        format!(
            "redb 3, a cache of {}, {}, one read transaction for a round's gets, write transactions of {} operations (of one \
             where latencies are taken), {}; has no batched get",
            crate::size::Size(cache_bytes(&self.workload)),
            match self.durability {
                Durability::Process =>
                    "Durability::None, with every 16th commit Immediate, without which its file grows",
                Durability::Power => "Durability::Immediate",
            },
            self.batch,
            super::where_it_lies(self.durability)
        )
    }

    fn ways(&self) -> Vec<Way> {
        vec![Way { name: "", block: self.batch, has_latency: true }]
    }

    fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let (key, value) = (vec![0; self.workload.key_bytes], vec![0; self.workload.value_bytes]);
        Ok(Box::new(RedbSession { of: self, reading: None, key, value }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct RedbSession<'a> {
    of: &'a Redb,
    reading: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl RedbSession<'_> {
    /// Copies the value of a key; `false` if there is none.
    fn read(&mut self, number: u64) -> Result<bool, BenchError> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => {
                let transaction = self.of.database.begin_read().map_err(failed)?;
                none.insert(transaction.open_table(TABLE).map_err(failed)?)
            }
        };
        self.of.workload.write_key(number, &mut self.key);
        let found = reading.get(&self.key[..]).map_err(failed)?;
        if let Some(found) = &found {
            self.value.clear();
            self.value.extend_from_slice(found.value());
        }
        Ok(found.is_some())
    }
}

impl Session for RedbSession<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            let found = self.read(number)?;
            tally.see(&self.of.workload, number, found.then_some(&self.value));
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        let workload = &self.of.workload;
        self.value.resize(workload.value_bytes, 0);
        self.of.write(self.of.next_commit(), |table| {
            for &number in numbers {
                workload.write_key(number, &mut self.key);
                workload.write_value(number, generation, &mut self.value);
                table.insert(&self.key[..], &self.value[..])?;
            }
            Ok(())
        })
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        self.of.write(self.of.next_commit(), |table| {
            for &number in numbers {
                self.of.workload.write_key(number, &mut self.key);
                tally.note(table.remove(&self.key[..])?.is_some());
            }
            Ok(())
        })
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        // What was written since the last look is to be seen.
        self.reading = None;
        Ok(self.read(number)?.then(|| self.value.clone()))
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.reading = None;
        Ok(())
    }
}
