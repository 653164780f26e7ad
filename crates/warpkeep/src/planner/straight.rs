//! Large batches that write, all of them the same, where there is no log: from host memory straight through the device.

use warpkeep_core::{Answers, Durability, HostBatch, Op, Status};
use warpkeep_gphash::Table;
use warpkeep_gphash::gpu::HostWrites;
use warpkeep_image::Persist;

use super::Target;
use super::on_device::step_back;
use crate::tables::Tables;
use crate::{Keeper, Result};

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
    let large = batch.len() >= WORTH_IT && keeper.log().is_none() && durability == Durability::Process;
    let device = target.engine.writer_for(batch.len()).filter(|_| large);
    let Some(device) = device.filter(|device| device.writes_straight(target.table, op)) else {
        return Ok(straight);
    };
    keeper.admit(durability)?;
    let first_version = keeper.next_versions(batch.len() as u64);
    let writes = HostWrites { op, batch: *batch, pool: keeper.items().pool(), at_once: 0 };
    let mut turn = device.turn();
    let wrote = turn.write_from_host(target.table, &writes, first_version, answers, &mut straight.done);
    if let Err(error) = wrote {
        step_back(target, error)?;
        straight.interrupted = Some(first_version);
    }
    Ok(straight)
}

/// Answers for operations that are done again, because nobody knows whether they were done: an insert that finds what it has written
/// itself was the one that wrote it. Of puts and updates doing them again makes the same.
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
            (_, status) => status,
        };
        self.answers.answer(index, status, version);
    }

    fn answer_value(&mut self, index: usize, status: Status, version: u64, value: &[u8]) -> Status {
        self.answers.answer_value(index, status, version, value)
    }
}
