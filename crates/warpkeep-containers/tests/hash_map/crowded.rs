//! A hash map whose keys compete for two buckets: displacements meet there.

use warpkeep_containers::{HashMap, HashMapOptions, MapAnswer, MapOp, MapStatus};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::keys::key_of_hash;
use crate::model::{Model, check_contents, expected, random_op};

/// Keys that can be in these two buckets alone, and all keys: the others can be elsewhere.
const BOUND: u64 = 8;
const KEYS: u64 = 32;

pub(crate) struct Crowded(HashMap);

impl Container for Crowded {
    type Operation = MapOp;
    type Answer = MapAnswer;
    type Model = Model;

    const NAME: &'static str = "hash map with few buckets";

    fn programs() -> Vec<Program> {
        vec![HashMap::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        HashMap::new(device, &HashMapOptions::default().seed(0)).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> MapOp {
        let number = dice.below(KEYS);
        // The first bucket is 0 or 1; what the second one differs by is 1, or a number for each two keys.
        let differs = if number < BOUND { 0 } else { number };
        let key = key_of_hash((number % 2) | (differs << 32) | (number << 48));
        match dice.below(6) {
            0 => random_op(dice, key),
            _ => MapOp::put(key, dice.below(100)),
        }
    }

    fn run(&mut self, batch: &[MapOp]) -> Result<Vec<MapAnswer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Model, batch: &[MapOp], answers: &[MapAnswer]) -> Result<(), String> {
        for (op, answer) in batch.iter().zip(answers) {
            let is_new = !model.contains_key(&op.key) && op.kind.inserts();
            // There is room for all, but displacement may give up, and so few keys do not make a map grow.
            if answer.status == MapStatus::Full && is_new && answer.before == 0 {
                continue;
            }
            let right = expected(model, *op);
            if *answer != right {
                return Err(format!("{op:?} was answered {answer:?} and not {right:?}"));
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Model) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
