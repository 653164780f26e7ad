//! RocksDB: a log-structured merge tree in C++.

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, Options,
    WriteBatch, WriteOptions,
};

use super::Setup;
use super::tree::{Tree, TreeContestant, Writer, Writes};
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::Contestant;
use crate::size::Size;
use crate::workload::Workload;

const ROWS: &str = "default";
const MAX_CACHE: u64 = 4 << 30;
/// Bits of the filters a key.
const BLOOM_BITS: f64 = 10.0;

/// Bytes of its files for a workload: tables, files that compaction has not removed yet, and logs.
pub(crate) fn file_bytes(workload: &Workload) -> u64 {
    2 * workload.data_bytes() + (1 << 30)
}

/// Bytes of its own cache.
pub(crate) fn cache_bytes(workload: &Workload) -> u64 {
    workload.data_bytes().clamp(64 << 20, MAX_CACHE)
}

struct Rocks {
    database: DB,
    promise: Promise,
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(error: rocksdb::Error) -> BenchError {
    BenchError::Peer { name: "RocksDB", what: error.to_string() }
}

pub(crate) fn open(setup: &Setup<'_>) -> Result<Box<dyn Contestant>, BenchError> {
    let path = setup.peer_directory("rocksdb")?;
    let cache = cache_bytes(&setup.workload);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(cache as usize));
    blocks.set_bloom_filter(BLOOM_BITS, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options.increase_parallelism(crate::pinned::core_count() as i32);
    options.set_block_based_table_factory(&blocks);
    // By descriptor: a column family opened by its name alone gets options of its own.
    let rows = ColumnFamilyDescriptor::new(ROWS, options.clone());
    let database = DB::open_cf_descriptors(&options, path, [rows]).map_err(failed)?;
    let settings = format!(
        "rocksdb 0.25, a cache of {}, no compression, Bloom filters of {BLOOM_BITS} bits a key, as many background threads as cores, {}, \
         gets of a batch by batched MultiGet; a delete does not say whether the key was there: what it left is looked at \
         afterwards",
        Size(cache),
        match setup.promise {
            Promise::NoLog => "WriteBatch without its log",
            Promise::Process => "WriteBatch with its log, not synced",
            Promise::Power => "WriteBatch with its log, synced",
        }
    );
    Ok(TreeContestant::boxed("RocksDB", &settings, setup, Rocks { database, promise: setup.promise }))
}

impl Rocks {
    fn rows(&self) -> Result<&ColumnFamily, BenchError> {
        let missing =
            || BenchError::Peer { name: "RocksDB", what: "it has lost its column family".to_owned() };
        self.database.cf_handle(ROWS).ok_or_else(missing)
    }
}

impl Tree for Rocks {
    /// A get sees everything committed before it.
    type Reader<'a> = ();

    fn reader(&self) -> Result<(), BenchError> {
        Ok(())
    }

    fn get(&self, _reader: &(), key: &[u8], value: &mut Vec<u8>) -> Result<bool, BenchError> {
        let found = self.database.get_pinned_cf(self.rows()?, key).map_err(failed)?;
        if let Some(found) = &found {
            value.clear();
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn get_many(
        &self,
        reader: &(),
        mut keys: std::slice::ChunksExact<'_, u8>,
        value: &mut Vec<u8>,
        each: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), BenchError> {
        if keys.len() == 1
            && let Some(key) = keys.next()
        {
            let found = self.get(reader, key, value)?;
            each(found.then_some(value));
            return Ok(());
        }
        for found in self.database.batched_multi_get_cf(self.rows()?, keys, false) {
            match found.map_err(failed)? {
                Some(found) => {
                    value.clear();
                    value.extend_from_slice(&found);
                    each(Some(value));
                }
                None => each(None),
            }
        }
        Ok(())
    }

    fn write(&self, work: &mut Writes<'_>) -> Result<(), BenchError> {
        let mut writing = Writing { rows: self.rows()?, batch: WriteBatch::default() };
        work(&mut writing)?;
        let mut options = WriteOptions::default();
        options.set_sync(self.promise == Promise::Power);
        options.disable_wal(self.promise == Promise::NoLog);
        self.database.write_opt(writing.batch, &options).map_err(failed)
    }
}

struct Writing<'a> {
    rows: &'a ColumnFamily,
    batch: WriteBatch,
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), BenchError> {
        self.batch.put_cf(self.rows, key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Option<bool>, BenchError> {
        self.batch.delete_cf(self.rows, key);
        Ok(None)
    }
}
