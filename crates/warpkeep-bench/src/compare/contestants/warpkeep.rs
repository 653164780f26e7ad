//! Ourselves.

use warpkeep::{
    Batch, DeviceChoice, Durability, IndexKind, IndexOptions, KeySpec, Op, Results, Status, Store,
    StoreOptions, Table, TableOptions, ValueSpec,
};
use warpkeep_core::{BatchView, Cells, Columns};
use warpkeep_image::CreateOptions;

use super::Setup;
use crate::BenchError;
use crate::compare::Promise;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::{Action, Work, Workload};

const TABLE: &str = "rows";
/// The place of a way.
const READS_APART: usize = 2;

/// Bytes that a record takes: value, key and version, at a multiple of 32 if the value is that long.
pub(crate) fn record_bytes(workload: &Workload) -> u64 {
    let bytes = workload.value_bytes.next_multiple_of(8) + workload.key_bytes.next_multiple_of(8) + 8;
    (if workload.value_bytes >= 32 { bytes.next_multiple_of(32) } else { bytes }) as u64
}

/// Bytes of an image for a workload and its inserts, with some margin.
pub(crate) fn image_bytes(workload: &Workload) -> u64 {
    image_bytes_of(IndexKind::GpHash, workload)
}

/// The same for a table of either index.
pub(crate) fn image_bytes_of(index: IndexKind, workload: &Workload) -> u64 {
    let item = match index {
        IndexKind::GpHash => record_bytes(workload) + 8 * 100 / 85,
        // Buckets of 256 bytes: 8 values, or 13 references to records, of which 86% are in use at first.
        IndexKind::TurboHash if workload.key_bytes == 8 && workload.value_bytes == 8 => 256 / 8 * 100 / 86,
        IndexKind::TurboHash => record_bytes(workload) + 256 / 13 * 100 / 86,
    };
    workload.items * item * 21 / 20 + (64 << 20)
}

/// A store of one table.
pub(crate) struct Warpkeep {
    store: Store,
    name: &'static str,
    workload: Workload,
    key: KeySpec,
    value: ValueSpec,
    promise: Promise,
    durability: Durability,
    settings: String,
}

impl Warpkeep {
    pub(crate) fn open(setup: &Setup<'_>, with_log: bool) -> Result<Warpkeep, BenchError> {
        let (name, directory) = match with_log {
            true => (super::WARPKEEP, "warpkeep"),
            false => (super::WARPKEEP_WITHOUT_LOG, "warpkeep-without-log"),
        };
        Warpkeep::open_as(setup, (name, directory), with_log, IndexKind::GpHash)
    }

    /// With the other index, and a log if the promise needs one.
    pub(crate) fn open_turbohash(setup: &Setup<'_>) -> Result<Warpkeep, BenchError> {
        let with_log = setup.promise != Promise::NoLog;
        Warpkeep::open_as(setup, (super::TURBOHASH, "turbohash"), with_log, IndexKind::TurboHash)
    }

