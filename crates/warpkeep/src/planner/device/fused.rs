//! Fused writes: large batches of one operation, which the device decides and publishes in one pass. With a log the
//! host encodes the changes in between, as one record and with several threads, once the device has decided which
//! operations take effect and before any effect is in the image.

use std::cell::RefCell;

use warpkeep_core::{Answers, Change, ChangeKind, Durability, HostBatch, Op, Operation, Status};
use warpkeep_image::Persist;
use warpkeep_log::{ChangeBatch, ChangeForm, LaidRecord, Log, PieceLen};
use warpkeep_record::Staged as _;

use super::{Committed, DevicePart, commit, fall_back};
use crate::index::{
    CommitPart, DeviceTable as _, FusedDecisions, FusedStage, FusedWrites as _, HostWrites, PartAnswers,
    Planned, StepTimes as _, StepWatch,
};
use crate::planner::{Answer, StageOf, Target};
use crate::tables::Tables;
use crate::{Keeper, Result};

/// Operations whose changes one thread encodes at a time: as many bytes as stay in its cache until they are summed.
const SHARE: usize = 1 << 11;

/// How much of a batch a fused write did.
#[derive(Default)]
pub(super) struct FusedWrite {
    /// Operations that are answered, from the first on.
    pub(super) done: usize,
    /// The device was lost, and some of the other operations may be done, too. This is the version of operation 0; the
    /// others have the next ones.
    pub(super) interrupted: Option<u64>,
}

/// Does as much of a batch in host memory as a fused write can do.
pub(super) fn write<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<FusedWrite> {
    let mut fused = FusedWrite::default();
    let Some(op) = batch.uniform_op() else { return Ok(fused) };
    // `Power` without a log is refused on the ordinary path.
    let is_possible = keeper.log().is_some() || durability == Durability::Process;
    let device = target.execution.writer_for(batch.len()).filter(|_| is_possible);
    let device = device.filter(|device| batch.len() >= device.profile().fused_from);
    let Some(device) = device.filter(|device| device.can_write_fused(target.table, op)) else {
        return Ok(fused);
    };
    // The device does not report which version was removed.
    if op == Op::Delete && answers.rows_mut().is_none_or(|rows| rows.wants_versions()) {
        return Ok(fused);
    }
    keeper.admit(durability)?;
    // With `Power` all of it is one record of the log.
    let at_once = if durability == Durability::Power { batch.len() } else { 0 };
    let writes = HostWrites { op, batch: *batch, pool: keeper.items().pool(), at_once };
    let mut lock = device.write_lock();
    // Under the write lock: versions of a key grow in the order of its changes.
    let first_version = keeper.next_versions(batch.len() as u64);
    let done = &mut fused.done;
    if keeper.log().is_none() {
        if let Err(error) = lock.write_from_host(target.table, &writes, first_version, answers, done) {
            fall_back(target, error)?;
            fused.interrupted = Some(first_version);
        }
        return Ok(fused);
    }
    let parts = HostParts { batch, commit: FusedCommit { keeper, target, durability, op } };
    // An error is of a part of which nothing is done: a part that is logged is done even if the device is lost.
    if let Err(error) = lock.commit_from_host(target.table, &writes, first_version, answers, done, &parts) {
        fall_back(target, error)?;
    }
    Ok(fused)
}

/// Answers for operations that are repeated, because it is unknown whether they were done: an insert that finds its
/// own value is the one that wrote it. A delete that finds no key may have removed it itself. Repeating puts and
/// updates has the same effect.
pub(super) struct RetryAnswers<'a> {
    pub(super) answers: &'a mut dyn Answers,
    /// The version that operation 0 would have written.
    pub(super) first_version: u64,
    pub(super) op: Option<Op>,
}

impl Answers for RetryAnswers<'_> {
    fn answer(&mut self, index: usize, status: Status, version: u64) {
        let is_own = version == self.first_version + index as u64;
        let status = match (self.op, status) {
            (Some(Op::Insert), Status::AlreadyExists) if is_own => Status::Created,
            (Some(Op::Delete), Status::NotFound) => Status::Indeterminate,
            (_, status) => status,
        };
        self.answers.answer(index, status, version);
    }

    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        self.answers.answer_value(index, status, version, value)
    }
}

/// Commits the parts of a batch in host memory, with a log.
struct HostParts<'a, P: Persist, T: Planned<P>> {
    batch: &'a HostBatch<'a>,
    commit: FusedCommit<'a, P, T>,
}

