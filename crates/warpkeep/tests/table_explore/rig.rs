//! A store over recorded memory and a recorded disk, and a script that is done to it.

use std::fmt;

use warpkeep::engine::LogPlace;
use warpkeep::{CheckpointOptions, KeySpec, MergeRule, Op, Store, Table, TableOptions, ValueSpec};
use warpkeep_crashlab::{LabDisk, Recorder, Reopen, Trace};
use warpkeep_image::HeapOptions;
use warpkeep_log::LogOptions;

use crate::form::Form;
use crate::lab_place::LabPlace;
use crate::script::{COMING_AND_GOING, COMMITTING, DECLINING, Do, GROWING, MOVING, Name, Step};
use crate::state::{stamp, value};

/// The initial number of chunks of the image, and the largest.
const CHUNKS: u64 = 10;
const MAX_CHUNKS: u64 = 20;

/// Attempts to let an epoch pass that are enough for all that wait for one.
const EPOCHS: usize = 16;

/// The script, the kind of tables, and the kind of memory.
pub(crate) struct Rig {
    name: &'static str,
    pub(crate) script: &'static [Step],
    /// How many of the steps are preparation: if any, there is no crash before they are done.
    scene: usize,
    pub(crate) form: Form,
    /// Whether memory outlives the machine.
    pub(crate) persistent: bool,
    /// In how many ways a recovery is crashed.
    pub(crate) per_recovery: usize,
}

impl Rig {
    pub(crate) fn all() -> Vec<Rig> {
        // The short ones begin late, so that their recoveries can be crashed in many ways.
        let scripts = [
            ("coming and going", COMING_AND_GOING, 0, 4),
            ("growing", GROWING, 0, 4),
            ("committing", COMMITTING, 1, 64),
            ("declining", DECLINING, 2, 4),
            ("moving", MOVING, 4, 64),
        ];
        let mut rigs = Vec::new();
        for form in Form::ALL {
            for (name, script, scene, per_recovery) in scripts {
                let rig = |persistent| Rig { name, script, scene, form, persistent, per_recovery };
                rigs.extend([false, true].map(rig));
            }
        }
        rigs
    }

    fn open(&self, place: &LabPlace, disk: &LabDisk) -> warpkeep::Result<Store<Recorder>> {
        let log = LogOptions {
            segment_bytes: 16 << 10,
            background: false,
            fill_ahead_bytes: 0,
            ..LogOptions::default()
        };
        Store::open_in(place, Some(LogPlace::new(disk.clone(), log)), HeapOptions::default())
    }

    /// Does the script, and marks each step that was acknowledged.
    pub(crate) fn record(&self, trace: &Trace) {
        let place = LabPlace::new(trace, CHUNKS, MAX_CHUNKS, self.persistent);
        let disk = LabDisk::new(trace);
        if self.scene > 0 {
            trace.pause();
        }
        let mut store = self.open(&place, &disk).expect("a new store");
        for (number, &step) in self.script.iter().enumerate() {
            if let Step::Reopen = step {
                store.close().expect("closed");
                let (memory, persistent) = (place.memory.clone(), self.persistent);
                let place = LabPlace { trace: trace.clone(), memory, present: true, persistent };
                store = self.open(&place, &disk).expect("it was closed");
            } else {
                self.take(trace, &store, step, number as u64).expect("there is room");
            }
            trace.ack(number as u64);
            if number + 1 == self.scene {
                trace.resume();
            }
        }
    }

    /// Opens the state after a crash, as a thread of its own.
    pub(crate) fn recover(&self, reopen: &Reopen<'_>) -> warpkeep::Result<Store<Recorder>> {
        let place = LabPlace::reopened(reopen, CHUNKS, MAX_CHUNKS, self.persistent);
        reopen.trace().as_thread(3, || self.open(&place, &reopen.disk()))
    }

