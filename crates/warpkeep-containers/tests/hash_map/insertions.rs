//! Batches of insertions alone, which are worked without a plan: with keys that occur several times in a batch, keys that are there, and keys without a slot.

use warpkeep_containers::{HashMap, HashMapOptions, MapAnswer, MapOp, MapOpKind, MapStatus, Upsert};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::crowded::slots;
use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_contents, expected};

/// The first batch of a map is a replacement, which on an empty map needs no plan, too.
pub(crate) struct Insertions<K: TestKey = u64, V: TestValue = u64>(HashMap<K, V>);

/// Room for the keys of some batches, so that no batch has to be planned because the map would grow.
const ITEMS: u64 = 400;

impl<K: TestKey, V: TestValue> Container for Insertions<K, V> {
    type Operation = (K, V);
    type Answer = MapAnswer<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "hash map, insertions alone";

    fn programs() -> Vec<Program> {
        vec![HashMap::<K, V>::program()]
    }

    fn create(device: &Device, operations: usize) -> Result<Self, DeviceError> {
        let options = HashMapOptions::default().seed(0).items(ITEMS.max(operations as u64));
        HashMap::new(device, &options).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> (K, V) {
        let key = match dice.below(4) {
            0 => K::cut(dice.below(20)),
            // Keys that fill two buckets, and others that want these and can be elsewhere.
            1 | 2 => {
                let number = dice.below(6 * slots::<K, V>());
                let first = number % 2;
                let other = if number < 2 * slots::<K, V>() { 0 } else { number % 64 / 2 * 2 };
                K::in_buckets(first, (1 - first) ^ other, number)
            }
            _ => K::cut(dice.below(1 << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        };
        (key, V::of(dice.below(100)))
    }

    fn run(&mut self, batch: &[(K, V)]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        let (keys, values): (Vec<K>, Vec<V>) = batch.iter().copied().unzip();
        let answers = match self.0.is_empty().map_err(device_error)? {
            true => self.0.upsert(Upsert::Replace, &keys, &values),
            false => self.0.insert(&keys, &values),
        };
        answers.map_err(device_error)
    }

    fn check(model: &mut Model<K, V>, batch: &[(K, V)], answers: &[MapAnswer<V>]) -> Result<(), String> {
        let kind = if model.is_empty() { MapOpKind::Put } else { MapOpKind::Insert };
        for ((key, value), answer) in batch.iter().zip(answers) {
            // Displacement may give up, and so few keys do not make a map grow.
            if answer.status == MapStatus::Full && !model.contains_key(key) {
                continue;
            }
            let right = expected(model, MapOp::new(kind, *key, *value));
            if *answer != right {
                return Err(format!("{key:?} was answered {answer:?} and not {right:?}"));
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