    fn open_as(
        setup: &Setup<'_>,
        (name, directory): (&'static str, &str),
        with_log: bool,
        index: IndexKind,
    ) -> Result<Warpkeep, BenchError> {
        let workload = setup.workload;
        let images = setup.scratch.images().join(directory);
        std::fs::create_dir_all(&images).map_err(BenchError::io("make a directory for an image"))?;
        let options = StoreOptions {
            image: Some(images.join("image")),
            without_log: !with_log,
            device: setup.device,
            create: CreateOptions { len: image_bytes_of(index, &workload), ..CreateOptions::default() },
            ..StoreOptions::default()
        };
        let store = Store::open_with(setup.scratch.disk().join(directory), options)?;
        let key = match workload.key_bytes {
            8 => KeySpec::U64,
            bytes => KeySpec::fixed(bytes as u32).map_err(warpkeep::Error::from)?,
        };
        let value = ValueSpec::fixed(workload.value_bytes as u32).map_err(warpkeep::Error::from)?;
        let options = TableOptions::new(key, value).capacity(workload.items).index(index);
        let (options, form, engine) = match index {
            IndexKind::GpHash => {
                let geometry = setup.geometry;
                let index = IndexOptions::GpHash { geometry, layout: None };
                (options.index(index), format!("geometry {geometry}"), setup.device)
            }
            IndexKind::TurboHash => (options, "index turbohash".to_owned(), DeviceChoice::Cpu),
        };
        store.create_table(TABLE, options)?;
        let promise = if with_log { setup.promise } else { Promise::NoLog };
        let durability = promise.durability();
        let settings = format!(
            "a table of {key} keys and {value} values made for {} items, {form}, run by {engine}, durability {durability:?}, {}; \
             what is mixed goes in one batch, and what is modified is put in a second; with reads apart, all reads go in one batch and all \
             writes in another",
            workload.items,
            if with_log { "its log on the disk" } else { "no log" }
        );
        Ok(Warpkeep { store, name, workload, key, value, promise, durability, settings })
    }
}

impl Contestant for Warpkeep {
    fn name(&self) -> &str {
        self.name
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn ways(&self) -> Vec<Way> {
        let mut single = Way::one_by_one("one by one");
        if self.durability == Durability::Power {
            // A sync each: the clock is cheap beside it.
            single.block = Some(16);
        }
        vec![Way::batches("batches"), single, Way::batches("batches, reads apart")]
    }

    fn does(&self, work: Work, way: usize) -> bool {
        // If all operations are alike, there is nothing to separate.
        way != READS_APART || matches!(work, Work::Mix(_) | Work::PageRank) && !work.only_reads()
    }

    fn on_disk(&self) -> Promise {
        self.promise
    }

    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let table = self.store.table(TABLE)?;
        Ok(match way {
            0 | READS_APART => Box::new(Batches {
                of: self,
                reads_apart: way == READS_APART,
                table,
                keys: Vec::new(),
                values: Vec::new(),
                mixed: Batch::new(self.key, self.value),
                results: Results::default(),
            }),
            _ => Box::new(OneByOne {
                of: self,
                table,
                key: vec![0; self.workload.key_bytes],
                value: vec![0; self.workload.value_bytes],
            }),
        })
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        // Not closed but left, as its files go at once: a close would wait for the log.
        drop(self.store);
        Ok(())
    }
}

struct Batches<'a> {
    of: &'a Warpkeep,
    /// Whether a block's reads are a batch by themselves, before its writes.
    reads_apart: bool,
    table: Table,
    keys: Vec<u8>,
    values: Vec<u8>,
    mixed: Batch,
    results: Results,
}

impl Batches<'_> {
    fn run(&mut self, op: Op, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        let workload = &self.of.workload;
        self.keys.clear();
        self.values.clear();
        for &number in numbers {
            workload.append_key(number, &mut self.keys);
            if op == Op::Put {
                workload.append_value(number, generation, &mut self.values);
            }
        }
        self.run_columns(op)
    }

    /// One operation on the keys that were set, with the values if it takes them.
    fn run_columns(&mut self, op: Op) -> Result<(), BenchError> {
        let Warpkeep { workload, key, value, durability, .. } = self.of;
        let keys = Cells::fixed(workload.key_bytes, &self.keys);
        let columns = match op {
            Op::Put => Columns::with_values(op, keys, Cells::fixed(workload.value_bytes, &self.values)),
            _ => Columns::keys_only(op, keys),
        };
        let view = BatchView::new(*key, *value, columns).map_err(warpkeep::Error::from)?;
        self.results.prepare(&view);
        self.table.run_into(&view, *durability, &mut self.results)?;
        self.check()
    }

    fn check(&self) -> Result<(), BenchError> {
        match self.results.first_error() {
            None => Ok(()),
            Some((_, status)) => {
                Err(BenchError::Invalid(format!("warpkeep answered '{status}'; {}", status.remedy())))
            }
        }
    }

    /// All that is read in one batch, then all that is written in another.
    fn mix_apart(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        let workload = &self.of.workload;
        self.keys.clear();
        for (&number, _) in numbers.iter().zip(actions).filter(|(_, action)| **action != Action::Put) {
            workload.append_key(number, &mut self.keys);
        }
        if !self.keys.is_empty() {
            self.run_columns(Op::Get)?;
        }
        self.keys.clear();
        self.values.clear();
        let mut reads = 0..;
        for (&number, &action) in numbers.iter().zip(actions) {
            if action == Action::Put {
                workload.append_key(number, &mut self.keys);
                workload.append_value(number, generation, &mut self.values);
                continue;
            }
            let value = reads.next().and_then(|index| self.results.value(index));
            tally.see_there(workload, number, value);
            if action == Action::Modify {
                append_modified(workload, number, value, &mut self.keys, &mut self.values);
            }
        }
        if self.keys.is_empty() { Ok(()) } else { self.run_columns(Op::Put) }
    }

    /// Gets and puts in one batch; items to modify are only read.
    fn run_mixed(&mut self, numbers: &[u64], actions: &[Action], generation: u64) -> Result<(), BenchError> {
        let workload = &self.of.workload;
        self.keys.resize(workload.key_bytes, 0);
        self.values.resize(workload.value_bytes, 0);
        self.mixed.clear();
        for (&number, &action) in numbers.iter().zip(actions) {
            workload.write_key(number, &mut self.keys);
            let (op, value) = match action {
                Action::Put => {
                    workload.write_value(number, generation, &mut self.values);
                    (Op::Put, &self.values[..])
                }
                Action::Get | Action::Modify => (Op::Get, &[][..]),
            };
            self.mixed.push(op, &self.keys, value, 0).map_err(warpkeep::Error::from)?;
        }
        let view = self.mixed.view();
        self.results.prepare(&view);
        self.table.run_into(&view, self.of.durability, &mut self.results)?;
        self.check()
    }
}