impl<P: Persist, T: Planned<P>> CommitPart for HostParts<'_, P, T> {
    fn admit(&self) -> Result<()> {
        match self.commit.durability {
            // Earlier parts may wait to be written. No thread that the log waits for needs the write lock.
            Durability::Process => self.commit.keeper.admit(Durability::Process),
            Durability::Power => Ok(()),
        }
    }

    fn commit(
        &self,
        first: usize,
        first_version: u64,
        stage: impl FusedStage,
    ) -> Result<Option<PartAnswers>> {
        let row = |index: usize| self.batch.operation(first + index);
        let Some(answers) = self.commit.run(stage, first_version, row)? else { return Ok(None) };
        let by_cpu = answers.by_cpu.into_iter();
        let by_cpu = by_cpu.map(|Answer { index, status, version, .. }| (index, status, version)).collect();
        Ok(Some(PartAnswers { statuses: answers.statuses, by_cpu }))
    }
}

/// Commits fused writes, with a log.
pub(super) struct FusedCommit<'l, P: Persist, T: Planned<P>> {
    pub(super) keeper: &'l Keeper<P, Tables<P>>,
    pub(super) target: &'l Target<'l, P, T>,
    pub(super) durability: Durability,
    pub(super) op: Op,
}

/// The answers of a fused write.
pub(super) struct FusedAnswers {
    /// The device's, a status code for each operation.
    pub(super) statuses: Vec<u8>,
    /// The CPU's, which replace those, in the order of the batch.
    pub(super) by_cpu: Vec<Answer>,
}

impl<P: Persist, T: Planned<P>> FusedCommit<'_, P, T> {
    /// Logs and publishes a batch. `row` gives its operations by number; number `i` writes the version `first_version +
    /// i`. `None`, with nothing done, if it has to be done in another way: the CPU would have to find a place for a new
    /// key, or the device cannot be used.
    pub(super) fn run<'r>(
        &self,
        mut stage: impl FusedStage,
        first_version: u64,
        row: impl Fn(usize) -> Operation<'r> + Sync,
    ) -> Result<Option<FusedAnswers>> {
        let FusedCommit { keeper, target, durability, op } = *self;
        let Some(device) = target.execution.writer() else { return Ok(None) };
        let mut steps = device.watch_steps();
        let FusedDecisions { effects, statuses, for_cpu } = match stage.decided() {
            Ok(decided) => decided,
            Err(error) => {
                drop(stage);
                return fall_back(target, error).map(|()| None);
            }
        };
        steps.host("log: the host knows which operations take effect");
        let remainder: Vec<Operation<'_>> = for_cpu.iter().map(|&index| row(index as usize)).collect();
        // The CPU does not know the places that the device is about to fill, so it must not look for one.
        let is_new = |operation: &Operation<'_>| target.table.get(operation.key, |_| ()).is_none();
        if matches!(op, Op::Put | Op::Insert) && remainder.iter().any(is_new) {
            return Ok(None);
        }
        let effects = Effects { takes_effect: &effects, first_version, row: &row };
        let mut part = Fused {
            commit: self,
            effects,
            remainder: &remainder,
            stage: Some(stage),
            pieces: Vec::new(),
            steps: RefCell::new(steps),
        };
        let mut by_cpu = match commit(keeper, target, durability, &mut part)? {
            Committed::Done(by_cpu) => by_cpu,
            Committed::Full(_) | Committed::Refused(_) => return Ok(None),
        };
        // An error is the device's, and its next user gets it: the batch is done.
        let _ = part.steps.into_inner().finish();
        by_cpu.sort_unstable_by_key(|answer| answer.index);
        Ok(Some(FusedAnswers { statuses, by_cpu }))
    }

    /// The form of the batch's changes.
    fn form(&self) -> ChangeForm {
        let kind = if self.op == Op::Delete { ChangeKind::Delete } else { ChangeKind::Put };
        ChangeForm { table: self.target.id, kind }
    }

    /// How many bytes the changes of a share take.
    fn piece_len<'r>(
        &self,
        effects: &Effects<'_, impl Fn(usize) -> Operation<'r>>,
        number: usize,
    ) -> PieceLen {
        let table = self.target.table;
        let value_len = if self.op == Op::Delete { 0 } else { table.value_spec().max_len() };
        if let Some(key_len) = table.key_spec().fixed_len() {
            return PieceLen::of(effects.count_of_share(number), key_len, value_len);
        }
        let mut len = PieceLen::default();
        effects.of_share(number).for_each(|(_, operation)| len.add(operation.key.len(), value_len));
        len
    }

    /// Does with the CPU what a lost device has not done. If that is not possible either, the log stops, and the
    /// next opening applies the record.
    fn redo<'r>(&self, effects: &Effects<'_, impl Fn(usize) -> Operation<'r>>) -> Result<()> {
        let Target { id, execution, table } = *self.target;
        execution.take_over(table);
        let _relocation = execution.relocation_lock();
        let kind = self.form().kind;
        for (version, Operation { key, value, .. }) in effects.all() {
            if let Err(error) = table.redo(&Change { table: id, kind, version, key, value }) {
                return Err(match self.keeper.log() {
                    Some(log) => log.give_up(error.to_string()).into(),
                    None => error.into(),
                });
            }
        }
        Ok(())
    }
}

