//! The planner: turns a batch into changes, once for every engine.
//!
//! Operations on one key act in the order of the batch. Keys are held while their operations are decided; what comes
//! of them is staged, logged, and published. With `Power` the batch is one group and so one record of the log, all or
//! nothing; with `Process` it is cut into small groups, so that a large batch does not hold many keys at once.

use std::collections::HashMap;

use warpkeep_core::{
    Answers, Change, ChangeKind, Durability, HostBatch, MergeRule, Op, Operation, Status, ValueSpec,
};
use warpkeep_gphash::TableError;
use warpkeep_image::{ImageError, Persist};
use warpkeep_log::ChangeBatch;

use crate::tables::{NamedTable, Tables};
use crate::{Error, Keeper, Result};

/// Operations of a `Process` batch that are done at once.
const GROUP: usize = 64;

/// What a key comes to have in the course of a group.
struct Held {
    /// Version and value; `None`: the key is not there.
    item: Option<(u64, Vec<u8>)>,
    changed: bool,
}

/// An answer that is given once the group is done.
struct Answer {
    index: usize,
    status: Status,
    version: u64,
    value: Option<Vec<u8>>,
}

/// Does a batch and answers every operation of it.
pub(crate) fn execute<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &NamedTable<P>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let operations: Vec<Operation<'_>> = batch.iter().collect();
    if operations.iter().all(|operation| operation.op == Op::Get) {
        read(named, &operations, answers);
        return Ok(());
    }
    let group = if durability == Durability::Power { operations.len() } else { GROUP };
    for group in operations.chunks(group.max(1)) {
        match write(keeper, named, group, durability, answers) {
            Err(error)
                if refusal(&error).is_some() && durability == Durability::Process && group.len() > 1 =>
            {
                // One of them does not fit. Each on its own, so that the others are not refused with it.
                for operation in group {
                    settle(write(keeper, named, &[*operation], durability, answers), &[*operation], answers)?;
                }
            }
            done => settle(done, group, answers)?,
        }
    }
    Ok(())
}

/// What an operation is answered that found no space.
fn refusal(error: &Error) -> Option<Status> {
    match error {
        Error::Table(TableError::Full) => Some(Status::TableFull),
        Error::Image(ImageError::OutOfSpace { .. }) => Some(Status::OutOfSpace),
        _ => None,
    }
}

