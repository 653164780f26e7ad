//! A SlabMultiMap as the suites of containers see it.

use std::collections::BTreeMap;

use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabMultiMap, SlabMultiRequest};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

const KEYS: u64 = 12;

/// A multimap with slabs of this many bytes, which grows.
pub(crate) struct Multi<const SLAB_BYTES: u32>(SlabMultiMap);

/// Whether all pairs of a key are deleted at once now and then. Their values are equal, so that the number that was deleted says which.
fn has_one_value(key: u32) -> bool {
    key.is_multiple_of(3)
}

impl<const SLAB_BYTES: u32> Container for Multi<SLAB_BYTES> {
    type Operation = SlabMultiRequest;
    type Answer = SlabAnswer;
    /// The values of each key, sorted.
    type Model = BTreeMap<u32, Vec<u32>>;

    const NAME: &'static str = "slab multimap";

    fn programs() -> Vec<Program> {
        SlabMultiMap::programs()
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let options = SlabHashOptions { slab_bytes: SLAB_BYTES, ..SlabHashOptions::default() };
        SlabMultiMap::new(device, options).map(Self)
    }

    fn operation(dice: &mut Dice) -> SlabMultiRequest {
        let (key, value) = (dice.below(KEYS) as u32, dice.below(1 << 20) as u32);
        match dice.below(10) {
            0 => SlabMultiRequest::Search(key),
            1 => SlabMultiRequest::Count(key),
            2 if has_one_value(key) => SlabMultiRequest::DeleteAll(key),
            2..5 => SlabMultiRequest::Delete(key),
            _ => SlabMultiRequest::Insert(key, if has_one_value(key) { !key } else { value }),
        }
    }

    fn run(&mut self, batch: &[SlabMultiRequest]) -> Result<Vec<SlabAnswer>, DeviceError> {
        self.0.apply(batch)
    }

    fn check(
        model: &mut Self::Model,
        batch: &[SlabMultiRequest],
        answers: &[SlabAnswer],
    ) -> Result<(), String> {
        let mut of_key: BTreeMap<u32, Vec<(SlabMultiRequest, SlabAnswer)>> = BTreeMap::new();
        for (request, answer) in batch.iter().zip(answers) {
            of_key.entry(request.key()).or_default().push((*request, *answer));
        }
        for (key, events) in of_key {
            let before = model.remove(&key).unwrap_or_default();
            let after = after(&before, &events)
                .ok_or_else(|| format!("no order of {events:?} explains key {key}, which had {before:?}"))?;
            if !after.is_empty() {
                model.insert(key, after);
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        let failed = |error: DeviceError| error.to_string();
        let mut found = Self::Model::new();
        for (key, value) in self.0.pairs().map_err(failed)? {
            found.entry(key).or_default().push(value);
        }
        found.values_mut().for_each(|values| values.sort_unstable());
        if &found != model {
            return Err(format!("there is {found:?}, and not {model:?}"));
        }
        let keys: Vec<u32> = (0..KEYS as u32).collect();
        for (key, mut values) in keys.iter().zip(self.0.search_all(&keys).map_err(failed)?) {
            values.sort_unstable();
            if values != model.get(key).cloned().unwrap_or_default() {
                return Err(format!("key {key} is said to have {values:?}, and not {:?}", model.get(key)));
            }
        }
        let (len, expected) = (self.0.len().map_err(failed)?, model.values().map(Vec::len).sum::<usize>());
        if len == expected as u64 {
            Ok(())
        } else {
            Err(format!("{len} pairs are counted, and not {expected}"))
        }
    }
}

/// The values of a key after requests that ran at the same time, or nothing if the answers cannot be right.
fn after(before: &[u32], events: &[(SlabMultiRequest, SlabAnswer)]) -> Option<Vec<u32>> {
    let mut all = before.to_vec();
    for event in events {
        if let (SlabMultiRequest::Insert(_, value), SlabAnswer::Inserted) = event {
            all.push(*value);
        }
    }
    let (mut left, mut removed, mut swept) = (all.clone(), 0, false);
    for event in events {
        match *event {
            (SlabMultiRequest::Delete(_), SlabAnswer::Removed(value)) => {
                left.swap_remove(left.iter().position(|other| *other == value)?);
                removed += 1;
            }
            (SlabMultiRequest::DeleteAll(_), SlabAnswer::Counted(count)) => {
                left.truncate(left.len().checked_sub(count as usize)?);
                removed += count as usize;
                swept = true;
            }
            _ => {}
        }
    }
    // What was there and was not removed was there all the time.
    let stayed = before.len().saturating_sub(removed);
    let is_right = |event: &(SlabMultiRequest, SlabAnswer)| match *event {
        (SlabMultiRequest::Search(_), SlabAnswer::Found(value)) => all.contains(&value),
        (SlabMultiRequest::Search(_) | SlabMultiRequest::Delete(_), SlabAnswer::Absent) => stayed == 0,
        (SlabMultiRequest::Count(_), SlabAnswer::Counted(count)) => {
            (stayed..=all.len()).contains(&(count as usize))
        }
        (SlabMultiRequest::Insert(..), SlabAnswer::Inserted)
        | (SlabMultiRequest::Delete(_), SlabAnswer::Removed(_))
        | (SlabMultiRequest::DeleteAll(_), SlabAnswer::Counted(_)) => true,
        _ => false,
    };
    left.sort_unstable();
    (events.iter().all(is_right) && (!swept || stayed == 0)).then_some(left)
}
