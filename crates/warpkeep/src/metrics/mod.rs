//! The metrics of a running store, through the [`metrics`] facade.
//!
//! Operations are counted in the store's own memory, one cache line a thread, and the maintenance thread passes
//! them to the recorder, so that counting costs the same with and without one. Install the recorder before the
//! store is opened.
//!
//! | name | kind | labels |
//! | --- | --- | --- |
//! | `warpkeep_operations_total` | counter | `table`, `op`, `status` (a class: done, declined, refused, exhausted, failed) |
//! | `warpkeep_batch_operations` | histogram | `table`, `kind` (read, process, power) |
//! | `warpkeep_batch_seconds` | histogram | `table`, `kind` |
//! | `warpkeep_get_batches_total` | counter | `table`, `strategy` (cpu, gather, split): batches of gets from host memory, of tables on a device |
//! | `warpkeep_items` | gauge | `table` |
//! | `warpkeep_load_factor` | gauge | `table` |
//! | `warpkeep_growths_total` | counter | `table` |
//! | `warpkeep_device_bytes` | gauge | `table`, `part` (index, values): device memory |
//! | `warpkeep_device_cached` | gauge | `table`, `part` (values): how many of them are there |
//! | `warpkeep_device_hit_share` | gauge | `table`, `part` (values) |
//! | `warpkeep_checkpoints_total` | counter | |
//! | `warpkeep_checkpoint_seconds` | histogram | |
//! | `warpkeep_checkpoint_bytes` | gauge | |
//! | `warpkeep_checkpoint_failures_total` | counter | |
//! | `warpkeep_checkpoint_owed` | gauge | : 1 while `Power` batches wait for the first checkpoint after a process was killed |
//! | `warpkeep_checkpoint_items` | gauge | : about how many items the checkpoint in progress has to write; 0 if there is none |
//! | `warpkeep_checkpoint_items_written` | gauge | : how many of them it has written |
//! | `warpkeep_log_bytes` | gauge | : bytes logged since the last checkpoint began |
//! | `warpkeep_log_full` | gauge | : 1 while there is no space for a further segment, so that writes are refused |
//! | `warpkeep_log_reserve_bytes` | gauge | : space set aside for a checkpoint and an opening |
//! | `warpkeep_open_seconds` | gauge | `origin` |
//!
//! Of batches with few operations one in sixteen is timed: reading the clock for each would cost too much.

mod seat;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Histogram, Unit, counter, gauge, histogram};
use warpkeep_core::{AnswerRows, Answers, Durability, HostBatch, Op, Status, StatusClass};
use warpkeep_log::{CheckpointInfo, Log};

use crate::index::{Figures, Size};
use crate::{DeviceStats, OpenReport, Origin};

const OPS: usize = Op::ALL.len();
/// Pending is no answer, and is not counted.
const CLASSES: [(StatusClass, &str); 5] = [
    (StatusClass::Done, "done"),
    (StatusClass::Declined, "declined"),
    (StatusClass::Refused, "refused"),
    (StatusClass::Exhausted, "exhausted"),
    (StatusClass::Failed, "failed"),
];
/// Batches with fewer operations are timed now and then only.
const SMALL: usize = 16;
const SAMPLE: u32 = 16;

/// Counts of operations, by operation and class.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    counts: Counts<u64>,
    /// Which operations were met, a bit each.
    met: u8,
}

type Counts<T> = [[T; CLASSES.len()]; OPS];

