//! The log alone: append, roll, checkpoint, trim, reopen, and its state after a power cut.
//!
//! Every record puts its own number under one key, so the newest number found gives the length of the surviving prefix, and
//! every record found must be in its place.

use std::io;
use std::sync::Arc;

use crate::Dropped;

use warpkeep::Durability;
use warpkeep::engine::{Change, ChangeKind, Lsn};
use warpkeep_crashlab::{
    Crash, Exploration, Explorer, Gate, LabDisk, Reopen, Trace, explores_fully, mutation_gate_of,
};
use warpkeep_log::{ChangeBatch, Disk, DiskFile, Log, LogError, LogOptions, Recovery};

const STORE: [u8; 16] = [9; 16];
/// Marks: the log exists; record `n` was appended (before it could be durable): `n`; everything up to record `n` is
/// durable: `DURABLE + n`; checkpointed up to record `n`.
const CREATED: u64 = 1 << 40;
const DURABLE: u64 = 1 << 20;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, background: false, fill_ahead_bytes: 0, ..LogOptions::default() }
}

fn append(log: &Log, number: u64, durability: Durability, bytes: usize) -> Result<Lsn, LogError> {
    let mut batch = ChangeBatch::new();
    let value = vec![number as u8; bytes];
    let key = number.to_le_bytes();
    batch.push(&Change { table: 1, kind: ChangeKind::Put, version: number, key: &key, value: &value })?;
    log.append(&batch, durability, |_| ())
}

fn commit(log: &Log, ack: &dyn Fn(u64), number: u64, bytes: usize) -> Result<(), LogError> {
    ack(number);
    let lsn = append(log, number, Durability::Power, bytes)?;
    log.wait_durable(lsn)?;
    ack(DURABLE + number);
    Ok(())
}

fn checkpoint(log: &Log, numbers: std::ops::RangeInclusive<u64>) -> Result<(), LogError> {
    log.checkpoint(|writer| {
        for number in numbers {
            let (key, value) = (number.to_le_bytes(), [number as u8; 3]);
            writer.push(&Change {
                table: 1,
                kind: ChangeKind::Put,
                version: number,
                key: &key,
                value: &value,
            })?;
        }
        Ok::<(), LogError>(())
    })
    .map(|_| ())
}

fn scenario(trace: &Trace) {
    let disk = Arc::new(LabDisk::new(trace));
    let ack = |tag| trace.ack(tag);
    let log = Log::create(Arc::clone(&disk) as Arc<dyn Disk>, STORE, 1, options()).unwrap();
    trace.ack(CREATED);
    commit(&log, &ack, 1, 10).unwrap();
    // A frame of several records, of which one is large, and one that needs a segment of its own.
    ack(2);
    append(&log, 2, Durability::Process, 700).unwrap();
    commit(&log, &ack, 3, 5000).unwrap();
    commit(&log, &ack, 4, 9000).unwrap();
    checkpoint(&log, 1..=4).unwrap();
    commit(&log, &ack, 5, 100).unwrap();
    commit(&log, &ack, 6, 20_000).unwrap();
    checkpoint(&log, 1..=6).unwrap();
    ack(7);
    append(&log, 7, Durability::Process, 100).unwrap();
    log.close().unwrap();
    ack(DURABLE + 7);
    let recovery = Recovery::open(disk, options()).unwrap();
    let log = recovery.start(2, false).unwrap();
    commit(&log, &ack, 8, 100).unwrap();
    // Left without closing it.
    ack(9);
    append(&log, 9, Durability::Process, 600).unwrap();
}

/// A disk that has lost a file. It is only read.
struct Without {
    disk: Arc<dyn Disk>,
    name: &'static str,
}

