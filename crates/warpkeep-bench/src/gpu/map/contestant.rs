//! The map in device memory, and its CPU form.

use std::time::Instant;

use bytemuck::checked;
use warpkeep_containers::{
    DeviceAnswers, DeviceOps, HashMap, HashMapOptions, MapAnswer, MapOpKinds, MapStatus,
};
use warpkeep_device::Device;

use super::batch::Batch;
use super::pairs::{Key, Value};
use crate::BenchError;
use crate::gpu::{Clock, DEVICE};

/// The CPU form, as a variant of a case.
pub(super) const CPU: &str = "CPU form, one thread";

/// A map that is measured.
pub(super) struct Contestant<'d, K: Key, V: Value> {
    pub(super) name: &'static str,
    pub(super) map: HashMap<K, V>,
    /// Of the device that it is on; `None` on the CPU.
    on: Option<(&'d Device, &'d Clock)>,
}

impl<'d, K: Key, V: Value> Contestant<'d, K, V> {
    /// An empty map with this many slots in device memory.
    pub(super) fn on_device(
        device: &'d Device,
        clock: &'d Clock,
        slots: u64,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let map = HashMap::new(device, &room_for(slots, seed))?;
        Ok(Contestant { name: DEVICE, map, on: Some((device, clock)) })
    }

    /// The CPU form of such a map.
    pub(super) fn on_cpu(slots: u64, seed: u64) -> Self {
        Contestant { name: CPU, map: HashMap::on_cpu(&room_for(slots, seed)), on: None }
    }

    /// The seconds that a batch takes; every answer is checked.
    pub(super) fn run(&self, batch: &Batch<K, V>) -> Result<f64, BenchError> {
        let (seconds, answers) = match self.on {
            Some((device, clock)) => self.run_on(batch, device, clock)?,
            None => {
                let begun = Instant::now();
                let answers = self.map.apply(&batch.ops)?;
                (begun.elapsed().as_secs_f64().max(1e-9), answers)
            }
        };
        let wrong = answers.iter().zip(&batch.answers).position(|(given, right)| given != right);
        match wrong {
            None if answers.len() == batch.len() => Ok(seconds),
            None => Err(BenchError::Wrong(format!("{}: answers are missing", self.name))),
            Some(at) => Err(BenchError::Wrong(format!(
                "{}: operation {at} of {}, {:?}, was answered {:?}, and not {:?}",
                self.name,
                batch.len(),
                batch.ops[at],
                answers[at],
                batch.answers[at]
            ))),
        }
    }

    /// With operations and answers in device memory, as a program has them whose other half runs there.
    fn run_on(
        &self,
        batch: &Batch<K, V>,
        device: &Device,
        clock: &Clock,
    ) -> Result<(f64, Vec<MapAnswer<V>>), BenchError> {
        let count = batch.len();
        let keys = device.upload(&batch.ops.iter().map(|op| op.key).collect::<Vec<_>>())?;
        let values = device.upload(&batch.ops.iter().map(|op| op.value).collect::<Vec<_>>())?;
        let codes = match batch.kind {
            Some(_) => None,
            None => Some(device.upload(&batch.ops.iter().map(|op| op.kind as u8).collect::<Vec<_>>())?),
        };
        let kinds = match (batch.kind, &codes) {
            (None, Some(codes)) => MapOpKinds::Each(codes),
            (kind, _) => MapOpKinds::All(kind.unwrap_or(batch.ops[0].kind)),
        };
        let ops = DeviceOps { kinds, keys: &keys, values: Some(&values), count };
        let (mut statuses, mut before) =
            (device.allocate_zeroed(count)?, device.allocate_zeroed(size_of::<V>() * count)?);
        let answers = DeviceAnswers { statuses: &mut statuses, before: Some(&mut before) };
        let seconds = clock.time(|stream| self.map.apply_on(ops, answers, stream))?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[MapStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{}: an operation was not answered at all", self.name)))?;
        let before = before.to_vec::<V>()?;
        let answer = |(&status, before)| MapAnswer { status, before };
        Ok((seconds, statuses.iter().zip(before).map(answer).collect()))
    }

    /// Checks that a map has exactly these pairs, and that each can be found.
    pub(super) fn check(&self, mut expected: Vec<(K, V)>) -> Result<(), BenchError> {
        self.map.verify()?;
        let mut pairs = self.map.retrieve_all()?;
        pairs.sort_unstable();
        expected.sort_unstable();
        match pairs == expected {
            true => Ok(()),
            false => Err(BenchError::Wrong(format!(
                "{}: the map has {} pairs that are not the {} that were left in it",
                self.name,
                pairs.len(),
                expected.len()
            ))),
        }
    }
}

/// A map has the fewest slots of which the keys are 0.95 at the most.
fn room_for(slots: u64, seed: u64) -> HashMapOptions {
    HashMapOptions::default().items(slots * 95 / 100).seed(seed)
}
