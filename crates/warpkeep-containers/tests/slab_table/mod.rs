//! Slab maps and slab sets as the suites of containers see them: few buckets, so that chains grow and requests collide.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use warpkeep_containers::{
    ContainerError, SlabAnswer, SlabHashOptions, SlabKey, SlabMap, SlabRequest, SlabSet,
};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

const KEYS: u64 = 90;

/// A slab hash with unique keys.
pub(crate) trait Table: Sized {
    type Key: SlabKey<Self::Value>;
    type Value: Copy + Ord + Default + Debug + Send + Sync;

    fn programs() -> Vec<Program>;
    fn create(device: &Device, options: SlabHashOptions) -> Result<Self, ContainerError>;
    fn apply(&mut self, batch: &[Request<Self>]) -> Result<Vec<SlabAnswer<Self::Value>>, ContainerError>;
    fn pairs(&self) -> Result<Vec<Pair<Self>>, ContainerError>;
    fn len(&self) -> Result<u64, ContainerError>;
    fn verify(&self) -> Result<(), ContainerError>;
    /// The key and the value that the lower bits of a number are.
    fn pair_of(key: u64, value: u64) -> (Self::Key, Self::Value);
}

pub(crate) type Pair<T> = (<T as Table>::Key, <T as Table>::Value);
type Event<T> = (Request<T>, SlabAnswer<<T as Table>::Value>);
pub(crate) type Request<T> = SlabRequest<<T as Table>::Key, <T as Table>::Value>;

macro_rules! table {
    ($table:ty, $key:ty, $value:ty, $pairs:expr, $value_of:expr) => {
        impl Table for $table {
            type Key = $key;
            type Value = $value;

            fn programs() -> Vec<Program> {
                <$table>::programs()
            }

            fn create(device: &Device, options: SlabHashOptions) -> Result<Self, ContainerError> {
                <$table>::new(device, options)
            }

            fn apply(&mut self, batch: &[Request<Self>]) -> Result<Vec<SlabAnswer<$value>>, ContainerError> {
                self.apply(batch)
            }

            fn pairs(&self) -> Result<Vec<($key, $value)>, ContainerError> {
                let pairs: fn(&$table) -> Result<Vec<($key, $value)>, ContainerError> = $pairs;
                pairs(self)
            }

            fn len(&self) -> Result<u64, ContainerError> {
                self.len()
            }

            fn verify(&self) -> Result<(), ContainerError> {
                self.verify()
            }

            fn pair_of(key: u64, value: u64) -> ($key, $value) {
                let value_of: fn(u64) -> $value = $value_of;
                (key as $key, value_of(value))
            }
        }
    };
}

table!(SlabMap<u32, u32>, u32, u32, |map| map.pairs(), |value| value as u32);
table!(SlabMap<u64, u64>, u64, u64, |map| map.pairs(), |value| value);
table!(SlabSet<u32>, u32, (), |set| Ok(set.keys()?.into_iter().map(|key| (key, ())).collect()), |_| ());
table!(SlabSet<u64>, u64, (), |set| Ok(set.keys()?.into_iter().map(|key| (key, ())).collect()), |_| ());

/// A table with slabs of this many bytes, which keeps its four buckets or grows.
pub(crate) struct Slabs<T, const SLAB_BYTES: u32, const GROWS: bool>(T);

/// Keys from both ends of the range, and values that differ in all of their bits.
fn pair<T: Table>(dice: &mut Dice) -> (T::Key, T::Value) {
    let (number, value) = (dice.below(KEYS), dice.below(1 << 20));
    let key = if number.is_multiple_of(2) { number / 2 } else { u64::MAX - number / 2 };
    T::pair_of(key, value | value << 40)
}

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

impl<T: Table, const SLAB_BYTES: u32, const GROWS: bool> Container for Slabs<T, SLAB_BYTES, GROWS> {
    type Operation = Request<T>;
    type Answer = SlabAnswer<T::Value>;
    type Model = BTreeMap<T::Key, T::Value>;

    const NAME: &'static str = "slab hash with unique keys";