impl Disk for Without {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        match name == self.name {
            true => Err(io::ErrorKind::NotFound.into()),
            false => self.disk.open(name),
        }
    }

    fn create(&self, _name: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk.list()?.into_iter().filter(|name| name != self.name).collect())
    }

    fn sync_dir(&self, _site: &'static str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Reads the log and returns the number of records. They must be a prefix of the appended ones, with all durable
/// ones.
fn read(recovery: &Recovery, durable: u64, appended: u64) -> Result<u64, String> {
    let mut found = std::collections::BTreeSet::new();
    let mut last = 0;
    let mut collect = |change: &Change<'_>, from_log: bool| {
        let number = u64::from_le_bytes(change.key.try_into().map_err(|_| "a foreign key".to_string())?);
        if change.version != number || change.value.iter().any(|&byte| byte != number as u8) {
            return Err(format!("record {number} is not what was logged"));
        }
        if from_log && number <= last {
            return Err(format!("record {number} comes after {last}"));
        }
        last = if from_log { number } else { last };
        found.insert(number);
        Ok(())
    };
    recovery
        .load_checkpoint(|change| collect(&change, false).map_err(Problem::Wrong))
        .map_err(Problem::text)?;
    recovery
        .redo(|record| record.changes().try_for_each(|change| collect(&change, true).map_err(Problem::Wrong)))
        .map_err(Problem::text)?;
    let prefix = found.last().copied().unwrap_or(0);
    if found.len() as u64 != prefix {
        return Err(format!("{found:?} is not a prefix"));
    }
    // Records in the buffer of a dead process are gone, so this is the same for every crash.
    if prefix < durable || prefix > appended {
        return Err(format!("{prefix} records are there; {durable} were durable, {appended} appended"));
    }
    Ok(prefix)
}

fn check((): &(), reopen: &Reopen<'_>) -> Result<(), String> {
    let acked = reopen.acked();
    let appended = acked.iter().filter(|&&tag| tag < DURABLE).max().copied().unwrap_or(0);
    let durable =
        acked.iter().filter(|&&tag| (DURABLE..CREATED).contains(&tag)).max().map_or(0, |tag| tag - DURABLE);
    let disk: Arc<dyn Disk> = Arc::new(reopen.disk());
    let say = |error: LogError| error.to_string();
    if !Log::exists(&*disk).map_err(say)? {
        return if acked.contains(&CREATED) { Err("the log is gone".into()) } else { Ok(()) };
    }
    // One copy of the manifest may be lost besides.
    for copy in ["MANIFEST", "MANIFEST.2"] {
        let without: Arc<dyn Disk> = Arc::new(Without { disk: Arc::clone(&disk), name: copy });
        match Log::exists(&*without).map_err(say)? {
            true => {
                let recovery = Recovery::open(without, options()).map_err(say)?;
                read(&recovery, durable, appended).map_err(|what| format!("without {copy}: {what}"))?;
            }
            false if acked.contains(&CREATED) => return Err(format!("there was only {copy}")),
            false => {}
        }
    }
    let recovery = Recovery::open(Arc::clone(&disk), options()).map_err(say)?;
    let prefix = read(&recovery, durable, appended)?;
    // Recovery continues, twice: opening again right after an opening must change nothing.
    let epoch = recovery.epoch() + 1;
    let log = recovery.start(epoch, false).map_err(say)?;
    reopen.ack(DURABLE + prefix);
    let ack = |tag| reopen.ack(tag);
    // Numbers of lost records are not used again, so a record is named by its acknowledgement.
    commit(&log, &ack, prefix + 1, 50).map_err(say)?;
    checkpoint(&log, 1..=prefix + 1).map_err(say)?;
    commit(&log, &ack, prefix + 2, 50).map_err(say)
}

enum Problem {
    Log(LogError),
    Wrong(String),
}

impl Problem {
    fn text(self) -> String {
        match self {
            Problem::Log(error) => error.to_string(),
            Problem::Wrong(text) => text,
        }
    }
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Problem {
        Problem::Log(error)
    }
}

fn explorer() -> Explorer {
    let (per_boundary, per_recovery) = if explores_fully() { (700, 60) } else { (160, 24) };
    Explorer::new([Crash::Process, Crash::PowerVolatile])
        .per_boundary(per_boundary)
        .per_recovery(per_recovery)
}

pub(crate) fn explore() -> Exploration {
    let trace = Trace::new();
    scenario(&trace);
    explorer().explore(&trace, |reopen| check(&(), reopen))
}

pub(crate) fn gate(drop: &Dropped) -> Gate {
    mutation_gate_of(&drop.sampled(explorer().per_boundary(100)), |site| drop.has(site), scenario, check)
}
