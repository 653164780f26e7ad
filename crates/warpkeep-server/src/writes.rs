//! The writes of a batch.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpkeep::{Durability, KeySpec, Status, Table, ValueSpec};
use warpkeep_core::{Answers, BatchView, Cells, Column, Columns, Op, Ops};

use crate::eviction::{Evictor, Need};
use crate::keyspace::Keyspace;
use crate::outcome::Refusal;

/// How long a write waits for room in a cache: an evicted item's space is free when no reader can see it, and a
/// reader may be waiting for this very core.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it waits at a time.
const PAUSE: Duration = Duration::from_micros(100);

/// Changes of different keys, made together.
pub(crate) struct Writes {
    specs: (KeySpec, ValueSpec),
    /// The entry of each change.
    entries: Vec<u32>,
    ops: Vec<Op>,
    keys: Vec<u8>,
    key_offsets: Vec<u64>,
    values: Vec<u8>,
    value_offsets: Vec<u64>,
    answers: Vec<(Status, u64)>,
    /// The log took some of them no more, because its disk is full.
    pub(crate) log_full: bool,
    /// An item with an expiry is stored.
    pub(crate) has_expiring: bool,
}

impl Writes {
    pub(crate) fn new(table: &Table) -> Writes {
        Writes {
            specs: (table.key_spec(), table.value_spec()),
            entries: Vec::new(),
            ops: Vec::new(),
            keys: Vec::new(),
            key_offsets: vec![0],
            values: Vec::new(),
            value_offsets: vec![0],
            answers: Vec::new(),
            log_full: false,
            has_expiring: false,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.has_expiring = false;
        self.entries.clear();
        self.ops.clear();
        self.keys.clear();
        self.key_offsets.truncate(1);
        self.values.clear();
        self.value_offsets.truncate(1);
        if self.values.capacity() > 2 * crate::batch::BUDGET {
            self.values = Vec::new();
        }
    }

    /// Adds a change; the value is given in parts.
    #[inline]
    pub(crate) fn push(&mut self, op: Op, entry: u32, key: &[u8], value: &[&[u8]]) {
        self.entries.push(entry);
        self.ops.push(op);
        self.keys.extend_from_slice(key);
        self.key_offsets.push(self.keys.len() as u64);
        value.iter().for_each(|part| self.values.extend_from_slice(part));
        self.value_offsets.push(self.values.len() as u64);
    }

    /// Makes all changes and reports the result of each.
    pub(crate) fn run(
        &mut self,
        keyspace: &Keyspace<'_>,
        table: &Table,
        mut each: impl FnMut(u32, Status, u64),
    ) {
        self.log_full = false;
        self.answers.clear();
        self.answers.resize(self.ops.len(), (Status::Pending, 0));
        if self.ops.is_empty() {
            return;
        }
        let durability = keyspace.durability;
        self.run_some(table, durability, 0, self.ops.len());
        // With `Power` all are refused if one does not fit; one by one, the others may fit.
        let refused = |&(status, _): &(Status, u64)| status.is_retryable();
        if self.ops.len() > 1 && self.answers.iter().all(refused) {
            for index in 0..self.ops.len() {
                self.run_some(table, durability, index, index + 1);
            }
        }
        if let Some(evictor) = &keyspace.evictor {
            self.make_room(keyspace, evictor, table);
        }
        self.note_expiring(keyspace);
        for (&entry, &(status, version)) in self.entries.iter().zip(&self.answers) {
            each(entry, status, version);
        }
    }

    /// Makes all changes, as one record of the log, or none; gives why not.
    pub(crate) fn run_as_one(&mut self, keyspace: &Keyspace<'_>, table: &Table) -> Option<Refusal> {
        const ATTEMPTS: usize = 8;
        if self.ops.is_empty() {
            return None;
        }
        let durability = keyspace.durability;
        self.log_full = false;
        for attempt in 0..ATTEMPTS {
            self.answers.clear();
            self.answers.resize(self.ops.len(), (Status::Pending, 0));
            self.run_these(0, self.ops.len(), |view, written| table.run_as_one(view, durability, written));
            let refused = self.answers.iter().map(|&(status, _)| status).find(|status| status.is_retryable());
            let (Some(status), Some(evictor)) = (refused, &keyspace.evictor) else { break };
            if attempt + 1 == ATTEMPTS {
                break;
            }
            for index in (0..self.ops.len()).filter(|&index| self.ops[index] == Op::Put) {
                let need = Need { like: self.lengths(index), slot: status == Status::TableFull, attempt };
                evictor.make_room(keyspace, table, need);
            }
        }
        self.note_expiring(keyspace);
        self.answers.iter().find_map(|&(status, _)| Refusal::of(status))
    }

    /// Has expired items looked for again. After the items are stored: a sweep that began before would miss them.
    fn note_expiring(&self, keyspace: &Keyspace<'_>) {
        if self.has_expiring {
            keyspace.expiring.store(true, Ordering::Release);
        }
    }

    /// Evicts other items for those that found no room.
    fn make_room(&mut self, keyspace: &Keyspace<'_>, evictor: &Evictor, table: &Table) {
        for index in 0..self.ops.len() {
            let begun = Instant::now();
            for attempt in 0.. {
                let status = self.answers[index].0;
                if !status.is_retryable() || begun.elapsed() > PATIENCE {
                    break;
                }
                if attempt > 2 {
                    // Readers may still see the evicted items.
                    std::thread::sleep(PAUSE);
                }
                let need = Need { like: self.lengths(index), slot: status == Status::TableFull, attempt };
                evictor.make_room(keyspace, table, need);
                self.answers[index].0 = Status::Pending;
                self.run_some(table, keyspace.durability, index, index + 1);
            }
        }
    }

    /// How long the key and the value of a change are.
    fn lengths(&self, index: usize) -> (usize, usize) {
        let len = |offsets: &[u64]| (offsets[index + 1] - offsets[index]) as usize;
        (len(&self.key_offsets), len(&self.value_offsets))
    }

    /// Why changes were refused: a full disk is neither a lack of memory nor a failure.
    pub(crate) fn explain(&self, keyspace: &Keyspace<'_>, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::NoRoom if keyspace.store.image_full().is_some() => Refusal::DiskFull,
            Refusal::Failed if self.log_full => Refusal::DiskFull,
            other => other,
        }
    }