    fn programs() -> Vec<Program> {
        T::programs()
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let most_buckets = if GROWS { 1 << 20 } else { 4 };
        let options = SlabHashOptions {
            slab_bytes: SLAB_BYTES,
            most_buckets,
            seed: Some(0),
            ..SlabHashOptions::default()
        };
        T::create(device, options).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> Request<T> {
        let (key, value) = pair::<T>(dice);
        match dice.below(5) {
            0 => SlabRequest::Search(key),
            1 => SlabRequest::Delete(key),
            2 => SlabRequest::Replace(key, value),
            _ => SlabRequest::Insert(key, value),
        }
    }

    fn run(&mut self, batch: &[Request<T>]) -> Result<Vec<Self::Answer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(model: &mut Self::Model, batch: &[Request<T>], answers: &[Self::Answer]) -> Result<(), String> {
        let mut of_key: BTreeMap<T::Key, Vec<Event<T>>> = BTreeMap::new();
        for (request, answer) in batch.iter().zip(answers) {
            of_key.entry(request.key()).or_default().push((*request, *answer));
        }
        for (key, events) in of_key {
            let after = explain(model.get(&key).copied(), &events).ok_or_else(|| {
                format!("no order of {events:?} explains key {key:?}, which had {:?}", model.get(&key))
            })?;
            match after {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        Ok(())
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        let failed = |error: ContainerError| error.to_string();
        self.0.verify().map_err(failed)?;
        let pairs = self.0.pairs().map_err(failed)?;
        let (len, found) = (self.0.len().map_err(failed)?, pairs.iter().copied().collect::<Self::Model>());
        if &found == model && pairs.len() == model.len() && len == model.len() as u64 {
            return Ok(());
        }
        Err(format!("there are {len} pairs, {pairs:?}, and not {model:?}"))
    }
}

/// The value of a key after requests that ran at the same time, if some order of them gives these answers. Each request that changed something
/// leads from one value to another: all of them have to lie on one way from the first value, which exists if every value is entered as often as it
/// is left, except for the first and the last one, and all can be reached. The other requests need their value to lie on that way.
pub(crate) fn explain<K: Copy, V: Copy + Ord>(
    before: Option<V>,
    events: &[(SlabRequest<K, V>, SlabAnswer<V>)],
) -> Option<Option<V>> {
    let (mut steps, mut seen) = (Vec::new(), Vec::new());
    for event in events {
        match *event {
            (SlabRequest::Insert(_, new) | SlabRequest::Replace(_, new), SlabAnswer::Inserted) => {
                steps.push((None, Some(new)));
            }
            (SlabRequest::Replace(_, new), SlabAnswer::Updated(old)) => steps.push((Some(old), Some(new))),
            (SlabRequest::Delete(_), SlabAnswer::Removed(old)) => steps.push((Some(old), None)),
            (SlabRequest::Search(_), SlabAnswer::Found(value))
            | (SlabRequest::Insert(..), SlabAnswer::Present(value)) => seen.push(Some(value)),
            (SlabRequest::Search(_) | SlabRequest::Delete(_), SlabAnswer::Absent) => seen.push(None),
            _ => return None,
        }
    }
    let mut balance: BTreeMap<Option<V>, i64> = BTreeMap::from([(before, 0)]);
    for (from, to) in &steps {
        *balance.entry(*from).or_default() += 1;
        *balance.entry(*to).or_default() -= 1;
    }
    let ends: Vec<_> =
        balance.iter().filter(|(_, balance)| **balance != 0).map(|(at, by)| (*at, *by)).collect();
    let after = match ends[..] {
        [] => before,
        [(one, 1), (other, -1)] | [(other, -1), (one, 1)] if one == before => other,
        _ => return None,
    };
    let mut reached = BTreeSet::from([before]);
    while let Some((_, to)) = steps.iter().find(|(from, to)| reached.contains(from) && !reached.contains(to))
    {
        reached.insert(*to);
    }
    let all = steps.iter().map(|(from, _)| from).chain(&seen).all(|value| reached.contains(value));
    all.then_some(after)
}
