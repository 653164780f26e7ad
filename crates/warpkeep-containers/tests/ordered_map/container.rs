//! The ordered map as the suites of containers see it.

use warpkeep_containers::{
    ContainerError, OrderedAnswer, OrderedKey, OrderedMap, OrderedMapOptions, OrderedOp, OrderedWord,
};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::model::{KINDS, Model, check_answers, check_contents, key_of, shift};

/// An ordered map whose keys come from a small set.
pub(crate) struct Pairs<K, V>(OrderedMap<K, V>);

pub(crate) type Wide = Pairs<u64, u64>;
pub(crate) type Narrow = Pairs<u32, u32>;
pub(crate) type Widest = Pairs<u128, u64>;

fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

/// A few keys that meet in a batch, and many that make leaves split.
fn random_key<K: OrderedWord>(dice: &mut Dice) -> K {
    key_of(match dice.below(3) {
        0 => dice.below(20),
        1 => u64::MAX - dice.below(200),
        _ => dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    })
}

pub(crate) fn random_op<K: OrderedWord, V: OrderedWord>(dice: &mut Dice) -> OrderedOp<K, V> {
    let (kind, key) = (KINDS[dice.below(14) as usize], random_key::<K>(dice));
    // Most ranges are short, some have a large part of the keys, some are none.
    let end = match dice.below(4) {
        0 => random_key(dice),
        _ => K::from_u128(key.to_u128().wrapping_add(u128::from(dice.below(64)) << shift::<K>())),
    };
    OrderedOp { kind, key, end, value: key_of(dice.below(100)) }
}

impl<K: OrderedKey<V>, V: OrderedWord> Container for Pairs<K, V> {
    type Operation = OrderedOp<K, V>;
    type Answer = OrderedAnswer<K, V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "ordered map";

    fn programs() -> Vec<Program> {
        vec![OrderedMap::<K, V>::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        OrderedMap::new(device, &OrderedMapOptions::default()).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> OrderedOp<K, V> {
        random_op(dice)
    }

    fn run(&mut self, batch: &[OrderedOp<K, V>]) -> Result<Vec<OrderedAnswer<K, V>>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(
        model: &mut Model<K, V>,
        batch: &[OrderedOp<K, V>],
        answers: &[OrderedAnswer<K, V>],
    ) -> Result<(), String> {
        check_answers(model, batch, answers)
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}