/// Appends a key and its modified value.
fn append_modified(
    workload: &Workload,
    number: u64,
    value: Option<&[u8]>,
    keys: &mut Vec<u8>,
    values: &mut Vec<u8>,
) {
    let at = values.len();
    // One that is missing was counted as wrong, and ends the run.
    values.extend_from_slice(value.unwrap_or(&[]));
    values.resize(at + workload.value_bytes, 0);
    workload.modify(number, &mut values[at..]);
    workload.append_key(number, keys);
}

impl Session for Batches<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        self.run(Op::Get, numbers, 0)?;
        for (index, &number) in numbers.iter().enumerate() {
            tally.see(&self.of.workload, number, self.results.value(index));
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        self.run(Op::Put, numbers, generation)
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        self.run(Op::Delete, numbers, 0)?;
        self.results.statuses().iter().for_each(|&status| tally.note(status == Status::Ok));
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        if self.reads_apart {
            return self.mix_apart(numbers, actions, generation, tally);
        }
        self.run_mixed(numbers, actions, generation)?;
        let workload = &self.of.workload;
        self.keys.clear();
        self.values.clear();
        for (index, (&number, &action)) in numbers.iter().zip(actions).enumerate() {
            if action == Action::Put {
                continue;
            }
            let value = self.results.value(index);
            tally.see_there(workload, number, value);
            if action == Action::Modify {
                append_modified(workload, number, value, &mut self.keys, &mut self.values);
            }
        }
        if self.keys.is_empty() { Ok(()) } else { self.run_columns(Op::Put) }
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        self.run(Op::Get, &[number], 0)?;
        Ok(self.results.value(0).map(<[u8]>::to_vec))
    }
}

struct OneByOne<'a> {
    of: &'a Warpkeep,
    table: Table,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Session for OneByOne<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            self.of.workload.write_key(number, &mut self.key);
            let value = self.table.get(&self.key[..])?;
            tally.see(&self.of.workload, number, value.as_deref());
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        for &number in numbers {
            self.of.workload.write_key(number, &mut self.key);
            self.of.workload.write_value(number, generation, &mut self.value);
            self.table.put(&self.key[..], &self.value[..], self.of.durability)?;
        }
        Ok(())
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            self.of.workload.write_key(number, &mut self.key);
            tally.note(self.table.delete(&self.key[..], self.of.durability)?);
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
        for (number, &action) in numbers.iter().zip(actions) {
            match action {
                Action::Put => self.put(std::slice::from_ref(number), generation)?,
                Action::Get | Action::Modify => {
                    let workload = &self.of.workload;
                    workload.write_key(*number, &mut self.key);
                    let value = self.table.get(&self.key[..])?;
                    tally.see_there(workload, *number, value.as_deref());
                    if let (Action::Modify, Some(mut value)) = (action, value) {
                        workload.modify(*number, &mut value);
                        self.table.put(&self.key[..], &value[..], self.of.durability)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        self.of.workload.write_key(number, &mut self.key);
        Ok(self.table.get(&self.key[..])?)
    }
}
