//! Batches that a device writes in one pass, with a log: once it has decided which operations take effect, and
//! before any effect is in the image, their changes are laid out as one log record, by several threads. The keeper
//! then orders log and image.

use std::cell::RefCell;

use warpkeep_core::{Change, ChangeKind, Durability, Op, Operation};
use warpkeep_gphash::Table;
use warpkeep_gphash::gpu::{Decided, StraightStage};
use warpkeep_image::Persist;
use warpkeep_log::{ChangeBatch, ChangeForm, LaidRecord, PieceLen};
use warpkeep_record::{LockKey, Staging as _};

use super::on_device::step_back;
use super::{Answer, Target, refusal, stage};
use crate::tables::Tables;
use crate::{Error, Keeper, Result};

/// Operations whose changes one thread lays out at a time: as many bytes as stay in its cache until they are summed.
const SHARE: usize = 1 << 11;

/// Commits such batches.
pub(super) struct Logged<'l, P: Persist> {
    pub(super) keeper: &'l Keeper<P, Tables<P>>,
    pub(super) target: &'l Target<'l, P, Table<P>>,
    pub(super) durability: Durability,
    pub(super) op: Op,
}

/// The answers of a batch.
pub(super) struct Committed {
    /// By the device, a code each.
    pub(super) statuses: Vec<u8>,
    /// By the CPU, in place of that, in the order of the batch.
    pub(super) apart: Vec<Answer>,
}

impl<P: Persist> Logged<'_, P> {
    /// Logs and publishes a batch that is decided. `row` gives its operations by number; number `i` writes the version `first_version + i`.
    /// `None`, with nothing done, if it is to go another way: a new key has no place in the levels, or the device has stepped back.
    pub(super) fn commit<'r>(
        &self,
        mut straight: StraightStage<'_, '_, P>,
        first_version: u64,
        row: impl Fn(usize) -> Operation<'r> + Sync,
    ) -> Result<Option<Committed>> {
        let (keeper, target) = (self.keeper, self.target);
        let Some(device) = target.engine.writer() else { return Ok(None) };
        let watch = RefCell::new(device.watch_steps());
        let passed = |step| watch.borrow_mut().host(step);
        let Decided { acting, statuses, left } = match straight.learn() {
            Ok(decided) => decided,
            Err(error) => {
                drop(straight);
                return step_back(target, error).map(|()| None);
            }
        };
        passed("log: the host is told what acts");
        let operations: Vec<Operation<'_>> = left.iter().map(|&index| row(index as usize)).collect();
        // The CPU knows nothing of the slots that the device is about to fill, so it must not look for one.
        let is_new = |operation: &Operation<'_>| target.table.get(operation.key, |_| ()).is_none();
        if matches!(self.op, Op::Put | Op::Insert) && operations.iter().any(is_new) {
            return Ok(None);
        }
        let mut order: Vec<(LockKey, u32)> =
            operations.iter().map(|operation| target.table.lock_key(operation.key)).zip(0..).collect();
        order.sort_unstable();
        let mut changes = ChangeBatch::new();
        let beside = match stage(keeper, target, &operations, &order, &mut changes) {
            Ok(Ok(beside)) => beside,
            Ok(Err(_)) => return Ok(None),
            Err(error) if refusal(&error).is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut apart = beside.given;
        apart.sort_unstable_by_key(|answer| answer.index);
        let committed = Committed { statuses, apart };
        let acts = Acts { acting: &acting, first_version, row: &row };
        let pieces: Vec<PieceLen> =
            (0..acting.len().div_ceil(SHARE)).map(|number| self.piece_len(&acts, number)).collect();
        if pieces.iter().all(|piece| piece.changes() == 0) && !beside.changed {
            drop(beside.stage);
            // The device may keep its copy of the levels.
            let published = straight.publish(|| ());
            drop(straight);
            if let Err(error) = published {
                step_back(target, error)?;
            }
            keeper.confirm(self.durability)?;
            return Ok(Some(committed));
        }
        let lay = |log: &warpkeep_log::Log| Ok(log.lay(self.form(), &pieces, &changes)?);
        let fill = |record: &mut LaidRecord| {
            let pieces = record.pieces().into_iter().enumerate().collect();
            keeper.items().pool().share(pieces, |(number, mut piece)| {
                for (version, operation) in acts.of_share(number) {
                    piece.push(version, operation.key, operation.value);
                }
                piece.finish();
            });
            passed("log: the record is laid out");
        };
        keeper.write_laid(self.durability, lay, fill, |meanwhile| {
            if self.durability == Durability::Power {
                passed("log: the record is written and made durable");
            }
            let published = straight.publish(meanwhile);
            drop(straight);
            drop(beside.stage.publish());
            passed("log: the batch is published");
            match published {
                Ok(_) => Ok(()),
                // It is logged, or will be: so it happens.
                Err(_) => self.redo(&acts),
            }
        })?;
        // An error is the device's, and its next user gets it: the batch is done.
        let _ = watch.into_inner().finish();
        Ok(Some(committed))
    }

    /// The form of the batch's changes.
    fn form(&self) -> ChangeForm {
        let kind = if self.op == Op::Delete { ChangeKind::Delete } else { ChangeKind::Put };
        ChangeForm { table: self.target.id, kind }
    }

    /// How much the changes of a share take.
    fn piece_len<'r>(&self, acts: &Acts<'_, impl Fn(usize) -> Operation<'r>>, number: usize) -> PieceLen {
        let table = self.target.table;
        let value_len = if self.op == Op::Delete { 0 } else { table.value_spec().max_len() };
        if let Some(key_len) = table.key_spec().fixed_len() {
            return PieceLen::of(acts.count_of_share(number), key_len, value_len);
        }
        let mut len = PieceLen::default();
        acts.of_share(number).for_each(|(_, operation)| len.add(operation.key.len(), value_len));
        len
    }

    /// Does with the CPU what a lost device has not done. If that is not possible either, the log stops, and the
    /// next opening applies the record.
    fn redo<'r>(&self, acts: &Acts<'_, impl Fn(usize) -> Operation<'r>>) -> Result<()> {
        let Target { id, engine, table } = *self.target;
        engine.take_over(table);
        let _moving = engine.moving();
        let kind = self.form().kind;
        for (version, Operation { key, value, .. }) in acts.all() {
            if let Err(error) = table.redo(&Change { table: id, kind, version, key, value }) {
                return Err(match self.keeper.log() {
                    Some(log) => log.give_up(error.to_string()).into(),
                    None => Error::from(error),
                });
            }
        }
        Ok(())
    }
}

/// The operations of a batch that act.
struct Acts<'a, R> {
    acting: &'a [u8],
    first_version: u64,
    row: &'a R,
}

impl<'r, R: Fn(usize) -> Operation<'r>> Acts<'_, R> {
    /// The operations of a share, each with the version that it writes.
    fn of_share(&self, number: usize) -> impl Iterator<Item = (u64, Operation<'r>)> {
        let first = number * SHARE;
        self.between(first, (first + SHARE).min(self.acting.len()))
    }

    fn count_of_share(&self, number: usize) -> usize {
        let first = number * SHARE;
        self.acting[first..].iter().take(SHARE).map(|&acts| usize::from(acts)).sum()
    }

    fn all(&self) -> impl Iterator<Item = (u64, Operation<'r>)> {
        self.between(0, self.acting.len())
    }

    fn between(&self, first: usize, end: usize) -> impl Iterator<Item = (u64, Operation<'r>)> {
        let acting = (first..end).filter(|&index| self.acting[index] != 0);
        acting.map(|index| (self.first_version + index as u64, (self.row)(index)))
    }
}
