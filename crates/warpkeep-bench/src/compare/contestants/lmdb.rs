//! LMDB: a memory-mapped B+ tree, through heed.
#![allow(unsafe_code, reason = "opening an environment is unsafe in heed")]

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithoutTls};

use super::Setup;
use super::tree::{Tree, TreeContestant, Writer, Writes};
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::Contestant;
use crate::workload::Workload;

/// Bytes of its file for a workload: nodes of random inserts, pages half to two thirds full, and pages that writers copy.
pub(crate) fn file_bytes(workload: &Workload) -> u64 {
    workload.items * (workload.key_bytes + workload.value_bytes + 10) as u64 * 17 / 10 + (256 << 20)
}

struct Lmdb {
    env: Env<WithoutTls>,
    database: Database<Bytes, Bytes>,
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(error: heed::Error) -> BenchError {
    BenchError::Peer { name: "LMDB", what: error.to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("lmdb")?;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    // Addresses, not space; doubled for the pages that writers copy.
    options.map_size((2 * file_bytes(&setup.workload) + (1 << 30)).next_multiple_of(1 << 20) as usize);
    options.max_readers(1024);
    let syncs = match setup.promise {
        Promise::NoLog | Promise::Process => {
            // SAFETY: without syncs a crash of the machine can leave the file damaged. It is not read after one: it
            // lies in a directory of this run, which is removed.
            unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC) };
            "NO_SYNC and NO_META_SYNC: survives the process"
        }
        Promise::Power => "syncs at each commit",
    };
    // SAFETY: the file is in a directory that this run has just made, so no other process changes it while it is mapped.
    let env = unsafe { options.open(&path) }.map_err(failed)?;
    let mut transaction = env.write_txn().map_err(failed)?;
    let database = env.create_database(&mut transaction, None).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    let settings = format!("heed 0.22, NO_TLS, {syncs}; has no batched get");
    Ok(TreeContestant::boxed("LMDB", &settings, setup, Lmdb { env, database }))
}

impl Tree for Lmdb {
    type Reader<'a> = RoTxn<'a, WithoutTls>;

    fn reader(&self) -> Result<Self::Reader<'_>, BenchError> {
        self.env.read_txn().map_err(failed)
    }

    fn get(&self, reader: &Self::Reader<'_>, key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = self.database.get(reader, key).map_err(failed)?;
        if let Some(found) = found {
            value.clear();
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn write(&self, work: &mut Writes<'_>) -> Result<(), BenchError> {
        let transaction = self.env.write_txn().map_err(failed)?;
        let mut writing = Writing { database: &self.database, transaction };
        work(&mut writing)?;
        writing.transaction.commit().map_err(failed)
    }

    fn close(self) -> Result<(), BenchError> {
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct Writing<'a> {
    database: &'a Database<Bytes, Bytes>,
    transaction: RwTxn<'a>,
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.database.put(&mut self.transaction, key, value).map_err(failed)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Option<bool>, BenchError> {
        self.database.delete(&mut self.transaction, key).map(Some).map_err(failed)
    }
}
