//! Batches on a device. Operations on keys that the batch has more than once, and those that the device finds no place for, are done by the
//! CPU in the same breath, so that a `Power` batch is still one record of the log.

use warpkeep_core::{Answers, Change, ChangeKind, Durability, Op, Operation, Status};
use warpkeep_gphash::gpu::{DeviceEngine, DeviceStage};
use warpkeep_gphash::{Table, TableError};
use warpkeep_image::Persist;
use warpkeep_log::ChangeBatch;
use warpkeep_record::LockKey;

use super::{Target, settle, stage};
use crate::tables::Tables;
use crate::{Error, Keeper, Result};

/// Operations of a `Process` batch that are done at once: enough to keep every multiprocessor busy.
const GROUP: usize = 1 << 20;

/// Looks keys up; `false`, with nothing answered, if the table runs on the CPU, or the keys are too few for the
/// device. If the device is lost on the way, the CPU answers the rest.
pub(super) fn read<'k, P: Persist>(
    named: &Target<'_, P, Table<P>>,
    keys: impl Iterator<Item = &'k [u8]>,
    place: impl Fn(usize) -> usize,
    answers: &mut dyn Answers,
) -> Result<bool> {
    if named.engine.device().is_none() {
        return Ok(false);
    }
    let keys: Vec<&[u8]> = keys.collect();
    let count = keys.len();
    let Some(device) = named.engine.device_for(count) else { return Ok(false) };
    let mut answered = 0;
    let done = device.get_many(named.table, keys.iter().copied(), |index, found| {
        answered = index + 1;
        match found {
            None => answers.answer(place(index), Status::NotFound, 0),
            Some((version, value)) => {
                answers.answer_value(place(index), Status::Ok, version, value);
            }
        }
    });
    match done {
        Ok(()) => {}
        Err(error) => {
            let turn = device.turn();
            step_back(named, error)?;
            drop(turn);
            // Answered keys must not be answered again.
            named.table.get_many(keys[answered..].iter().copied(), |index, value| match value {
                None => answers.answer(place(answered + index), Status::NotFound, 0),
                Some(value) => {
                    answers.answer_value(place(answered + index), Status::Ok, value.version(), value.bytes());
                }
            });
        }
    }
    Ok(true)
}

/// Does as much of a batch as there is a device for; gives how many operations are answered. The CPU does the others.
pub(super) fn write<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &Target<'_, P, Table<P>>,
    operations: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<usize> {
    let group = if durability == Durability::Power { operations.len() } else { GROUP };
    let mut done = 0;
    for group in operations.chunks(group.max(1)) {
        let Some(device) = named.engine.writer_for(group.len()) else { break };
        match write_group(keeper, named, device, group, durability, answers) {
            Ok(true) => done += group.len(),
            Ok(false) => break,
            // Nothing of it was done. With `Process` the CPU tries each on its own.
            Err(error) if super::refusal(&error).is_some() && durability == Durability::Process => break,
            Err(error) => {
                settle(Err(error), group, answers)?;
                done += group.len();
            }
        }
    }
    Ok(done)
}

/// An error of the device: if it is lost the CPU takes over, if it has no memory left the CPU does this batch.
pub(super) fn step_back<P: Persist>(named: &Target<'_, P, Table<P>>, error: TableError) -> Result<()> {
    match &error {
        TableError::Device(device) if device.is_out_of_memory() => Ok(()),
        TableError::Device(_) | TableError::Scattered => {
            named.engine.take_over(named.table);
            Ok(())
        }
        _ => Err(error.into()),
    }
}

/// Does a group; `false` if the device has stepped back, with nothing done.
fn write_group<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &Target<'_, P, Table<P>>,
    device: &DeviceEngine<P>,
    group: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<bool> {
    let table = named.table;
    loop {
        keeper.admit(durability)?;
        let mut turn = device.turn();
        let mut staged = match turn.stage(table, group, keeper.next_versions(group.len() as u64)) {
            Ok(staged) => staged,
            Err(error) => return step_back(named, error).map(|()| false),
        };
        let mut changes = ChangeBatch::new();
        let changed = log_changes(keeper, named, &staged, |index| Some(group[index]), &mut changes)?;
        // Operations on one key come together, in the order of the batch.
        let mut for_cpu: Vec<(LockKey, u32)> = (0..)
            .zip(group)
            .filter(|(number, _)| staged.is_left(*number as usize))
            .map(|(number, operation)| (table.lock_key(operation.key), number))
            .collect();
        for_cpu.sort_unstable();
        let beside = match stage(keeper, named, group, &for_cpu, &mut changes)? {
            Ok(beside) => beside,
            Err(full) => {
                drop(staged);
                let _moving = named.engine.moving();
                table.make_room(full)?;
                continue;
            }
        };
        let given = beside.given;
        let mut published = Ok(());
        let publish = || {
            let held = beside.stage.publish();
            published = staged.publish();
            held
        };
        if changed || beside.changed {
            drop(keeper.write(durability, &changes, publish)?);
        } else {
            // Releases the keys. The write lock may be kept: writers that still have to log visible effects do not
            // need it.
            drop(publish);
            keeper.confirm(durability)?;
        }
        if published.is_err() {
            named.engine.take_over(table);
        }
        for (index, operation) in group.iter().enumerate() {
            let (place, status, version) = (operation.index, staged.status(index), staged.versions()[index]);
            if staged.is_left(index) {
                continue;
            }
            if operation.op.answers_value() && status.is_ok() {
                answers.answer_value(place, status, version, staged.answer(index));
            } else {
                answers.answer(place, status, version);
            }
        }
        given.into_iter().for_each(|answer| answer.give(answers));
        return Ok(true);
    }
}

/// Adds the changes of a stage to the log batch, if there is a log; returns whether there are any.
pub(super) fn log_changes<'o, P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &Target<'_, P, Table<P>>,
    staged: &DeviceStage<'_, '_, P>,
    operation: impl Fn(usize) -> Option<Operation<'o>>,
    changes: &mut ChangeBatch,
) -> Result<bool> {
    let mut changing =
        (0..staged.count()).filter_map(|index| Some((index, staged.change(index)?))).peekable();
    let changed = changing.peek().is_some();
    if keeper.log().is_none() {
        return Ok(changed);
    }
    for (index, removed) in changing {
        let Some(Operation { op, key, value, .. }) = operation(index) else { continue };
        let came_to = matches!(op, Op::Merge | Op::FetchAdd).then(|| staged.written(index));
        let (kind, version, value) = match removed {
            true => (ChangeKind::Delete, keeper.next_version(), &[][..]),
            false => (ChangeKind::Put, staged.versions()[index], came_to.as_deref().unwrap_or(value)),
        };
        changes.push(&Change { table: named.id, kind, version, key, value })?;
    }
    Ok(changed)
}

impl From<warpkeep_device::DeviceError> for Error {
    fn from(error: warpkeep_device::DeviceError) -> Error {
        Error::Table(TableError::Device(error))
    }
}