    fn run_some(&mut self, table: &Table, durability: Durability, from: usize, to: usize) {
        self.run_these(from, to, |view, written| table.run_into(view, durability, written));
    }

    /// Has some changes made, in the way that is given.
    fn run_these(
        &mut self,
        from: usize,
        to: usize,
        run: impl FnOnce(&BatchView<'_>, &mut Written<'_>) -> Result<(), warpkeep::Error>,
    ) {
        let columns = Columns {
            ops: Ops::Each(Column::Host(&self.ops[from..to])),
            keys: Cells::variable(&self.key_offsets[from..=to], &self.keys),
            values: Cells::variable(&self.value_offsets[from..=to], &self.values),
            arguments: None,
        };
        let mut written = Written(&mut self.answers[from..to]);
        let done = BatchView::new(self.specs.0, self.specs.1, columns)
            .map_err(warpkeep::Error::from)
            .and_then(|view| run(&view, &mut written));
        if let Err(error) = done {
            // A full disk is logged once, by the housekeeper.
            match error.is_log_full() {
                true => self.log_full = true,
                false => tracing::error!(%error, "changes were not made"),
            }
            for (status, _) in written.0.iter_mut().filter(|(status, _)| status.is_pending()) {
                *status = Status::Indeterminate;
            }
        }
    }
}

/// The sink for the results of changes.
struct Written<'a>(&'a mut [(Status, u64)]);

impl Answers for Written<'_> {
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        self.0[index] = (status, version);
    }

    fn answer_value(&mut self, index: usize, status: Status, version: u64, _: &[u8]) -> Status {
        self.answer(index, status, version);
        status
    }
}
