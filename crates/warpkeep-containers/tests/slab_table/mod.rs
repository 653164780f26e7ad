//! A SlabMap as the suites of containers see it: few buckets, so that chains grow and requests collide.

use std::collections::{BTreeMap, BTreeSet};

use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMap, SlabRequest};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

const KEYS: u64 = 90;

/// A map with slabs of this many bytes, which keeps its four buckets or grows.
pub(crate) struct Map<const SLAB_BYTES: u32, const GROWS: bool>(SlabMap);

/// Keys from both ends of the range.
fn key(dice: &mut Dice) -> u32 {
    let number = dice.below(KEYS) as u32;
    if number.is_multiple_of(2) { number / 2 } else { u32::MAX - number / 2 }
}

impl<const SLAB_BYTES: u32, const GROWS: bool> Container for Map<SLAB_BYTES, GROWS> {
    type Operation = SlabRequest;
    type Answer = SlabAnswer;
    type Model = BTreeMap<u32, u32>;

    const NAME: &'static str = "slab map";

    fn programs() -> Vec<Program> {
        SlabMap::programs()
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let most_buckets = if GROWS { 1 << 20 } else { 4 };
        let options = SlabHashOptions { slab_bytes: SLAB_BYTES, most_buckets, ..SlabHashOptions::default() };
        SlabMap::new(device, options).map(Self)
    }

    fn operation(dice: &mut Dice) -> SlabRequest {
        let (key, value) = (key(dice), dice.below(1 << 20) as u32);
        match dice.below(5) {
            0 => SlabRequest::Search(key),
            1 => SlabRequest::Delete(key),
            2 => SlabRequest::Replace(key, value),
            _ => SlabRequest::Insert(key, value),
        }
    }

    fn run(&mut self, batch: &[SlabRequest]) -> Result<Vec<SlabAnswer>, DeviceError> {
        self.0.apply(batch)
    }

    fn check(model: &mut Self::Model, batch: &[SlabRequest], answers: &[SlabAnswer]) -> Result<(), String> {
        let mut of_key: BTreeMap<u32, Vec<(SlabRequest, SlabAnswer)>> = BTreeMap::new();
        for (request, answer) in batch.iter().zip(answers) {
            of_key.entry(request.key()).or_default().push((*request, *answer));
        }
        for (key, events) in of_key {
            let after = explain(model.get(&key).copied(), &events).ok_or_else(|| {
                format!("no order of {events:?} explains key {key}, which had {:?}", model.get(&key))
            })?;
            match after {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        Ok(())
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        let failed = |error: DeviceError| error.to_string();
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
fn explain(before: Option<u32>, events: &[(SlabRequest, SlabAnswer)]) -> Option<Option<u32>> {
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
    let mut balance: BTreeMap<Option<u32>, i64> = BTreeMap::from([(before, 0)]);
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