/// Where an answer is counted.
#[inline]
fn place(op: Op, status: Status) -> Option<(usize, usize)> {
    let class = (status.class() as usize).checked_sub(1)?;
    Some((usize::from(op.code()) - 1, class))
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, op: Op, status: Status) {
        self.add_many(op, status, 1);
    }

    #[inline]
    fn add_many(&mut self, op: Op, status: Status, found: u64) {
        if let Some((row, column)) = place(op, status) {
            self.counts[row][column] += found;
            self.met |= 1 << row;
        }
    }

    fn sum(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// The tally of answers to a batch.
    pub(crate) fn of(batch: &HostBatch<'_>, statuses: &[Status]) -> Tally {
        let mut tally = Tally::default();
        if let Some(op) = batch.uniform_op() {
            // There are many, and nearly all are one of these.
            for usual in [Status::Ok, Status::Created, Status::NotFound, Status::AlreadyExists] {
                tally.add_many(op, usual, count(statuses, usual));
                if tally.sum() == statuses.len() as u64 {
                    return tally;
                }
            }
            tally = Tally::default();
        }
        for (index, &status) in statuses.iter().enumerate() {
            tally.add(batch.op(index), status);
        }
        tally
    }
}

/// Counts the statuses of one kind: in bytes, a few at a time, which is twenty times as fast as in words.
fn count(statuses: &[Status], wanted: Status) -> u64 {
    let some = |some: &[Status]| some.iter().map(|&status| u8::from(status == wanted)).sum::<u8>();
    statuses.chunks(128).map(|statuses| u64::from(some(statuses))).sum()
}

/// Passes answers on, and counts them.
pub(crate) struct Counted<'a> {
    answers: &'a mut dyn Answers,
    batch: HostBatch<'a>,
    tally: Tally,
    /// Whether the arrays were handed out: then they hold the answers.
    by_rows: bool,
    /// The totals of the arrays, if reported: gets that found a key, and gets that did not.
    told: Option<(u64, u64)>,
}

impl<'a> Counted<'a> {
    pub(crate) fn new(answers: &'a mut dyn Answers, batch: HostBatch<'a>) -> Counted<'a> {
        Counted { answers, batch, tally: Tally::default(), by_rows: false, told: None }
    }

    /// The counts.
    pub(crate) fn tally(&mut self) -> Tally {
        if let Some((found, absent)) =
            self.told.filter(|(found, absent)| found + absent == self.batch.len() as u64)
        {
            let mut tally = Tally::default();
            tally.add_many(Op::Get, Status::Ok, found);
            tally.add_many(Op::Get, Status::NotFound, absent);
            return tally;
        }
        match self.answers.rows_mut().filter(|_| self.by_rows) {
            Some(rows) => Tally::of(&self.batch, rows.statuses()),
            None => self.tally,
        }
    }
}

impl Answers for Counted<'_> {
    #[inline]
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        self.tally.add(self.batch.op(index), status);
        self.answers.answer(index, status, version);
    }

    #[inline]
    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        let noted = self.answers.answer_value(index, status, version, value);
        self.tally.add(self.batch.op(index), noted);
        noted
    }

    fn rows_mut(&mut self) -> Option<AnswerRows<'_>> {
        let rows = self.answers.rows_mut()?;
        self.by_rows = true;
        // Earlier totals are invalid, because the arrays may change now.
        self.told = None;
        Some(rows)
    }

    fn tell_gets(&mut self, found: u64, absent: u64) {
        self.told = Some((found, absent));
    }
}

/// The kind of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Process,
    Power,
}

impl Kind {
    const NAMES: [&str; 3] = ["read", "process", "power"];

    pub(crate) fn of(batch: &HostBatch<'_>, durability: Durability) -> Kind {
        match (batch.writes(), durability) {
            (false, _) => Kind::Read,
            (true, Durability::Process) => Kind::Process,
            (true, Durability::Power) => Kind::Power,
        }
    }
}

/// The counts of one thread; the last is shared by threads without a slot.
#[derive(Default)]
#[repr(align(128))]
struct Sheet(Counts<AtomicU64>);

/// The counters of a table.
pub(crate) struct TableMetrics {
    name: String,
    sheets: Box<[Sheet]>,
    handed_on: Mutex<HandedOn>,
    sizes: [OnceLock<Histogram>; 3],
    seconds: [OnceLock<Histogram>; 3],
}

/// The counts already passed to the recorder.
#[derive(Default)]
struct HandedOn {
    operations: Counts<u64>,
    size: Size,
}

