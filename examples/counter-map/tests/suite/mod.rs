//! The counter map as the suites of containers see it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use warpkeep_device::{Device, DeviceError, Program};
use warpkeep_example_counter_map::CounterMap;
use warpkeep_suites::device::{Container, Dice};

pub(crate) struct Counters(CounterMap);

/// A key and what is added to its counter; 0 only asks for it.
pub(crate) type Operation = (NonZeroU64, u64);

const KEYS: u64 = 50;

impl Container for Counters {
    type Operation = Operation;
    type Answer = u64;
    type Model = BTreeMap<NonZeroU64, u64>;

    const NAME: &'static str = "counter map";

    fn programs() -> Vec<Program> {
        vec![CounterMap::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        // A table that is full when it has all keys.
        CounterMap::new(device, KEYS as usize).map(Self)
    }

    fn operation(dice: &mut Dice) -> Operation {
        (NonZeroU64::MIN.saturating_add(dice.below(KEYS)), dice.below(4))
    }

    fn run(&mut self, batch: &[Operation]) -> Result<Vec<u64>, DeviceError> {
        // Two kernels: all additions, then all counters that are only asked for.
        let (adds, gets): (Vec<_>, Vec<_>) = batch.iter().copied().partition(|(_, amount)| *amount > 0);
        let mut added =
            self.0.add(&adds)?.into_iter().map(|count| count.expect("there is a slot for each key"));
        let keys: Vec<NonZeroU64> = gets.into_iter().map(|(key, _)| key).collect();
        let mut found = self.0.get(&keys)?.into_iter();
        let next = |&(_, amount): &Operation| if amount > 0 { added.next() } else { found.next() };
        Ok(batch.iter().filter_map(next).collect())
    }

    fn check(model: &mut Self::Model, batch: &[Operation], answers: &[u64]) -> Result<(), String> {
        // Additions to a key happened in the order of their answers.
        let mut in_order: Vec<(&Operation, &u64)> = batch.iter().zip(answers).collect();
        in_order.sort_by_key(|&(operation, count)| (operation.1 == 0, *count));
        for (&(key, amount), &answer) in in_order {
            let count = model.get(&key).copied().unwrap_or(0) + amount;
            if answer != count {
                return Err(format!("{amount} added to key {key} gives {answer}, and not {count}"));
            }
            if amount > 0 {
                model.insert(key, count);
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Self::Model) -> Result<(), String> {
        let items = self.0.items().map_err(|error| error.to_string())?;
        let found: Self::Model = items.iter().copied().collect();
        if &found == model && items.len() == model.len() {
            return Ok(());
        }
        Err(format!("there is {items:?}, and not {model:?}"))
    }
}
