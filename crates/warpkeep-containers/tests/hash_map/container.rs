//! The hash map as the suites of containers see it.

use warpkeep_containers::{ContainerError, HashMap, HashMapOptions, MapAnswer, MapOp};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_answers, check_contents, random_op};

/// A hash map whose keys come from a small set.
pub(crate) struct Pairs<K: TestKey = u64, V: TestValue = u64>(HashMap<K, V>);

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

impl<K: TestKey, V: TestValue> Container for Pairs<K, V> {
    type Operation = MapOp<K, V>;
    type Answer = MapAnswer<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "hash map";

    fn programs() -> Vec<Program> {
        vec![HashMap::<K, V>::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        HashMap::new(device, &HashMapOptions::default().seed(3)).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> MapOp<K, V> {
        // A few keys that collide in a batch, and many that make the map grow.
        let key = match dice.below(3) {
            0 => dice.below(20),
            1 => u64::MAX - dice.below(200),
            _ => dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        random_op(dice, K::cut(key))
    }

    fn run(&mut self, batch: &[MapOp<K, V>]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Model<K, V>, batch: &[MapOp<K, V>], answers: &[MapAnswer<V>]) -> Result<(), String> {
        check_answers(model, batch, answers)
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
