//! The planner: turns a batch into changes, on the CPU here and on a [`device`].
//!
//! Operations on one key act in the order of the batch. Keys are held while their operations are decided; the resulting
//! changes are staged, logged, and published. With `Power` the batch is one group and so one record of the log, all or
//! nothing; with `Process` it is cut into small groups, so that a large batch does not hold many keys at once.

mod device;
mod gets;

use std::borrow::Cow;

use warpkeep_core::{
    Answers, Change, ChangeKind, Durability, HostBatch, Lsn, MergeRule, Op, Operation, Status, ValueSpec,
};
use warpkeep_image::{ImageError, Persist};
use warpkeep_log::ChangeBatch;
use warpkeep_record::{Located, LockKey, LockRequest, Seat, Staged, Staging};

pub(crate) use device::{enqueue_rows, execute_rows};

use crate::device::Execution;
use crate::index::{PlacedTable, Planned, with_placed};
use crate::space::Search;
use crate::tables::{NamedTable, Tables};
use crate::{Error, Keeper, Result};

/// The number of gets in a batch from which on separating them from writes pays.
const WORTH_APART: usize = 8;

/// The table of a batch. Its index is dispatched once a batch: from there on the type is known.
pub(crate) struct Target<'t, P: Persist, T: Planned<P>> {
    id: u32,
    execution: &'t Execution<P, T>,
    table: &'t T,
}

/// The stage of a table's changes, the position of a key, and the state of a full table.
type StageOf<'t, P, T> = <T as Staging<P>>::Stage<'t>;
type FoundOf<'t, P, T> = <StageOf<'t, P, T> as Staged<P>>::Found;
type SeenOf<P, T> = <T as Staging<P>>::Seen;
/// A group that is staged, or how the table stood that has no room for it.
type ReadyOr<'t, P, T> = std::result::Result<Ready<StageOf<'t, P, T>>, SeenOf<P, T>>;

/// A key of a group, and its state in the course of it.
struct Held<'a, F> {
    key: &'a [u8],
    seat: Seat<F>,
    item: Item<'a>,
}

/// The state of a key.
enum Item<'a> {
    /// The stored item, which may not exist.
    AsStored,
    /// Removed.
    Removed,
    /// A new value.
    New { version: u64, value: Cow<'a, [u8]> },
}

/// An answer that is given once the group is done.
struct Answer {
    index: usize,
    status: Status,
    version: u64,
    value: Option<Vec<u8>>,
}

impl<'t, P: Persist, T: Planned<P>> Target<'t, P, T> {
    fn new(id: u32, placed: &'t PlacedTable<P, T>) -> Target<'t, P, T> {
        Target { id, execution: &placed.execution, table: &placed.table }
    }
}

/// Does a batch and answers every operation of it.
pub(crate) fn execute<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &NamedTable<P>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    with_placed!(&named.table, placed => {
        execute_on(keeper, &Target::new(named.id, placed), batch, durability, answers)
    })
}

/// Executes a batch as one group: all of it, or nothing if an operation finds no room.
pub(crate) fn execute_as_one<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    named: &NamedTable<P>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    with_placed!(&named.table, placed => {
        let target = Target::new(named.id, placed);
        let operations: Vec<Operation<'_>> = batch.iter().collect();
        answer_refused(write_in_space(keeper, &target, &operations, durability, answers), &operations, answers)
    })
}

fn execute_on<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    if target.execution.device().is_some() {
        return device::execute(keeper, target, batch, durability, answers);
    }
    if batch.is_all(Op::Get) {
        gets::read(keeper.items().pool(), target.table, batch, answers);
        return keeper.confirm(durability);
    }
    let mut operations = batch.iter().collect();
    let reads = take_reads(target.table, &mut operations);
    read(target.table, &reads, answers);
    let seen = seen_by(keeper, &reads, durability)?;
    write_all(keeper, target, &operations, durability, answers)?;
    keeper.wait_seen(seen)
}