impl TableMetrics {
    pub(crate) fn new(name: &str, figures: &Figures) -> TableMetrics {
        let handed_on = HandedOn { size: figures.size, ..HandedOn::default() };
        TableMetrics {
            name: name.to_owned(),
            sheets: (0..=seat::SEATS).map(|_| Sheet::default()).collect(),
            handed_on: Mutex::new(handed_on),
            sizes: Default::default(),
            seconds: Default::default(),
        }
    }

    /// Takes note of one operation.
    #[inline]
    pub(crate) fn one(&self, op: Op, status: Status) {
        if let Some((row, column)) = place(op, status) {
            self.count(seat::mine(), row, column, 1);
        }
    }

    /// Takes note of the answers to a batch.
    pub(crate) fn batch(&self, batch: &HostBatch<'_>, statuses: &[Status]) {
        match statuses {
            [status] => self.one(batch.op(0), *status),
            statuses => self.add(&Tally::of(batch, statuses)),
        }
    }

    /// Takes note of many.
    pub(crate) fn add(&self, tally: &Tally) {
        let seat = seat::mine();
        for row in (0..OPS).filter(|row| tally.met & (1 << row) != 0) {
            for (column, &found) in tally.counts[row].iter().enumerate().filter(|(_, found)| **found > 0) {
                self.count(seat, row, column, found);
            }
        }
    }

    #[inline]
    fn count(&self, seat: Option<usize>, row: usize, column: usize, found: u64) {
        match seat {
            Some(seat) => {
                // No other thread writes here, so no lock is needed.
                let count = &self.sheets[seat].0[row][column];
                count.store(count.load(Ordering::Relaxed) + found, Ordering::Relaxed);
            }
            None => {
                self.sheets[seat::SEATS].0[row][column].fetch_add(found, Ordering::Relaxed);
            }
        }
    }

    /// The time, if the batch that is about to begin is to be timed.
    #[inline]
    pub(crate) fn begin(&self, operations: usize) -> Option<Instant> {
        thread_local! {
            static SEEN: Cell<u32> = const { Cell::new(0) };
        }
        let turn = || SEEN.with(|seen| seen.replace(seen.get().wrapping_add(1)) % SAMPLE == 0);
        (operations >= SMALL || turn()).then(Instant::now)
    }

    /// Takes note of a batch that is done.
    pub(crate) fn end(&self, begun: Option<Instant>, kind: Kind, operations: usize) {
        let Some(begun) = begun else { return };
        let handle = |handles: &[OnceLock<Histogram>; 3], name: &'static str| {
            let label = Kind::NAMES[kind as usize];
            let new = || histogram!(name, "table" => self.name.clone(), "kind" => label);
            handles[kind as usize].get_or_init(new).clone()
        };
        handle(&self.seconds, "warpkeep_batch_seconds").record(begun.elapsed());
        handle(&self.sizes, "warpkeep_batch_operations").record(operations as f64);
    }

    /// Passes the changes since the last call to the recorder.
    pub(crate) fn publish(&self, figures: &Figures) {
        let mut known = self.handed_on.lock().unwrap_or_else(PoisonError::into_inner);
        for (row, op) in Op::ALL.into_iter().enumerate() {
            for (column, (_, class)) in CLASSES.into_iter().enumerate() {
                let counts = self.sheets.iter().map(|sheet| sheet.0[row][column].load(Ordering::Relaxed));
                let now: u64 = counts.sum();
                let new = now - known.operations[row][column];
                if new > 0 {
                    counter!(
                        "warpkeep_operations_total",
                        "table" => self.name.clone(), "op" => op.name(), "status" => class
                    )
                    .increment(new);
                    known.operations[row][column] = now;
                }
            }
        }
        gauge!("warpkeep_items", "table" => self.name.clone()).set(figures.items as f64);
        gauge!("warpkeep_load_factor", "table" => self.name.clone()).set(figures.load_factor);
        let growths = figures.size.growths_since(known.size);
        if growths > 0 {
            counter!("warpkeep_growths_total", "table" => self.name.clone()).increment(growths);
        }
        known.size = figures.size;
    }
}