/// A fused write that is decided.
struct Fused<'a, 'r, P: Persist, T: Planned<P>, S, R> {
    commit: &'a FusedCommit<'a, P, T>,
    effects: Effects<'a, R>,
    /// Operations for the CPU.
    remainder: &'a [Operation<'r>],
    /// Until it is published.
    stage: Option<S>,
    /// The lengths of the shares of the log record.
    pieces: Vec<PieceLen>,
    steps: RefCell<StepWatch<'a>>,
}

impl<'r, P, T, S, R> DevicePart<P, T> for Fused<'_, 'r, P, T, S, R>
where
    P: Persist,
    T: Planned<P>,
    S: FusedStage,
    R: Fn(usize) -> Operation<'r> + Sync,
{
    fn cpu_remainder(&self) -> Vec<Operation<'_>> {
        self.remainder.to_vec()
    }

    /// The changes of the device are encoded by [`DevicePart::log_and_publish`], by several threads.
    fn prepare_changes(&mut self, _: &mut ChangeBatch) -> Result<bool> {
        let shares = self.effects.takes_effect.len().div_ceil(SHARE);
        self.pieces = (0..shares).map(|number| self.commit.piece_len(&self.effects, number)).collect();
        Ok(self.pieces.iter().any(|piece| piece.changes() > 0))
    }

    fn finish_unchanged(&mut self) -> Result<()> {
        let Some(mut stage) = self.stage.take() else { return Ok(()) };
        // Publishing nothing lets the device keep what it has copied of the table.
        let published = stage.publish(|| ());
        drop(stage);
        published.or_else(|error| fall_back(self.commit.target, error))
    }

    fn log_and_publish(&mut self, changes: &ChangeBatch, cpu: StageOf<'_, P, T>) -> Result<()> {
        let Some(mut stage) = self.stage.take() else { return Ok(()) };
        let (commit, effects) = (self.commit, &self.effects);
        let passed = |step| self.steps.borrow_mut().host(step);
        let lay = |log: &Log| Ok(log.lay(commit.form(), &self.pieces, changes)?);
        let fill = |record: &mut LaidRecord| {
            let pieces = record.pieces().into_iter().enumerate().collect();
            commit.keeper.items().pool().share(pieces, |(number, mut piece)| {
                for (version, operation) in effects.of_share(number) {
                    piece.push(version, operation.key, operation.value);
                }
                piece.finish();
            });
            passed("log: the record is encoded");
        };
        commit.keeper.write_laid(commit.durability, lay, fill, |meanwhile| {
            if commit.durability == Durability::Power {
                passed("log: the record is written and made durable");
            }
            let published = stage.publish(meanwhile);
            drop(stage);
            drop(cpu.publish());
            passed("log: the batch is published");
            match published {
                Ok(()) => Ok(()),
                // It is logged, or will be: so it happens.
                Err(_) => commit.redo(effects),
            }
        })
    }
}

/// The operations of a batch that take effect.
struct Effects<'a, R> {
    /// For each operation 1 if it does, or 0.
    takes_effect: &'a [u8],
    first_version: u64,
    row: &'a R,
}

impl<'r, R: Fn(usize) -> Operation<'r>> Effects<'_, R> {
    /// The operations of a share, each with the version that it writes.
    fn of_share(&self, number: usize) -> impl Iterator<Item = (u64, Operation<'r>)> {
        let first = number * SHARE;
        self.between(first, (first + SHARE).min(self.takes_effect.len()))
    }

    fn count_of_share(&self, number: usize) -> usize {
        let first = number * SHARE;
        self.takes_effect[first..].iter().take(SHARE).map(|&takes| usize::from(takes)).sum()
    }

    fn all(&self) -> impl Iterator<Item = (u64, Operation<'r>)> {
        self.between(0, self.takes_effect.len())
    }

    fn between(&self, first: usize, end: usize) -> impl Iterator<Item = (u64, Operation<'r>)> {
        let with_effect = (first..end).filter(|&index| self.takes_effect[index] != 0);
        with_effect.map(|index| (self.first_version + index as u64, (self.row)(index)))
    }
}