/// The record up to which the log must be durable for these reads. To be called before other operations of the batch
/// are logged: making them durable then covers the reads, too.
fn seen_by<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    reads: &[Operation<'_>],
    durability: Durability,
) -> Result<Option<Lsn>> {
    if reads.is_empty() { Ok(None) } else { keeper.seen(durability) }
}

/// Does operations with the CPU, in groups, and answers every one of them.
fn write_all<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    operations: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let group = match durability {
        Durability::Power => operations.len(),
        Durability::Process => target.table.keys_at_once(),
    };
    for group in operations.chunks(group.max(1)) {
        match write_in_space(keeper, target, group, durability, answers) {
            Err(error)
                if refusal(&error).is_some() && durability == Durability::Process && group.len() > 1 =>
            {
                // One of them does not fit. Each on its own, so that the others are not refused with it.
                for operation in group {
                    answer_refused(
                        write_in_space(keeper, target, &[*operation], durability, answers),
                        &[*operation],
                        answers,
                    )?;
                }
            }
            done => answer_refused(done, group, answers)?,
        }
    }
    Ok(())
}

/// The status of an operation that found no space.
fn refusal(error: &Error) -> Option<Status> {
    match error {
        error if error.is_table_full() => Some(Status::TableFull),
        Error::Image(ImageError::OutOfSpace { .. }) => Some(Status::OutOfSpace),
        _ => None,
    }
}

/// Answers a group that was refused; nothing of it was done.
fn answer_refused(done: Result<()>, group: &[Operation<'_>], answers: &mut dyn Answers) -> Result<()> {
    let Err(error) = done else { return Ok(()) };
    let status = refusal(&error).ok_or(error)?;
    group.iter().for_each(|operation| answers.answer(operation.index, status, 0));
    Ok(())
}

/// Takes the gets of keys that no other operation of the batch is about: they need no lock, and are looked up
/// together.
fn take_reads<'a, P: Persist, T: Planned<P>>(
    table: &T,
    operations: &mut Vec<Operation<'a>>,
) -> Vec<Operation<'a>> {
    let is_get = |operation: &Operation<'_>| operation.op == Op::Get;
    if operations.iter().filter(|operation| is_get(operation)).count() < WORTH_APART {
        return Vec::new();
    }
    let lock_of = |operation: &Operation<'_>| table.lock_key(operation.key);
    let mut others: Vec<LockKey> =
        operations.iter().filter(|operation| !is_get(operation)).map(lock_of).collect();
    others.sort_unstable();
    operations
        .extract_if(.., |operation| is_get(operation) && others.binary_search(&lock_of(operation)).is_err())
        .collect()
}

/// Looks keys up with the CPU, and answers each at its place in the batch.
fn read<P: Persist, T: Planned<P>>(table: &T, reads: &[Operation<'_>], answers: &mut dyn Answers) {
    table.get_many(reads.iter().map(|get| get.key), |index, found| {
        gets::answer(answers, reads[index].index, found);
    });
}

/// Writes a group; where space is missing that could be there, it is made.
fn write_in_space<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    group: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let mut search = Search::default();
    loop {
        match write(keeper, target, group, durability, answers) {
            Err(error) if search.goes_on(keeper, &error) => {}
            done => return done,
        }
    }
}