    /// Takes a step; gives the smallest version that it drew, if it drew any.
    pub(crate) fn take(
        &self,
        trace: &Trace,
        store: &Store<Recorder>,
        step: Step,
        number: u64,
    ) -> warpkeep::Result<Option<u64>> {
        // A fence covers only the flushes of its own thread, and maintenance has one of its own.
        let thread = if let Step::Maintain = step { 2 } else { number as u32 % 2 };
        trace.as_thread(thread, || match step {
            Step::Create(name) => store.create_table(name.text(), self.options(name)).map(|_| None),
            Step::Drop(name) => store.drop_table(name.text()).map(|()| None),
            Step::Batch(_, name, _) if !store.tables().contains(&name.text().to_owned()) => Ok(None),
            Step::Batch(durability, name, batch) => {
                let table = store.table(name.text())?;
                let mut calls = table.batch();
                for (place, &one) in batch.iter().enumerate() {
                    let key = self.key(name, one.key());
                    let (op, argument) = call(&table, &key, one, stamp(number, place))?;
                    calls.push(op, &key, &value(name, stamp(number, place)), argument)?;
                }
                let results = table.run(&calls, durability)?;
                if let Some((at, status)) = results.first_error() {
                    return Err(warpkeep::Error::Invalid(format!("{:?} was answered: {status}", batch[at])));
                }
                let written = results.iter().zip(batch).filter(|(outcome, one)| {
                    outcome.status.is_ok() && !matches!(one, Do::Delete(_) | Do::Get(_))
                });
                Ok(written.map(|(outcome, _)| outcome.version).min())
            }
            Step::Maintain => {
                // Not before all readers of the old levels have left.
                for _ in 0..EPOCHS {
                    store.maintain(0, &CheckpointOptions::OFF)?;
                }
                store.maintain(1, &CheckpointOptions::OFF).map(|_| None)
            }
            Step::Checkpoint => store.checkpoint().map(|()| None),
            Step::Flush => store.flush().map(|()| None),
            Step::Reopen => unreachable!("done by the owner of the store"),
        })
    }

    /// A key of a table.
    pub(crate) fn key(&self, name: Name, number: u64) -> Vec<u8> {
        match (name, self.form) {
            (Name::Numbers | Name::After, _) => number.to_le_bytes().to_vec(),
            (Name::Words, Form::Packed | Form::TurboHash) => {
                format!("key {number:0width$}", width = 4 * (number as usize % 5)).into_bytes()
            }
            (Name::Words, Form::InPlace) => format!("key {number:08}").into_bytes(),
        }
    }

    fn options(&self, name: Name) -> TableOptions {
        let options = match name {
            Name::Numbers | Name::After => {
                TableOptions::new(KeySpec::U64, ValueSpec::U64).merge(MergeRule::AddU64)
            }
            Name::Words => {
                // Keys that lie in their slots have one length.
                let key = match self.form {
                    Form::Packed | Form::TurboHash => KeySpec::variable(40),
                    Form::InPlace => KeySpec::fixed(12),
                };
                let values = ValueSpec::variable(400).expect("a length");
                TableOptions::new(key.expect("a length"), values).merge(MergeRule::Append)
            }
        };
        self.form.tiny(options)
    }
}

impl fmt::Display for Rig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.persistent { "memory persistent" } else { "memory lost with the power" };
        write!(f, "{}, {}, {memory}", self.name, self.form)
    }
}

impl Name {
    pub(crate) const ALL: [Name; 3] = [Name::Numbers, Name::Words, Name::After];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Name::Numbers => "numbers",
            Name::Words => "words",
            Name::After => "after",
        }
    }
}

/// The operation and its argument.
fn call(table: &Table<Recorder>, key: &[u8], one: Do, stamp: u64) -> warpkeep::Result<(Op, u64)> {
    Ok(match one {
        Do::Put(_) => (Op::Put, 0),
        Do::Insert(_) => (Op::Insert, 0),
        Do::Update(_) => (Op::Update, 0),
        Do::Delete(_) => (Op::Delete, 0),
        Do::Add(_) => (Op::FetchAdd, stamp),
        Do::Merge(_) => (Op::Merge, 0),
        Do::Get(_) => (Op::Get, 0),
        Do::Stale(_) => (Op::CompareAndSwap, u64::MAX),
        Do::Swap(_) => {
            let mut get = table.batch();
            get.get(key)?;
            let now = table.run(&get, warpkeep::Durability::Process)?.versions()[0];
            (Op::CompareAndSwap, now)
        }
    })
}
