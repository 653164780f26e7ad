//! LMDB: a memory-mapped B+ tree, through heed.
#![allow(unsafe_code, reason = "opening an environment is unsafe in heed")]

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};
use warpkeep::Durability;

use super::Setup;
use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::Workload;

/// Bytes of its file for a workload: nodes of random inserts, pages half to two thirds full, and pages that writers copy.
pub(crate) fn file_bytes(workload: &Workload) -> u64 {
    workload.items * (workload.key_bytes + workload.value_bytes + 10) as u64 * 17 / 10 + (256 << 20)
}

pub(crate) struct Lmdb {
    env: Env<WithoutTls>,
    database: Database<Bytes, Bytes>,
    workload: Workload,
    batch: usize,
    durability: Durability,
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(error: heed::Error) -> BenchError {
    BenchError::Peer { name: "LMDB", what: error.to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("lmdb")?;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    // Addresses, not space; twice over for what writers copy.
    options.map_size((2 * file_bytes(&setup.workload) + (1 << 30)).next_multiple_of(1 << 20) as usize);
    options.max_readers(1024);
    if setup.durability == Durability::Process {
        // SAFETY: without syncs a crash of the machine can leave the file damaged. Nobody reads it after one: it lies in a
        // directory of this run, which is removed.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
    }
    // SAFETY: the file is in a directory that this run has just made, so no other process changes it while it is mapped.
    let env = unsafe { options.open(&path) }.map_err(failed)?;
    let mut transaction = env.write_txn().map_err(failed)?;
    let database = env.create_database(&mut transaction, None).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    let Setup { workload, batch, durability, .. } = *setup;
    Ok(Box::new(Lmdb { env, database, workload, batch, durability }))
}

impl Contestant for Lmdb {
    fn name(&self) -> &str {
        "LMDB"
    }

    fn settings(&self) -> String {
        format!(
            "heed 0.22, NO_TLS, {}, one read transaction for a round's gets, write transactions of {} operations (of one \
             where latencies are taken), {}; has no batched get",
            match self.durability {
                Durability::Process => "NO_SYNC and NO_META_SYNC: survives the process",
                Durability::Power => "syncs at each commit",
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
        Ok(Box::new(LmdbSession { of: self, reading: None, key, value }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'a> {
    of: &'a Lmdb,
    reading: Option<RoTxn<'a, WithoutTls>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl LmdbSession<'_> {
    /// Copies the value of a key; `false` if there is none.
    fn read(&mut self, number: u64) -> Result<bool, BenchError> {
        let reading = match &mut self.reading {
            Some(reading) => reading,
            none => none.insert(self.of.env.read_txn().map_err(failed)?),
        };
        self.of.workload.write_key(number, &mut self.key);
        let found = self.of.database.get(reading, &self.key).map_err(failed)?;
        if let Some(found) = found {
            self.value.clear();
            self.value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }
}

impl Session for LmdbSession<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            let found = self.read(number)?;
            tally.see(&self.of.workload, number, found.then_some(&self.value));
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        let Lmdb { env, database, workload, .. } = self.of;
        self.value.resize(workload.value_bytes, 0);
        let mut writing = env.write_txn().map_err(failed)?;
        for &number in numbers {
            workload.write_key(number, &mut self.key);
            workload.write_value(number, generation, &mut self.value);
            database.put(&mut writing, &self.key, &self.value).map_err(failed)?;
        }
        writing.commit().map_err(failed)
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        let Lmdb { env, database, workload, .. } = self.of;
        let mut writing = env.write_txn().map_err(failed)?;
        for &number in numbers {
            workload.write_key(number, &mut self.key);
            tally.note(database.delete(&mut writing, &self.key).map_err(failed)?);
        }
        writing.commit().map_err(failed)
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