impl TableMetrics {
    /// Passes the figures of the device's copy of the table to the recorder.
    pub(crate) fn publish_device(&self, stats: &DeviceStats) {
        let set = |name: &'static str, part: &'static str, value: f64| {
            gauge!(name, "table" => self.name.clone(), "part" => part).set(value);
        };
        set("warpkeep_device_bytes", "index", stats.index_bytes as f64);
        set("warpkeep_device_bytes", "values", stats.value_bytes as f64);
        set("warpkeep_device_cached", "values", stats.values as f64);
        set("warpkeep_device_hit_share", "values", stats.value_hits);
    }
}

/// Takes note of a checkpoint.
pub(crate) fn checkpoint(info: &CheckpointInfo, took: Duration) {
    counter!("warpkeep_checkpoints_total").increment(1);
    histogram!("warpkeep_checkpoint_seconds").record(took);
    gauge!("warpkeep_checkpoint_bytes").set(info.bytes as f64);
}

/// Takes note of a checkpoint that failed.
pub(crate) fn checkpoint_failed() {
    counter!("warpkeep_checkpoint_failures_total").increment(1);
}

/// Records the progress of a running checkpoint, and whether `Power` batches wait for one.
pub(crate) fn checkpoint_progress(owed: bool, written: u64, expected: u64) {
    gauge!("warpkeep_checkpoint_owed").set(if owed { 1.0 } else { 0.0 });
    gauge!("warpkeep_checkpoint_items").set(expected as f64);
    gauge!("warpkeep_checkpoint_items_written").set(written as f64);
}

/// Takes note of how the log stands.
pub(crate) fn log(log: &Log) {
    gauge!("warpkeep_log_bytes").set(log.since_checkpoint() as f64);
    gauge!("warpkeep_log_full").set(f64::from(u8::from(log.no_segment().is_some())));
    gauge!("warpkeep_log_reserve_bytes").set(log.reserve().0 as f64);
}

