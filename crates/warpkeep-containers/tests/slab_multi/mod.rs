//! Multimaps as the suites of containers see them.

use std::collections::BTreeMap;

use warpkeep_containers::{
    ContainerError, SlabAnswer, SlabHashOptions, SlabKey, SlabMultiMap, SlabMultiRequest, SlabValue,
};
use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_suites::device::{Container, Dice};

const KEYS: u64 = 12;

/// A multimap with slabs of this many bytes, which grows.
pub(crate) struct Multi<T, const SLAB_BYTES: u32>(T);

/// A multimap whose keys and values are of one type.
pub(crate) trait Table {
    type Word: SlabKey<Self::Word> + SlabValue;
    fn word(number: u64) -> Self::Word;
}

impl Table for SlabMultiMap<u32, u32> {
    type Word = u32;
    fn word(number: u64) -> u32 {
        number as u32
    }
}

impl Table for SlabMultiMap<u64, u64> {
    type Word = u64;
    fn word(number: u64) -> u64 {
        number
    }
}

type Event<K, V> = (SlabMultiRequest<K, V>, SlabAnswer<V>);

fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

/// Whether all pairs of a key are deleted at once now and then. Their values are equal, so that the number that was deleted says which.
fn has_one_value(key: u64) -> bool {
    key.is_multiple_of(3)
}

impl<W: SlabKey<W> + SlabValue, const SLAB_BYTES: u32> Container for Multi<SlabMultiMap<W, W>, SLAB_BYTES>
where
    SlabMultiMap<W, W>: Table<Word = W>,
{
    type Operation = SlabMultiRequest<W, W>;
    type Answer = SlabAnswer<W>;
    /// The values of each key, sorted.
    type Model = BTreeMap<W, Vec<W>>;

    const NAME: &'static str = "slab multimap";

    fn programs() -> Vec<Program> {
        SlabMultiMap::<W, W>::programs()
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let options = SlabHashOptions { slab_bytes: SLAB_BYTES, seed: Some(0), ..SlabHashOptions::default() };
        SlabMultiMap::new(device, options).map(Self).map_err(device_error)
    }

    fn operation(dice: &mut Dice) -> SlabMultiRequest<W, W> {
        let word = <SlabMultiMap<W, W>>::word;
        let (number, value) = (dice.below(KEYS), dice.below(1 << 20));
        let key = word(number);
        match dice.below(10) {
            0 => SlabMultiRequest::Search(key),
            1 => SlabMultiRequest::Count(key),
            2 if has_one_value(number) => SlabMultiRequest::DeleteAll(key),
            2..5 => SlabMultiRequest::Delete(key),
            _ => SlabMultiRequest::Insert(key, word(if has_one_value(number) { !number } else { value })),
        }
    }

    fn run(&mut self, batch: &[Self::Operation]) -> Result<Vec<Self::Answer>, DeviceError> {
        self.0.apply(batch).map_err(device_error)
    }

    fn check(
        model: &mut Self::Model,
        batch: &[Self::Operation],
        answers: &[Self::Answer],
    ) -> Result<(), String> {
        let mut of_key: BTreeMap<W, Vec<Event<W, W>>> = BTreeMap::new();
        for (request, answer) in batch.iter().zip(answers) {
            of_key.entry(request.key()).or_default().push((*request, *answer));
        }
        for (key, events) in of_key {
            let before = model.remove(&key).unwrap_or_default();
            let after = after(&before, &events).ok_or_else(|| {
                format!("no order of {events:?} explains key {key:?}, which had {before:?}")
            })?;
            if !after.is_empty() {
                model.insert(key, after);
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        let failed = |error: ContainerError| error.to_string();
        self.0.verify().map_err(failed)?;
        let mut found = Self::Model::new();
        for (key, value) in self.0.pairs().map_err(failed)? {
            found.entry(key).or_default().push(value);
        }
        found.values_mut().for_each(|values| values.sort_unstable());
        if &found != model {
            return Err(format!("there is {found:?}, and not {model:?}"));
        }
        let keys: Vec<W> = (0..KEYS).map(<SlabMultiMap<W, W>>::word).collect();
        for (key, mut values) in keys.iter().zip(self.0.search_all(&keys).map_err(failed)?) {
            values.sort_unstable();
            if values != model.get(key).cloned().unwrap_or_default() {
                return Err(format!("key {key:?} is said to have {values:?}, and not {:?}", model.get(key)));
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
fn after<K: Copy, V: SlabValue + Ord>(before: &[V], events: &[Event<K, V>]) -> Option<Vec<V>> {
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
    let is_right = |event: &Event<K, V>| match *event {
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
