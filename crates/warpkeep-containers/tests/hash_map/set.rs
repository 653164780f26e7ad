//! The hash set as the suites of containers see it.

use std::collections::BTreeSet;

use warpkeep_containers::{ContainerError, HashMapOptions, HashSet, MapOp, MapOpKind, MapOpKinds, MapStatus};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::keys::TestKey;

/// A set whose batches are mixed ones in device memory.
pub(crate) struct Keys<K: TestKey = u64>(Device, HashSet<K>);

type Operation<K> = (MapOpKind, K);

fn run<K: TestKey>(
    device: &Device,
    set: &HashSet<K>,
    batch: &[Operation<K>],
) -> Result<Vec<MapStatus>, ContainerError> {
    let keys = device.upload(&batch.iter().map(|op| op.1).collect::<Vec<K>>())?;
    let codes = device.upload(&batch.iter().map(|op| op.0 as u8).collect::<Vec<u8>>())?;
    let (mut statuses, stream) = (device.allocate(batch.len())?, device.stream()?);
    set.apply_on(MapOpKinds::Each(&codes), &keys, batch.len(), &mut statuses, &stream)?;
    let statuses = statuses.to_vec::<u8>()?;
    Ok(bytemuck::checked::cast_slice(&statuses).to_vec())
}

fn check<K: TestKey>(
    model: &mut BTreeSet<K>,
    batch: &[Operation<K>],
    answers: &[MapStatus],
) -> Result<(), String> {
    for ((kind, key), answer) in batch.iter().zip(answers) {
        let is_there = model.contains(key);
        let right = match (kind, is_there) {
            // There is room, but displacement may give up, and few keys do not make a set grow.
            (MapOpKind::Insert, false) if *answer == MapStatus::Full => continue,
            (MapOpKind::Insert, false) => MapStatus::Inserted,
            (MapOpKind::Erase, true) => MapStatus::Erased,
            (_, true) => MapStatus::Found,
            (_, false) => MapStatus::Absent,
        };
        if *answer != right {
            return Err(format!("{kind:?} of {key:?} was answered {answer:?} and not {right:?}"));
        }
        match right {
            MapStatus::Inserted => model.insert(*key),
            MapStatus::Erased => model.remove(key),
            _ => false,
        };
    }
    Ok(())
}

fn compare<K: TestKey>(set: &HashSet<K>, model: &BTreeSet<K>) -> Result<(), String> {
    let failed = |error: ContainerError| error.to_string();
    set.verify().map_err(failed)?;
    let (keys, length) = (set.retrieve_all().map_err(failed)?, set.len().map_err(failed)?);
    if keys.len() as u64 != length || &keys.into_iter().collect::<BTreeSet<K>>() != model {
        return Err(format!("{length} keys, and not {}", model.len()));
    }
    Ok(())
}

fn kind(dice: &mut Dice) -> MapOpKind {
    [MapOpKind::Insert, MapOpKind::Insert, MapOpKind::Insert, MapOpKind::Contains, MapOpKind::Erase]
        [dice.below(5) as usize]
}

impl<K: TestKey> Container for Keys<K> {
    type Operation = Operation<K>;
    type Answer = MapStatus;
    type Model = BTreeSet<K>;

    const NAME: &'static str = "hash set";

    fn programs() -> Vec<Program> {
        vec![HashSet::<K>::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let set = HashSet::new(device, &HashMapOptions::default().seed(0)).map_err(device_error)?;
        Ok(Self(device.clone(), set))
    }

    fn operation(dice: &mut Dice) -> Operation<K> {
        let key = if dice.below(2) == 0 { dice.below(20) } else { u64::MAX - dice.below(1 << 30) };
        (kind(dice), K::cut(key))
    }

    fn run(&mut self, batch: &[Operation<K>]) -> Result<Vec<MapStatus>, DeviceError> {
        // The device plans large batches, which takes long in a seeded schedule.
        if batch.len() > 100 {
            return run(&self.0, &self.1, batch).map_err(device_error);
        }
        let ops: Vec<MapOp<K>> = batch.iter().map(|(kind, key)| MapOp::new(*kind, *key, 7)).collect();
        self.1.apply(&ops).map_err(device_error)
    }

    fn check(model: &mut Self::Model, batch: &[Operation<K>], answers: &[MapStatus]) -> Result<(), String> {
        check(model, batch, answers)
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        compare(&self.1, model)
    }
}

/// A set whose keys compete for two buckets: displacements meet there.
pub(crate) struct CrowdedKeys<K: TestKey = u64>(HashSet<K>);

impl<K: TestKey> Container for CrowdedKeys<K> {
    type Operation = Operation<K>;
    type Answer = MapStatus;
    type Model = BTreeSet<K>;

    const NAME: &'static str = "hash set with few buckets";

    fn programs() -> Vec<Program> {
        vec![HashSet::<K>::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        HashSet::new(device, &HashMapOptions::default().seed(0)).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> Operation<K> {
        // As many keys as the buckets 0 and 1 have slots have no other place, and twice as many do.
        let slots = 2 * 64 / size_of::<K>() as u64;
        let number = dice.below(3 * slots);
        let first = number % 2;
        let second = if number < slots { 1 - first } else { (first ^ 1) ^ (number % 64 / 2 * 2) };
        let key = K::in_buckets(first, second, number);
        (if dice.below(10) == 0 { MapOpKind::Erase } else { MapOpKind::Insert }, key)
    }

    fn run(&mut self, batch: &[Operation<K>]) -> Result<Vec<MapStatus>, DeviceError> {
        // All erasures, and then all insertions.
        let of = |kind| batch.iter().filter(|op| op.0 == kind).map(|op| op.1).collect::<Vec<K>>();
        let mut erased = self.0.erase(&of(MapOpKind::Erase)).map_err(device_error)?.into_iter();
        let mut inserted = self.0.insert(&of(MapOpKind::Insert)).map_err(device_error)?.into_iter();
        let next = |op: &Operation<K>| match op.0 {
            MapOpKind::Erase => erased.next(),
            _ => inserted.next(),
        };
        Ok(batch.iter().filter_map(next).collect())
    }

    fn check(model: &mut Self::Model, batch: &[Operation<K>], answers: &[MapStatus]) -> Result<(), String> {
        let (mut batch, mut answers) = (batch.to_vec(), answers.to_vec());
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by_key(|&at| batch[at].0 != MapOpKind::Erase);
        batch = order.iter().map(|&at| batch[at]).collect();
        answers = order.iter().map(|&at| answers[at]).collect();
        check(model, &batch, &answers)
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        compare(&self.0, model)
    }
}
