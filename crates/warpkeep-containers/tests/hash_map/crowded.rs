//! A hash map whose keys compete for two buckets: displacements meet there.

use warpkeep_containers::{HashMap, HashMapOptions, MapAnswer, MapOp, MapStatus};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_contents, expected, random_op};

/// Slots of a bucket.
pub(crate) fn slots<K, V>() -> u64 {
    match size_of::<K>() + size_of::<V>() % 16 {
        4 => 16,
        8 => 8,
        _ => 4,
    }
}

pub(crate) struct Crowded<K: TestKey = u64, V: TestValue = u64>(HashMap<K, V>);

impl<K: TestKey, V: TestValue> Container for Crowded<K, V> {
    type Operation = MapOp<K, V>;
    type Answer = MapAnswer<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "hash map with few buckets";

    fn programs() -> Vec<Program> {
        vec![HashMap::<K, V>::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        HashMap::new(device, &HashMapOptions::default().seed(0)).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> MapOp<K, V> {
        // Keys that can be in two buckets alone, and others that can be elsewhere, too.
        let (bound, keys) = (2 * slots::<K, V>(), 8 * slots::<K, V>());
        let number = dice.below(keys);
        let first = number % 2;
        let second = if number < bound { 1 - first } else { (first ^ 1) ^ (number % 64 / 2 * 2) };
        let key = K::in_buckets(first, second, number);
        match dice.below(6) {
            0 => random_op(dice, key),
            _ => MapOp::put(key, V::of(dice.below(100))),
        }
    }

    fn run(&mut self, batch: &[MapOp<K, V>]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Model<K, V>, batch: &[MapOp<K, V>], answers: &[MapAnswer<V>]) -> Result<(), String> {
        for (op, answer) in batch.iter().zip(answers) {
            let is_new = !model.contains_key(&op.key) && op.kind.inserts();
            // There is room for all, but displacement may give up, and so few keys do not make a map grow.
            if answer.status == MapStatus::Full && is_new && answer.before == bytemuck::Zeroable::zeroed() {
                continue;
            }
            let right = expected(model, *op);
            if *answer != right {
                return Err(format!("{op:?} was answered {answer:?} and not {right:?}"));
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
