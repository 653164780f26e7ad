//! The cuckoo index as the suites of containers see it: with room for all, and with four buckets.

use warpkeep_containers::{
    ContainerError, CuckooIndex, CuckooIndexOptions, IndexAnswer, IndexOp, IndexOpKind, IndexStatus,
};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::model::{Model, check_answers, check_contents, random_op};

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

/// An index with room for all that is inserted.
pub(crate) struct Entries(CuckooIndex);

impl Container for Entries {
    type Operation = IndexOp;
    type Answer = IndexAnswer;
    type Model = Model;

    const NAME: &'static str = "cuckoo index";

    fn programs() -> Vec<Program> {
        vec![CuckooIndex::program()]
    }

    fn create(device: &Device, operations: usize) -> Result<Self, DeviceError> {
        let options = CuckooIndexOptions::default().items(2 * operations as u64);
        CuckooIndex::new(device, &options).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> IndexOp {
        if dice.below(3) > 0 {
            let hash = dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            return random_op(dice, hash);
        }
        // A few hashes, on which operations of a batch meet. Most delete, so that two buckets have room for all.
        let hash = dice.below(7).wrapping_mul(0x2000_0001_0000_0003);
        match random_op(dice, hash) {
            op if op.location < 2 => op,
            op => IndexOp::delete(hash, op.location % 2),
        }
    }

    fn run(&mut self, batch: &[IndexOp]) -> Result<Vec<IndexAnswer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Model, batch: &[IndexOp], answers: &[IndexAnswer]) -> Result<(), String> {
        match answers.iter().position(|answer| answer.status == IndexStatus::Full) {
            Some(at) => Err(format!("there was no cell for {:?}", batch[at])),
            None => check_answers(model, batch, answers),
        }
    }

    fn compare(&self, model: &Model) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}

/// An index with four buckets that is full nearly all the time: displacements meet there.
pub(crate) struct Crowded(CuckooIndex);

impl Container for Crowded {
    type Operation = IndexOp;
    type Answer = IndexAnswer;
    type Model = Model;

    const NAME: &'static str = "cuckoo index with few buckets";

    fn programs() -> Vec<Program> {
        vec![CuckooIndex::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let options = CuckooIndexOptions::default().items(28);
        CuckooIndex::new(device, &options).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> IndexOp {
        let hash = dice.below(64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match dice.below(6) {
            0 => random_op(dice, hash),
            _ => IndexOp::insert(hash, dice.below(1 << 20) as u32),
        }
    }

    fn run(&mut self, batch: &[IndexOp]) -> Result<Vec<IndexAnswer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Model, batch: &[IndexOp], answers: &[IndexAnswer]) -> Result<(), String> {
        let is_full = answers.iter().any(|answer| answer.status == IndexStatus::Full);
        check_answers(model, batch, answers)?;
        let there: usize = model.values().map(Vec::len).sum();
        // The two buckets of what was refused are full. Whatever else a batch does, it may delete them afterwards.
        let only_adds = batch.iter().all(|op| op.kind == IndexOpKind::Insert);
        match is_full && only_adds && there < 16 {
            true => Err(format!("one was refused and {there} are there")),
            false => Ok(()),
        }
    }

    fn compare(&self, model: &Model) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
