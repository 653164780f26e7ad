//! Large batches that write, all of them the same: from host memory straight through the device, with a log or without.

use warpkeep_core::{Answers, Durability, HostBatch, Op, Status};
use warpkeep_gphash::Table;
use warpkeep_gphash::gpu::{HostWrites, PartAnswers, SentPart, Turn};
use warpkeep_image::Persist;

use super::logged::Logged;
use super::on_device::step_back;
use super::{Answer, Target};
use crate::tables::Tables;
use crate::{Error, Keeper, Result};

/// Operations that are worth it: fewer are staged, which takes fewer steps.
const WORTH_IT: usize = 2048;

/// How much of a batch was done.
#[derive(Default)]
pub(super) struct Straight {
    /// Operations that are answered, from the first on.
    pub(super) done: usize,
    /// The device was lost, and some of the others may have been done, too: with the version of the first operation, and then on.
    pub(super) interrupted: Option<u64>,
}

/// Does as much of a batch as can be done so.
pub(super) fn write<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    target: &Target<'_, P, Table<P>>,
    batch: &HostBatch<'_>,
    durability: Durability,
    answers: &mut dyn Answers,
) -> Result<Straight> {
    let mut straight = Straight::default();
    let Some(op) = batch.uniform_op() else { return Ok(straight) };
    // `Power` without a log is refused on the ordinary path.
    let large = batch.len() >= WORTH_IT && (keeper.log().is_some() || durability == Durability::Process);
    let device = target.engine.writer_for(batch.len()).filter(|_| large);
    let Some(device) = device.filter(|device| device.writes_straight(target.table, op)) else {
        return Ok(straight);
    };
    // The device does not report which version was removed.
    if op == Op::Delete && answers.rows_mut().is_none_or(|rows| rows.wants_versions()) {
        return Ok(straight);
    }
    keeper.admit(durability)?;
    // With `Power` all of it is one record of the log.
    let at_once = if durability == Durability::Power { batch.len() } else { 0 };
    let writes = HostWrites { op, batch: *batch, pool: keeper.items().pool(), at_once };
    let mut turn = device.turn();
    // Under the turn: versions of a key grow in the order of its changes.
    let first_version = keeper.next_versions(batch.len() as u64);
    let done = &mut straight.done;
    if keeper.log().is_none() {
        let wrote = turn.write_from_host(target.table, &writes, first_version, answers, done);
        if let Err(error) = wrote {
            step_back(target, error)?;
            straight.interrupted = Some(first_version);
        }
        return Ok(straight);
    }
    let logged = Logged { keeper, target, durability, op };
    let each = |turn: &mut Turn<'_, P>, part: &SentPart<'_, P>| write_logged(&logged, batch, turn, part);
    match turn.write_from_host_by(target.table, &writes, first_version, answers, done, each) {
        // Not of a part that was logged: that is done whatever becomes of the device.
        Err(Error::Table(error)) => step_back(target, error)?,
        wrote => wrote?,
    }
    Ok(straight)
}

/// Writes a part of a batch, and logs it.
fn write_logged<P: Persist>(
    logged: &Logged<'_, P>,
    batch: &HostBatch<'_>,
    turn: &mut Turn<'_, P>,
    part: &SentPart<'_, P>,
) -> Result<Option<PartAnswers>> {
    if logged.durability == Durability::Process {
        // Earlier parts may wait to be written. No thread that the log waits for needs the write lock.
        logged.keeper.admit(logged.durability)?;
    }
    let Some(stage) = part.decide(turn)? else { return Ok(None) };
    let row = |index: usize| batch.operation(part.first + index);
    let Some(committed) = logged.commit(stage, part.version, row)? else { return Ok(None) };
    let apart = committed.apart.into_iter();
    let apart = apart.map(|Answer { index, status, version, .. }| (index, status, version)).collect();
    Ok(Some(PartAnswers::Here { statuses: committed.statuses, apart }))
}

/// Answers for operations that are repeated, because it is unknown whether they were done: an insert that finds its
/// own value is the one that wrote it. A delete that finds no key may have removed it itself. Repeating puts and
/// updates has the same effect.
pub(super) struct Again<'a> {
    pub(super) answers: &'a mut dyn Answers,
    /// The version that operation 0 would have written.
    pub(super) first_version: u64,
    pub(super) op: Option<Op>,
}

impl Answers for Again<'_> {
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
