//! The use of a damaged store, and the acceptable outcomes.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use warpkeep::{Device, Durability, Error, Op, Status, Store, StoreOptions, Table, verify};

use crate::patient::{Model, Patient, TABLE};

/// The outcome of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An error, or a report of damage.
    Refused,
    /// All is as it was.
    Harmless,
    /// Something changed silently: bytes without a checksum.
    Unnoticed,
}

/// Where the tables of a store run.
pub(crate) enum Worker {
    Cpu,
    Device(Device),
}

impl Worker {
    fn open(&self, patient: &Patient, options: &StoreOptions) -> Result<Store, Error> {
        match self {
            Worker::Cpu => Store::open_with(patient.path(), options.clone()),
            Worker::Device(device) => Store::open_on(patient.path(), options.clone(), device),
        }
    }
}

impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Worker::Cpu => "the CPU",
            Worker::Device(_) => "a device",
        })
    }
}

/// Does everything that can be done with a store.
pub(crate) fn work(patient: &Patient, options: &StoreOptions, worker: &Worker, what: &str) -> Outcome {
    let done = catch_unwind(AssertUnwindSafe(|| {
        let sound = verify(patient.path(), options).is_ok_and(|report| report.sound);
        let used = worker.open(patient, options).and_then(|store| {
            let used = use_it(patient, &store, what);
            store.close()?;
            let right = used?;
            // Later writes are there, or an error gives the reason.
            reopen(patient, options, what)?;
            Ok(right)
        });
        match used {
            Ok(true) if sound => Outcome::Harmless,
            Ok(false) if sound => {
                // Image and log were closed together, so that a check against the log finds every difference.
                assert!(
                    options.without_log,
                    "{what}: a check called it good, and it is not what was written"
                );
                Outcome::Unnoticed
            }
            _ => Outcome::Refused,
        }
    }));
    // The watch has noted it, and fails the test.
    done.unwrap_or(Outcome::Refused)
}

/// Reads everything, writes to every part of the table, makes it grow, and takes a checkpoint; returns whether
/// everything read was written before.
fn use_it(patient: &Patient, store: &Store, what: &str) -> Result<bool, Error> {
    let table = store.table(TABLE)?;
    let kind = patient.kind;
    let given = scan(&table)?;
    if kind.has_checksums() {
        // A bit that decides which slots count can bring back an old value.
        let wrong = given.iter().find(|(key, value)| !patient.was_written(key, value));
        assert!(wrong.is_none(), "{what}: a scan gave out {wrong:?}");
    }
    let mut right = given == patient.model;
    let mut gets = table.batch();
    for key in patient.model.keys() {
        gets.push(Op::Get, key, &[], 0)?;
    }
    let found = table.run(&gets, Durability::Process)?;
    let check_get = |key: &[u8], given: Option<&[u8]>| {
        let good = !kind.checks_gets() || given.is_none_or(|given| patient.was_written(key, given));
        assert!(good, "{what}: a checked get of {key:?} gave {given:?}");
        given == patient.model.get(key).map(Vec::as_slice)
    };
    for (index, key) in patient.model.keys().enumerate() {
        right &= check_get(key, found.value(index));
    }
    for key in patient.model.keys().step_by(5) {
        match table.get(key) {
            Ok(given) => right &= check_get(key, given.as_deref()),
            Err(Error::Refused { status: Status::Corrupt, .. }) if kind.checks_gets() => right = false,
            Err(error) => return Err(error),
        }
    }
    let mut writes = table.batch();
    for number in (0..40).chain(200..260) {
        writes.push(Op::Put, &kind.key(number), &kind.value(number, 2), 0)?;
    }
    for number in 30..50 {
        writes.push(Op::Delete, &kind.key(number), &[], 0)?;
    }
    // Writes to damaged parts may be refused.
    drop(table.run(&writes, Durability::Process)?);
    table.put(&kind.key(60), &kind.value(60, 3), Durability::Process)?;
    table.grow()?;
    while table.maintain()? {}
    scan(&table)?;
    match store.checkpoint() {
        Ok(()) | Err(Error::NoLog) => Ok(right),
        Err(error) => Err(error),
    }
}

fn reopen(patient: &Patient, options: &StoreOptions, what: &str) -> Result<(), Error> {
    let store = Store::open_with(patient.path(), options.clone())?;
    let table = store.table(TABLE)?;
    for number in 200..260 {
        let (key, value) = (patient.kind.key(number), patient.kind.value(number, 2));
        assert_eq!(table.get(&key)?, Some(value), "{what}: written after the damage");
    }
    drop(table);
    store.close()
}

fn scan(table: &Table) -> Result<Model, Error> {
    let mut found = Model::new();
    table.scan(|item| {
        found.insert(item.key.to_vec(), item.value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
