//! Writes in two phases: the device decides and stages a batch, the host logs it, and the device publishes it.

use warpkeep_core::{Answers, Change, ChangeKind, Durability, Op, Operation};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;
use warpkeep_record::Staged as _;

use super::{Committed, DevicePart, commit, fall_back};
use crate::index::{DeviceTable as _, Planned, TwoPhaseStage, WriteLock};
use crate::planner::{Answer, StageOf, Target, answer_refused, refusal};
use crate::tables::Tables;
use crate::{Keeper, Result};

/// Operations of a `Process` batch that are done at once: enough to keep every multiprocessor busy.
const GROUP: usize = 1 << 20;

/// Where the operations of a batch come from.
pub(super) trait Source<T> {
    /// The number of operations.
    fn count(&self) -> u64;

    /// Stages them on the device.
    fn stage<'s>(
        &'s self,
        lock: &'s mut impl WriteLock<T>,
        table: &'s T,
        first_version: u64,
    ) -> Result<impl TwoPhaseStage>;

    /// Copies them to host memory, if they are elsewhere. Called if the CPU has to do some of them.
    fn fetch(&self) -> Result<()>;

    /// Operation `index`; `None` if it is malformed, or not in host memory.
    fn operation(&self, index: usize) -> Option<Operation<'_>>;
}

/// Where the answers of a batch go.
pub(super) trait Sink {
    /// Answers all operations, once: with what the device has decided, and those that it left to the CPU with the
    /// CPU's answers.
    fn answer(self, staged: &impl TwoPhaseStage, by_cpu: Vec<Answer>) -> Result<()>;
}

/// Does as much of a batch as the device can do; returns how many operations are answered. The CPU does the others.
pub(super) fn write<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    operations: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<usize> {
    let group = if durability == Durability::Power { operations.len() } else { GROUP };
    let mut done = 0;
    for group in operations.chunks(group.max(1)) {
        let Some(device) = target.execution.writer_for(group.len()) else { break };
        let sink = HostSink { group, answers: &mut *answers };
        match write_group(keeper, target, device, group, durability, sink) {
            Ok(true) => done += group.len(),
            Ok(false) => break,
            // Nothing of it was done. With `Process` the CPU tries each on its own.
            Err(error) if refusal(&error).is_some() && durability == Durability::Process => break,
            Err(error) => {
                answer_refused(Err(error), group, answers)?;
                done += group.len();
            }
        }
    }
    Ok(done)
}

impl<T> Source<T> for [Operation<'_>] {
    fn count(&self) -> u64 {
        self.len() as u64
    }

    fn stage<'s>(
        &'s self,
        lock: &'s mut impl WriteLock<T>,
        table: &'s T,
        first_version: u64,
    ) -> Result<impl TwoPhaseStage> {
        lock.stage(table, self, first_version)
    }

    fn fetch(&self) -> Result<()> {
        Ok(())
    }

    fn operation(&self, index: usize) -> Option<Operation<'_>> {
        Some(self[index])
    }
}

/// The answers of a group in host memory.
struct HostSink<'a> {
    group: &'a [Operation<'a>],
    answers: &'a mut dyn Answers,
}

impl Sink for HostSink<'_> {
    fn answer(self, staged: &impl TwoPhaseStage, by_cpu: Vec<Answer>) -> Result<()> {
        let HostSink { group, answers } = self;
        for (index, operation) in group.iter().enumerate().filter(|(index, _)| !staged.is_for_cpu(*index)) {
            let (place, status, version) = (operation.index, staged.status(index), staged.version(index));
            if operation.op.answers_value() && status.is_ok() {
                answers.answer_value(place, status, version, staged.answer(index));
            } else {
                answers.answer(place, status, version);
            }
        }
        by_cpu.into_iter().for_each(|answer| answer.give(answers));
        Ok(())
    }
}

/// Does a group, and answers it. `false`, with nothing done, if the CPU has to do it.
pub(super) fn write_group<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    device: &T::Device,
    source: &(impl Source<T> + ?Sized),
    durability: Durability,
    sink: impl Sink,
) -> Result<bool> {
    loop {
        keeper.admit(durability)?;
        let mut lock = device.write_lock();
        let first_version = keeper.next_versions(source.count());
        let mut staged = match source.stage(&mut lock, target.table, first_version) {
            Ok(staged) => staged,
            Err(error) => return fall_back(target, error).map(|()| false),
        };
        if (0..staged.count()).any(|index| staged.is_for_cpu(index)) {
            source.fetch()?;
        }
        let mut part = TwoPhase { keeper, target, durability, source, staged: &mut staged };
        match commit(keeper, target, durability, &mut part)? {
            Committed::Done(by_cpu) => {
                sink.answer(&staged, by_cpu)?;
                return Ok(true);
            }
            Committed::Refused(error) => return Err(error),
            Committed::Full(full) => {
                drop(staged);
                let _relocation = target.execution.relocation_lock();
                target.table.make_room(full).map_err(Into::into)?;
            }
        }
    }
}

/// A group that is staged.
struct TwoPhase<'a, P: Persist, T: Planned<P>, O: ?Sized, S> {
    keeper: &'a Keeper<P, Tables<P>>,
    target: &'a Target<'a, P, T>,
    durability: Durability,
    source: &'a O,
    staged: &'a mut S,
}

impl<P, T, O, S> DevicePart<P, T> for TwoPhase<'_, P, T, O, S>
where
    P: Persist,
    T: Planned<P>,
    O: Source<T> + ?Sized,
    S: TwoPhaseStage,
{
    fn cpu_remainder(&self) -> Vec<Operation<'_>> {
        let for_cpu = (0..self.staged.count()).filter(|&index| self.staged.is_for_cpu(index));
        for_cpu.filter_map(|index| self.source.operation(index)).collect()
    }

    /// Adds the changes to the log batch, if there is a log.
    fn prepare_changes(&mut self, changes: &mut ChangeBatch) -> Result<bool> {
        let staged = &*self.staged;
        let mut changing =
            (0..staged.count()).filter_map(|index| Some((index, staged.change(index)?))).peekable();
        let changed = changing.peek().is_some();
        if self.keeper.log().is_none() {
            return Ok(changed);
        }
        for (index, kind) in changing {
            let Some(Operation { op, key, value, .. }) = self.source.operation(index) else { continue };
            let result = matches!(op, Op::Merge | Op::FetchAdd).then(|| staged.written(index));
            let (version, value) = match kind {
                ChangeKind::Delete => (self.keeper.next_version(), &[][..]),
                ChangeKind::Put => (staged.version(index), result.as_deref().unwrap_or(value)),
            };
            changes.push(&Change { table: self.target.id, kind, version, key, value })?;
        }
        Ok(changed)
    }

    fn finish_unchanged(&mut self) -> Result<()> {
        Ok(())
    }

    fn log_and_publish(&mut self, changes: &ChangeBatch, cpu: StageOf<'_, P, T>) -> Result<()> {
        let mut published = Ok(());
        let publish = || {
            let held = cpu.publish();
            published = self.staged.publish();
            held
        };
        // The result holds the keys of the CPU, until the record is in the log.
        drop(self.keeper.write(self.durability, changes, publish)?);
        if published.is_err() {
            self.target.execution.take_over(self.target.table);
        }
        Ok(())
    }
}
