//! Ourselves.

use warpkeep::{
    Durability, KeySpec, Op, Results, Status, Store, StoreOptions, Table, TableOptions, ValueSpec,
};
use warpkeep_core::{BatchView, Cells, Columns};
use warpkeep_image::CreateOptions;

use super::Setup;
use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::Workload;

const TABLE: &str = "rows";

/// Bytes that a record takes: value, key and version, at a multiple of 32 if the value is that long.
pub(crate) fn record_bytes(workload: &Workload) -> u64 {
    let bytes = workload.value_bytes.next_multiple_of(8) + workload.key_bytes.next_multiple_of(8) + 8;
    (if workload.value_bytes >= 32 { bytes.next_multiple_of(32) } else { bytes }) as u64
}

/// Bytes of an image for a workload and what it inserts, with some room.
pub(crate) fn image_bytes(workload: &Workload) -> u64 {
    let item = record_bytes(workload) + 8 * 100 / 85;
    workload.items * item * 21 / 20 + (64 << 20)
}

/// A store of one table.
pub(crate) struct Warpkeep {
    store: Store,
    name: &'static str,
    workload: Workload,
    key: KeySpec,
    value: ValueSpec,
    durability: Durability,
    batch: usize,
    settings: String,
}

impl Warpkeep {
    pub(crate) fn open(setup: &Setup<'_>, with_log: bool) -> Result<Warpkeep, BenchError> {
        let (name, directory) = match with_log {
            true => (super::WARPKEEP, "warpkeep"),
            false => (super::WARPKEEP_WITHOUT_LOG, "warpkeep-without-log"),
        };
        let workload = setup.workload;
        let images = setup.scratch.images().join(directory);
        std::fs::create_dir_all(&images).map_err(BenchError::io("make a directory for an image"))?;
        let options = StoreOptions {
            image: Some(images.join("image")),
            without_log: !with_log,
            create: CreateOptions { len: image_bytes(&workload), ..CreateOptions::default() },
            ..StoreOptions::default()
        };
        let store = Store::open_with(setup.scratch.disk().join(directory), options)?;
        let key = match workload.key_bytes {
            8 => KeySpec::U64,
            bytes => KeySpec::fixed(bytes as u32).map_err(warpkeep::Error::from)?,
        };
        let value = ValueSpec::fixed(workload.value_bytes as u32).map_err(warpkeep::Error::from)?;
        let options = TableOptions::new(key, value).capacity(workload.items);
        store.create_table(TABLE, options)?;
        let durability = if with_log { setup.durability } else { Durability::Process };
        let settings = format!(
            "a table of {key} keys and {value} values made for {} items, geometry {}, durability {durability:?}, {}; \
             batches of {}",
            workload.items,
            options.geometry,
            if with_log { "its log on the disk" } else { "no log" },
            setup.batch
        );
        Ok(Warpkeep { store, name, workload, key, value, durability, batch: setup.batch, settings })
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
            single.block = 16;
        }
        vec![Way::batches("batches", self.batch), single]
    }

    fn session<'a>(&'a self, way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let table = self.store.table(TABLE)?;
        Ok(match way {
            0 => Box::new(Batches {
                of: self,
                table,
                keys: Vec::new(),
                values: Vec::new(),
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
    table: Table<'a>,
    keys: Vec<u8>,
    values: Vec<u8>,
    results: Results,
}

impl Batches<'_> {
    fn run(&mut self, op: Op, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        let Warpkeep { workload, key, value, durability, .. } = self.of;
        self.keys.clear();
        self.values.clear();
        for &number in numbers {
            workload.append_key(number, &mut self.keys);
            if op == Op::Put {
                workload.append_value(number, generation, &mut self.values);
            }
        }
        let keys = Cells::fixed(workload.key_bytes, &self.keys);
        let columns = match op {
            Op::Put => Columns::with_values(op, keys, Cells::fixed(workload.value_bytes, &self.values)),
            _ => Columns::keys_only(op, keys),
        };
        let view = BatchView::new(*key, *value, columns).map_err(warpkeep::Error::from)?;
        self.results.prepare(&view);
        self.table.run_into(&view, *durability, &mut self.results)?;
        match self.results.first_error() {
            None => Ok(()),
            Some((_, status)) => {
                Err(BenchError::Invalid(format!("warpkeep answered '{status}'; {}", status.remedy())))
            }
        }
    }
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

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        self.run(Op::Get, &[number], 0)?;
        Ok(self.results.value(0).map(<[u8]>::to_vec))
    }
}

struct OneByOne<'a> {
    of: &'a Warpkeep,
    table: Table<'a>,
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

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        self.of.workload.write_key(number, &mut self.key);
        Ok(self.table.get(&self.key[..])?)
    }
}
