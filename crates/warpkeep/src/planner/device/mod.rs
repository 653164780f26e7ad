//! Batches on a device. The CPU does the operations that the device leaves to it in the same commit, so that a `Power`
//! batch is still one record of the log; and it does all of them if the device is lost or has no memory for the batch.

mod fused;
mod reads;
mod rows;
mod two_phase;

use warpkeep_core::{Answers, Durability, HostBatch, Op, Operation};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;

pub(crate) use rows::{enqueue_rows, execute_rows};

use self::fused::RetryAnswers;
use super::{Answer, SeenOf, StageOf, Target, lock_order, refusal, seen_by, stage, take_reads, write_all};
use crate::index::{DeviceFailure, DeviceTable as _, Planned};
use crate::tables::Tables;
use crate::{Error, Keeper, Result};

/// Does a batch in host memory of a table that has a device, and answers every operation of it.
pub(super) fn execute<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    if batch.is_all(Op::Get) {
        reads::read_batch(keeper.items().pool(), target, batch, answers)?;
        return keeper.confirm(durability);
    }
    let fused = fused::write(keeper, target, batch, durability, answers)?;
    if fused.done > 0 && fused.done == batch.len() {
        return Ok(());
    }
    let others = batch.iter().skip(fused.done).collect();
    match fused.interrupted {
        None => run(keeper, target, others, durability, answers),
        Some(first_version) => {
            let mut answers = RetryAnswers { answers, first_version, op: batch.uniform_op() };
            run(keeper, target, others, durability, &mut answers)
        }
    }
}

/// Does any operations, and answers every one of them. The CPU does those that the device does not do.
fn run<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    mut operations: Vec<Operation<'_>>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let reads = take_reads(target.table, &mut operations);
    reads::read(target, &reads, answers)?;
    let seen = seen_by(keeper, &reads, durability)?;
    let done = two_phase::write(keeper, target, &operations, durability, answers)?;
    write_all(keeper, target, &operations[done..], durability, answers)?;
    keeper.wait_seen(seen)
}

/// Leaves a batch to the CPU after an error of the device, with nothing of it done. If the device is lost the CPU takes
/// the table over; the caller has the write lock. Other errors are returned.
fn fall_back<P: Persist, T: Planned<P>>(target: &Target<'_, P, T>, error: Error) -> Result<()> {
    match error.device_failure() {
        Some(DeviceFailure::OutOfMemory) => Ok(()),
        Some(DeviceFailure::Lost) => {
            target.execution.take_over(target.table);
            Ok(())
        }
        None => Err(error),
    }
}

/// The same after a failed read: it takes the write lock only if the device is lost. A thread that waits for that lock while
/// it holds enqueued gets may wait for one that waits for these.
fn fall_back_from_read<P: Persist, T: Planned<P>>(
    target: &Target<'_, P, T>,
    device: &T::Device,
    error: Error,
) -> Result<()> {
    let is_lost = matches!(error.device_failure(), Some(DeviceFailure::Lost));
    let _lock = is_lost.then(|| device.write_lock());
    fall_back(target, error)
}

/// The part of a batch that a device has decided. Nothing of it is visible yet, and the thread has the write lock.
trait DevicePart<P: Persist, T: Planned<P>> {
    /// The operations that the device leaves to the CPU, in the order of the batch.
    fn cpu_remainder(&self) -> Vec<Operation<'_>>;

    /// Prepares the device's changes for the log: those that are not encoded by [`DevicePart::log_and_publish`] itself
    /// are added to the log batch. Returns whether there are any changes.
    fn prepare_changes(&mut self, changes: &mut ChangeBatch) -> Result<bool>;

    /// Ends the part where neither the device nor the CPU changes anything.
    fn finish_unchanged(&mut self) -> Result<()>;

    /// Logs the changes of the device and of the CPU as one record, and publishes both. If the device is lost, the CPU
    /// does its part.
    fn log_and_publish(&mut self, changes: &ChangeBatch, cpu: StageOf<'_, P, T>) -> Result<()>;
}

/// The result of a commit.
enum Committed<P: Persist, T: Planned<P>> {
    /// All of the batch is done. These are the answers to the operations that the device left to the CPU.
    Done(Vec<Answer>),
    /// Nothing is done: the table has to make room for an operation of the CPU.
    Full(SeenOf<P, T>),
    /// Nothing is done: an operation of the CPU found no space.
    Refused(Error),
}

/// Commits what a device has decided, together with the operations that it leaves to the CPU.
fn commit<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    durability: Durability,
    part: &mut impl DevicePart<P, T>,
) -> Result<Committed<P, T>> {
    let mut changes = ChangeBatch::new();
    let changed = part.prepare_changes(&mut changes)?;
    let remainder = part.cpu_remainder();
    let order = lock_order(target.table, &remainder);
    let cpu = match stage(keeper, target, &remainder, &order, &mut changes) {
        Ok(Ok(cpu)) => cpu,
        Ok(Err(full)) => return Ok(Committed::Full(full)),
        Err(error) if refusal(&error).is_some() => return Ok(Committed::Refused(error)),
        Err(error) => return Err(error),
    };
    if changed || cpu.changed {
        part.log_and_publish(&changes, cpu.stage)?;
    } else {
        // Releases the keys. The write lock may be kept: writers that still have to log visible effects do not need it.
        drop(cpu.stage);
        part.finish_unchanged()?;
        keeper.confirm(durability)?;
    }
    Ok(Committed::Done(cpu.given))
}