/// Answers a group that was refused; nothing of it was done.
fn settle(done: Result<()>, group: &[Operation<'_>], answers: &mut dyn Answers) -> Result<()> {
    let Err(error) = done else { return Ok(()) };
    let status = refusal(&error).ok_or(error)?;
    group.iter().for_each(|operation| answers.answer(operation.index, status, 0));
    Ok(())
}

fn read<P: Persist>(named: &NamedTable<P>, operations: &[Operation<'_>], answers: &mut dyn Answers) {
    let mut copy = Vec::new();
    named.table.get_many(operations.iter().map(|operation| operation.key), |at, value| {
        let index = operations[at].index;
        match value {
            None => answers.answer(index, Status::NotFound, 0),
            Some(value) => {
                copy.clear();
                value.append_to(&mut copy);
                answers.answer_value(index, Status::Ok, value.version(), &copy);
            }
        }
    });
}

fn write<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &NamedTable<P>,
    group: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let table = &named.table;
    let hashes: Vec<u64> = group.iter().map(|operation| table.hash_of(operation.key)).collect();
    loop {
        keeper.admit(durability)?;
        let mut stage = table.stage(hashes.iter().copied());
        let mut held: HashMap<&[u8], (u64, Held)> = HashMap::with_capacity(group.len());
        let mut given = Vec::with_capacity(group.len());
        for (operation, &hash) in group.iter().zip(&hashes) {
            let (_, key) = held.entry(operation.key).or_insert_with(|| {
                let current = stage.current(operation.key, hash);
                let item = current.map(|current| (current.version(), current.to_vec()));
                (hash, Held { item, changed: false })
            });
            given.push(decide(operation, (table.merge_rule(), table.value_spec()), key, || {
                keeper.next_version()
            }));
        }
        let mut changes = ChangeBatch::new();
        let mut staged = Ok(());
        for (key, (hash, key_held)) in held.iter().filter(|(_, (_, key_held))| key_held.changed) {
            let (kind, version, value) = match &key_held.item {
                Some((version, value)) => (ChangeKind::Put, *version, &value[..]),
                None => (ChangeKind::Delete, keeper.next_version(), &[][..]),
            };
            staged = match kind {
                ChangeKind::Put => stage.put(key, *hash, value, version),
                ChangeKind::Delete => {
                    stage.remove(key, *hash);
                    Ok(())
                }
            };
            if staged.is_err() {
                break;
            }
            if keeper.log().is_some() {
                changes.push(&Change { table: named.id, kind, version, key, value })?;
            }
        }
        if let Err(TableError::Full) = staged {
            let seen = stage.seen();
            drop(stage);
            table.make_room(seen)?;
            continue;
        }
        staged?;
        if held.values().any(|(_, key_held)| key_held.changed) {
            keeper.write(durability, &changes, || stage.publish())?;
        }
        for answer in given {
            match answer.value {
                None => answers.answer(answer.index, answer.status, answer.version),
                Some(value) => {
                    answers.answer_value(answer.index, answer.status, answer.version, &value);
                }
            }
        }
        return Ok(());
    }
}

/// What one operation does to what its key has, and what it is answered.
fn decide(
    operation: &Operation<'_>,
    (rule, values): (MergeRule, ValueSpec),
    held: &mut Held,
    next_version: impl FnOnce() -> u64,
) -> Answer {
    let there = held.item.as_ref().map(|(version, _)| *version);
    let answer = |status, version| Answer { index: operation.index, status, version, value: None };
    let declined = match (operation.op, there) {
        (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, None) => Some((Status::NotFound, 0)),
        (Op::Insert, Some(version)) => Some((Status::AlreadyExists, version)),
        (Op::CompareAndSwap, Some(version)) if version != operation.argument => {
            Some((Status::VersionMismatch, version))
        }
        (Op::Merge, _) if rule == MergeRule::None => Some((Status::WrongType, there.unwrap_or(0))),
        _ => None,
    };
    if let Some((status, version)) = declined {
        return answer(status, version);
    }
    let status = if there.is_some() { Status::Ok } else { Status::Created };
    let value = match operation.op {
        Op::Get => {
            let value = held.item.as_ref().map(|(_, value)| value.clone());
            return Answer { value, ..answer(Status::Ok, there.unwrap_or(0)) };
        }
        Op::Delete => {
            (held.item, held.changed) = (None, true);
            return answer(Status::Ok, there.unwrap_or(0));
        }
        Op::FetchAdd => {
            let before = held.item.as_ref().map_or(&[0; 8][..], |(_, value)| value);
            let Ok(number) = before.try_into().map(u64::from_le_bytes) else {
                return answer(Status::WrongType, there.unwrap_or(0));
            };
            let before = before.to_vec();
            let version = next_version();
            let sum = number.wrapping_add(operation.argument).to_le_bytes().to_vec();
            (held.item, held.changed) = (Some((version, sum)), true);
            return Answer { value: Some(before), ..answer(status, version) };
        }
        Op::Merge => {
            let Some((_, stored)) = &held.item else {
                let version = next_version();
                (held.item, held.changed) = (Some((version, operation.value.to_vec())), true);
                return answer(status, version);
            };
            let mut merged = stored.clone();
            let refused = match rule.merge(&mut merged, operation.value) {
                false => Some(Status::WrongType),
                true => (!values.takes_len(merged.len())).then_some(Status::TooLarge),
            };
            if let Some(status) = refused {
                return answer(status, there.unwrap_or(0));
            }
            merged
        }
        _ => operation.value.to_vec(),
    };
    let version = next_version();
    (held.item, held.changed) = (Some((version, value)), true);
    answer(status, version)
}