/// Records an opening, and describes the metrics.
pub(crate) fn opened(report: &OpenReport) {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_counter!("warpkeep_operations_total", "Operations by what became of them");
    describe_histogram!("warpkeep_batch_operations", Unit::Count, "Operations in a batch");
    describe_histogram!("warpkeep_batch_seconds", Unit::Seconds, "How long a batch took");
    describe_counter!("warpkeep_get_batches_total", "Batches of gets from host memory by strategy");
    describe_counter!("warpkeep_checkpoint_failures_total", "Checkpoints that failed");
    describe_gauge!("warpkeep_checkpoint_owed", "Whether Power batches wait for a checkpoint");
    describe_gauge!(
        "warpkeep_checkpoint_items",
        Unit::Count,
        "Items that a checkpoint in progress has to write"
    );
    describe_gauge!("warpkeep_checkpoint_items_written", Unit::Count, "Items that it has written");
    describe_gauge!("warpkeep_log_bytes", Unit::Bytes, "What was logged since the last checkpoint began");
    describe_gauge!("warpkeep_log_full", "1 while there is no space for a further segment");
    describe_gauge!("warpkeep_log_reserve_bytes", Unit::Bytes, "Space set aside for a checkpoint");
    describe_gauge!("warpkeep_items", Unit::Count, "Items in a table");
    describe_gauge!("warpkeep_load_factor", "Items as a share of the slots of a table");
    describe_counter!("warpkeep_growths_total", "How often a table, or a shard of one, was made larger");
    describe_gauge!("warpkeep_device_bytes", Unit::Bytes, "Device memory that is kept of a table");
    describe_gauge!("warpkeep_device_cached", Unit::Count, "Values of a table in device memory");
    describe_gauge!("warpkeep_device_hit_share", "Share of values that were found there");
    describe_counter!("warpkeep_checkpoints_total", "Checkpoints taken");
    describe_histogram!("warpkeep_checkpoint_seconds", Unit::Seconds, "How long a checkpoint took");
    describe_gauge!("warpkeep_checkpoint_bytes", Unit::Bytes, "Length of the last checkpoint");
    describe_gauge!("warpkeep_open_seconds", Unit::Seconds, "How long the last opening took");
    let origin = match report.origin {
        Origin::Created => "created",
        Origin::Clean => "clean",
        Origin::Reattached => "reattached",
        Origin::Rebuilt => "rebuilt",
    };
    gauge!("warpkeep_open_seconds", "origin" => origin).set(report.seconds);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_in_the_order_of_their_codes() {
        for (index, (class, _)) in CLASSES.into_iter().enumerate() {
            assert_eq!(class as usize, index + 1);
        }
    }

    #[test]
    fn answers_of_every_kind_are_counted_whatever_the_batch() {
        let numbers: Vec<u64> = (0..300).collect();
        let key = warpkeep_core::KeySpec::U64;
        let keys = || warpkeep_core::Cells::u64s(&numbers);
        for op in [Op::Get, Op::Put, Op::Insert, Op::Update, Op::Delete] {
            let columns = match op.takes_value() {
                true => warpkeep_core::Columns::with_values(op, keys(), keys()),
                false => warpkeep_core::Columns::keys_only(op, keys()),
            };
            let view = warpkeep_core::BatchView::new(key, warpkeep_core::ValueSpec::U64, columns).unwrap();
            let batch = view.host().unwrap();
            // Each status alone, and all of them mixed.
            let alone = Status::ALL.map(|status| vec![status; 300]);
            let all = (0..300).map(|index| Status::ALL[index % Status::ALL.len()]).collect();
            for statuses in alone.into_iter().chain([all]) {
                let mut expected = Tally::default();
                statuses.iter().for_each(|&status| expected.add(op, status));
                let counted = Tally::of(&batch, &statuses);
                assert_eq!((counted.counts, counted.met), (expected.counts, expected.met), "{statuses:?}");
            }
        }
    }

    #[test]
    fn what_was_told_counts_and_otherwise_the_arrays() {
        let numbers: Vec<u64> = (0..300).collect();
        let columns = warpkeep_core::Columns::keys_only(Op::Get, warpkeep_core::Cells::u64s(&numbers));
        let (key, value) = (warpkeep_core::KeySpec::U64, warpkeep_core::ValueSpec::U64);
        let view = warpkeep_core::BatchView::new(key, value, columns).unwrap();
        let tallied = |told: Option<(u64, u64)>, last: Status| {
            let mut results = warpkeep_core::Results::new(&view);
            let mut counted = Counted::new(&mut results, view.host().unwrap());
            let mut rows = counted.rows_mut().unwrap();
            (0..300).for_each(|index| rows.answer(index, if index < 200 { Status::Ok } else { last }, 1));
            told.into_iter().for_each(|(found, absent)| counted.tell_gets(found, absent));
            let counts = counted.tally().counts[usize::from(Op::Get.code()) - 1];
            (counts[0], counts[1], counts.iter().sum::<u64>())
        };
        assert_eq!(tallied(None, Status::Ok), (300, 0, 300));
        assert_eq!(tallied(None, Status::NotFound), (200, 100, 300));
        assert_eq!(tallied(Some((150, 150)), Status::NotFound), (150, 150, 300), "no reader looks");
        // Another status was answered, too.
        assert_eq!(tallied(Some((200, 0)), Status::Corrupt), (200, 0, 300));
    }

    #[test]
    fn small_batches_are_timed_now_and_then_large_ones_always() {
        let metrics = TableMetrics::new("t", &Figures::default());
        let timed = (0..SAMPLE * 4).filter(|_| metrics.begin(1).is_some()).count();
        assert_eq!(timed, 4);
        assert!((0..10).all(|_| metrics.begin(SMALL).is_some()));
    }
}
