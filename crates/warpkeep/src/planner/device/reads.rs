//! Gets from host memory to host memory on a device.

use warpkeep_core::{Answers, HostBatch, Operation, Status};
use warpkeep_image::Persist;
use warpkeep_record::Pool;

use super::{Target, fall_back_from_read};
use crate::index::{DeviceReads as _, HostGets, KeysFound, Planned};
use crate::planner::gets;
use crate::{HostGetStrategy, Result};

/// Looks up the keys of a batch of gets alone, by the strategy that suits its size.
pub(super) fn read_batch<P: Persist, T: Planned<P>>(
    pool: &Pool,
    target: &Target<'_, P, T>,
    batch: &HostBatch<'_>,
    answers: &mut dyn Answers,
) -> Result<()> {
    let count = batch.len();
    let Some(device) = target.execution.reader_for(count).filter(|_| count > 0) else {
        gets::read(pool, target.table, batch, answers);
        return Ok(());
    };
    // The device copies to arrays, and only where keys and values have one length.
    let mut rows = answers.rows_mut().filter(|_| target.execution.writer().is_some());
    // Values of any length, and values for answers that are given one by one, are copied by the device.
    let can_gather = device.can_gather(target.table) || target.execution.writer().is_none();
    let can_split = rows.as_mut().is_some_and(|rows| device.can_split(target.table, rows));
    let to_rows = rows.is_some();
    let is_possible = |strategy| match strategy {
        HostGetStrategy::Gather => can_gather,
        HostGetStrategy::Split => can_split,
        HostGetStrategy::Cpu => true,
    };
    let strategy = match target.execution.host_get_strategy(device, count, is_possible) {
        HostGetStrategy::Split if !can_split && can_gather => HostGetStrategy::Gather,
        strategy if !is_possible(strategy) => HostGetStrategy::Cpu,
        strategy => strategy,
    };
    let done = match (strategy, to_rows) {
        (HostGetStrategy::Cpu, _) => false,
        (strategy, true) => read_to_rows(pool, target, device, strategy, batch, answers)?,
        (_, false) => {
            let keys: Vec<&[u8]> = batch.iter().map(|operation| operation.key).collect();
            read_one_by_one(target, &keys, |index| index, answers)?
        }
    };
    if !done {
        gets::read(pool, target.table, batch, answers);
    }
    target.execution.host_get_counts.count(if done { strategy } else { HostGetStrategy::Cpu });
    Ok(())
}

/// Looks keys up, and answers to arrays; `false` if the device cannot do that, or has just been lost. Then the answers
/// given so far do not count.
fn read_to_rows<P: Persist, T: Planned<P>>(
    pool: &Pool,
    target: &Target<'_, P, T>,
    device: &T::Device,
    strategy: HostGetStrategy,
    batch: &HostBatch<'_>,
    answers: &mut dyn Answers,
) -> Result<bool> {
    let Some(rows) = answers.rows_mut() else { return Ok(false) };
    let gets = HostGets { keys: batch.keys(), answers: rows, pool, at_once: 0 };
    let counted = match strategy {
        HostGetStrategy::Split => device.split(target.table, gets),
        _ => device.gather(target.table, gets),
    };
    match counted {
        Ok(counted) => {
            if let Some(KeysFound { found, absent }) = counted {
                answers.tell_gets(found, absent);
            }
            Ok(counted.is_some())
        }
        Err(error) => fall_back_from_read(target, device, error).map(|()| false),
    }
}

/// Looks up the gets of a batch that has other operations, too, and answers each at its place in the batch.
pub(super) fn read<P: Persist, T: Planned<P>>(
    target: &Target<'_, P, T>,
    reads: &[Operation<'_>],
    answers: &mut dyn Answers,
) -> Result<()> {
    if reads.is_empty() {
        return Ok(());
    }
    let keys: Vec<&[u8]> = reads.iter().map(|get| get.key).collect();
    if !read_one_by_one(target, &keys, |index| reads[index].index, answers)? {
        crate::planner::read(target.table, reads, answers);
    }
    Ok(())
}

/// Looks keys up; `place` maps each to its operation in the batch. `false`, with nothing answered, if the keys are too
/// few for the device, or it is lost. If it is lost on the way, the CPU answers the others.
fn read_one_by_one<P: Persist, T: Planned<P>>(
    target: &Target<'_, P, T>,
    keys: &[&[u8]],
    place: impl Fn(usize) -> usize,
    answers: &mut dyn Answers,
) -> Result<bool> {
    let Some(device) = target.execution.reader_for(keys.len()) else { return Ok(false) };
    let mut answered = 0;
    let done = device.get_many(target.table, keys, |index, found| {
        answered = index + 1;
        match found {
            None => answers.answer(place(index), Status::NotFound, 0),
            Some((version, value)) => {
                answers.answer_value(place(index), Status::Ok, version, value);
            }
        }
    });
    if let Err(error) = done {
        fall_back_from_read(target, device, error)?;
        // Answered keys must not be answered again.
        target.table.get_many(keys[answered..].iter().copied(), |index, found| {
            gets::answer(answers, place(answered + index), found);
        });
    }
    Ok(true)
}