fn write<P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, T>,
    group: &[Operation<'_>],
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<()> {
    let table = target.table;
    let order = lock_order(table, group);
    loop {
        keeper.admit(durability)?;
        // Excludes the device's writes; there is none without a device.
        let lock = target.execution.write_lock();
        let mut changes = ChangeBatch::new();
        let staged = match stage(keeper, target, group, &order, &mut changes)? {
            Err(full) => {
                let _relocation = target.execution.relocation_lock();
                table.make_room(full).map_err(Into::into)?;
                continue;
            }
            Ok(staged) => staged,
        };
        if staged.changed {
            // The result holds the keys, until their record is in the log.
            drop(keeper.write(durability, &changes, || staged.stage.publish())?);
        } else {
            drop((staged.stage, lock));
            keeper.confirm(durability)?;
        }
        staged.given.into_iter().for_each(|answer| answer.give(answers));
        return Ok(());
    }
}

/// The operations of a group by their locks: those on one key come together, in the order of the batch.
fn lock_order<P: Persist, T: Planned<P>>(table: &T, group: &[Operation<'_>]) -> Vec<(LockKey, u32)> {
    let mut order: Vec<(LockKey, u32)> =
        group.iter().map(|operation| table.lock_key(operation.key)).zip(0..).collect();
    order.sort_unstable();
    order
}

/// A staged group and its answers.
struct Ready<S> {
    stage: S,
    given: Vec<Answer>,
    changed: bool,
}

/// Stages a group, and adds its changes to the log batch. `Err`, within, if the table has no room and must make
/// some.
fn stage<'t, P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'t, P, T>,
    group: &[Operation<'_>],
    order: &[(LockKey, u32)],
    changes: &mut ChangeBatch,
) -> Result<ReadyOr<'t, P, T>> {
    let reads = |number: u32| matches!(group[number as usize].op, Op::Get | Op::FetchAdd | Op::Merge);
    let mut stage = target
        .table
        .stage(order.iter().map(|&(lock, number)| LockRequest { lock, value_is_read: reads(number) }));
    let takes_value = |&&(_, number): &&(LockKey, u32)| group[number as usize].op.takes_value();
    stage.expect_values(order.iter().filter(takes_value).count());
    let (held, given) = decide_all(keeper, &stage, target.table, group, order);
    let mut changed = false;
    let staged = held.iter().try_for_each(|held| -> Result<()> {
        let (kind, version, value) = match &held.item {
            Item::New { version, value } => {
                stage.put(&held.seat, held.key, value, *version).map_err(Into::into)?;
                (ChangeKind::Put, *version, &value[..])
            }
            Item::Removed if stage.remove(&held.seat) => (ChangeKind::Delete, keeper.next_version(), &[][..]),
            // Created and removed within the group, or left alone.
            Item::Removed | Item::AsStored => return Ok(()),
        };
        changed = true;
        match keeper.log() {
            Some(_) => Ok(changes.push(&Change { table: target.id, kind, version, key: held.key, value })?),
            None => Ok(()),
        }
    });
    match staged {
        Err(error) if refusal(&error) == Some(Status::TableFull) => Ok(Err(stage.seen())),
        staged => staged.map(|()| Ok(Ready { stage, given, changed })),
    }
}

/// Decides every operation of a group, whose keys are held. `order` groups those on one key.
fn decide_all<'a, 't, P: Persist, T: Planned<P>>(
    keeper: &Keeper<P, Tables<P>>,
    stage: &StageOf<'t, P, T>,
    table: &T,
    group: &[Operation<'a>],
    order: &[(LockKey, u32)],
) -> (Vec<Held<'a, FoundOf<'t, P, T>>>, Vec<Answer>) {
    let rules = (table.merge_rule(), table.value_spec());
    let mut all: Vec<Held<'a, FoundOf<'t, P, T>>> = Vec::with_capacity(order.len());
    let mut given = Vec::with_capacity(order.len());
    for same_lock in order.chunk_by(|one, other| one.0 == other.0) {
        let first = all.len();
        for &(lock, number) in same_lock {
            let operation = &group[number as usize];
            // Different keys with one lock key are rare, but they exist.
            let known = all[first..].iter().position(|held| held.key == operation.key);
            let which = known.map_or_else(
                || {
                    let seat = stage.seat(operation.key, lock);
                    all.push(Held { key: operation.key, seat, item: Item::AsStored });
                    all.len() - 1
                },
                |known| first + known,
            );
            given.push(decide(operation, rules, stage, &mut all[which], || keeper.next_version()));
        }
    }
    (all, given)
}

impl Answer {
    fn give(self, answers: &mut dyn Answers) {
        match self.value {
            None => answers.answer(self.index, self.status, self.version),
            Some(value) => {
                answers.answer_value(self.index, self.status, self.version, &value);
            }
        }
    }
}

impl<F: Located> Held<'_, F> {
    /// The key's current version.
    fn version(&self) -> Option<u64> {
        match &self.item {
            Item::AsStored => self.seat.version(),
            Item::Removed => None,
            Item::New { version, .. } => Some(*version),
        }
    }

    /// Whether the key's value is known to be damaged.
    fn is_damaged<P: Persist>(&self, stage: &impl Staged<P, Found = F>) -> bool {
        matches!(self.item, Item::AsStored) && stage.value(&self.seat).is_some_and(|value| value.is_damaged())
    }

    /// A copy of the key's current value.
    fn value<P: Persist>(&self, stage: &impl Staged<P, Found = F>) -> Option<Vec<u8>> {
        match &self.item {
            Item::AsStored => stage.value(&self.seat).map(|value| value.to_vec()),
            Item::Removed => None,
            Item::New { value, .. } => Some(value.to_vec()),
        }
    }
}

/// Applies one operation to its key's state, and returns the answer.
fn decide<'a, P: Persist, S: Staged<P>>(
    operation: &Operation<'a>,
    (rule, values): (MergeRule, ValueSpec),
    stage: &S,
    held: &mut Held<'a, S::Found>,
    next_version: impl FnOnce() -> u64,
) -> Answer {
    let there = held.version();
    let answer = |status, version| Answer { index: operation.index, status, version, value: None };
    let declined = match (operation.op, there) {
        (Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap, None) => Some((Status::NotFound, 0)),
        (Op::Insert, Some(version)) => Some((Status::AlreadyExists, version)),
        (Op::CompareAndSwap, Some(version)) if version != operation.argument => {
            Some((Status::VersionMismatch, version))
        }
        (Op::Merge, _) if rule == MergeRule::None => Some((Status::WrongType, there.unwrap_or(0))),
        // A damaged value is not used as an operand. Replacing or removing it is allowed.
        (Op::Get | Op::FetchAdd | Op::Merge, Some(version)) if held.is_damaged(stage) => {
            Some((Status::Corrupt, version))
        }
        _ => None,
    };
    if let Some((status, version)) = declined {
        return answer(status, version);
    }
    let status = if there.is_some() { Status::Ok } else { Status::Created };
    let mut before = None;
    let value = match operation.op {
        Op::Get => return Answer { value: held.value(stage), ..answer(status, there.unwrap_or(0)) },
        Op::Delete => {
            held.item = Item::Removed;
            return answer(status, there.unwrap_or(0));
        }
        Op::FetchAdd => {
            let stored = held.value(stage).unwrap_or_else(|| vec![0; 8]);
            let Ok(number) = stored[..].try_into().map(u64::from_le_bytes) else {
                return answer(Status::WrongType, there.unwrap_or(0));
            };
            before = Some(stored);
            Cow::Owned(number.wrapping_add(operation.argument).to_le_bytes().to_vec())
        }
        Op::Merge => match held.value(stage) {
            None => Cow::Borrowed(operation.value),
            Some(mut merged) => {
                let refused = match rule.merge(&mut merged, operation.value) {
                    false => Some(Status::WrongType),
                    true => (!values.takes_len(merged.len())).then_some(Status::TooLarge),
                };
                if let Some(status) = refused {
                    return answer(status, there.unwrap_or(0));
                }
                Cow::Owned(merged)
            }
        },
        Op::Put | Op::Insert | Op::Update | Op::CompareAndSwap => Cow::Borrowed(operation.value),
    };
    let version = next_version();
    held.item = Item::New { version, value };
    Answer { value: before, ..answer(status, version) }
}

#[cfg(test)]
mod tests;
