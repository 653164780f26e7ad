//! The hash map as the suites of containers see it.

use std::collections::BTreeMap;

use warpkeep_containers::{ContainerError, HashMap, HashMapOptions, MapAnswer, MapOp, MapOpKind, MapStatus};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

pub(crate) const KINDS: [MapOpKind; 8] = [
    MapOpKind::Insert,
    MapOpKind::Put,
    MapOpKind::Add,
    MapOpKind::Min,
    MapOpKind::Max,
    MapOpKind::Find,
    MapOpKind::Contains,
    MapOpKind::Erase,
];

/// What the operations answer, and what they leave.
pub(crate) fn expected(model: &mut BTreeMap<u64, u64>, op: MapOp) -> MapAnswer {
    let old = model.get(&op.key).copied();
    let (status, new) = match (op.kind, old) {
        (MapOpKind::Find | MapOpKind::Contains, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Insert, Some(old)) => (MapStatus::Found, Some(old)),
        (MapOpKind::Erase, Some(_)) => (MapStatus::Erased, None),
        (MapOpKind::Put, Some(_)) => (MapStatus::Updated, Some(op.value)),
        (MapOpKind::Add, Some(old)) => (MapStatus::Updated, Some(old.wrapping_add(op.value))),
        (MapOpKind::Min, Some(old)) => (MapStatus::Updated, Some(old.min(op.value))),
        (MapOpKind::Max, Some(old)) => (MapStatus::Updated, Some(old.max(op.value))),
        (MapOpKind::Find | MapOpKind::Contains | MapOpKind::Erase, None) => (MapStatus::Absent, None),
        (_, None) => (MapStatus::Inserted, Some(op.value)),
    };
    match new {
        Some(new) => model.insert(op.key, new),
        None => model.remove(&op.key),
    };
    MapAnswer { status, before: if op.kind == MapOpKind::Contains { 0 } else { old.unwrap_or(0) } }
}

/// An error unless the map has these pairs and is sound.
pub(crate) fn check_contents(map: &HashMap, model: &BTreeMap<u64, u64>) -> Result<(), ContainerError> {
    let wrong = |what: String| Err(ContainerError::Inconsistent { what });
    map.verify()?;
    let pairs = map.retrieve_all()?;
    let found: BTreeMap<u64, u64> = pairs.iter().copied().collect();
    if &found != model || pairs.len() != model.len() {
        return wrong(format!("there is {found:?}, and not {model:?}"));
    }
    if map.len()? != model.len() as u64 {
        return wrong(format!("the length is {} and not {}", map.len()?, model.len()));
    }
    Ok(())
}

/// A hash map whose keys come from a small set.
pub(crate) struct Pairs(pub(crate) HashMap);

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

pub(crate) fn random_op(dice: &mut Dice, key: u64) -> MapOp {
    MapOp::new(KINDS[dice.below(8) as usize], key, dice.below(100))
}

pub(crate) fn check_answers(
    model: &mut BTreeMap<u64, u64>,
    batch: &[MapOp],
    answers: &[MapAnswer],
) -> Result<(), String> {
    for (at, (op, answer)) in batch.iter().zip(answers).enumerate() {
        let right = expected(model, *op);
        if *answer != right {
            return Err(format!("operation {at}, {op:?}, was answered {answer:?} and not {right:?}"));
        }
    }
    Ok(())
}

impl Container for Pairs {
    type Operation = MapOp;
    type Answer = MapAnswer;
    type Model = BTreeMap<u64, u64>;

    const NAME: &'static str = "hash map";

    fn programs() -> Vec<Program> {
        vec![HashMap::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        HashMap::new(device, &HashMapOptions::default().seed(3)).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> MapOp {
        // A few keys that collide in a batch, and many that make the map grow.
        let key = match dice.below(3) {
            0 => dice.below(20),
            1 => u64::MAX - dice.below(200),
            _ => dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        random_op(dice, key)
    }

    fn run(&mut self, batch: &[MapOp]) -> Result<Vec<MapAnswer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Self::Model, batch: &[MapOp], answers: &[MapAnswer]) -> Result<(), String> {
        check_answers(model, batch, answers)
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        check_contents(&self.0, model).map_err(|error| error.to_string())
    }
}

/// The key whose hash this is, with the seed 0: the inverse of `mix64` of `warpkeep/hash.h`.
#[allow(dead_code, reason = "not every program that has this module chooses keys by their hashes")]
pub(crate) fn key_of_hash(hash: u64) -> u64 {
    let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))));
    let unshift = |x: u64| x ^ (x >> 29) ^ (x >> 58);
    let mut x = unshift(hash).wrapping_mul(inverse(0x510E_527F_ADE6_82D1));
    x = (x ^ (x >> 32)).wrapping_mul(inverse(0xA54F_F53A_5F1D_36F1));
    x = unshift(x).wrapping_mul(inverse(0xBB67_AE85_84CA_A73B));
    x ^ (x >> 32) ^ 0x9B05_688C_2B3E_6C1F
}
