//! Kernels that use `warpkeep/hash_map.h` as anybody's kernels may.

use std::collections::BTreeMap;

use bytemuck::NoUninit;
use warpkeep_containers::{HashMap, HashMapOptions, HashMapRef, MapAnswer, MapOpKind, MapStatus};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::model::{Model, check_contents};

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    map: HashMapRef,
    keys: DevicePtr,
    operands: DevicePtr,
    statuses: DevicePtr,
    before: DevicePtr,
    count: u64,
    op: u64,
}

warpkeep_device::kernel_set! {
    struct CallKernels in "hash_map_calls.cu", prefix "hash_map_calls_" {
        run: Params,
    }
}

/// A map that kernels change with calls of their threads.
pub(crate) struct Calls {
    device: Device,
    map: HashMap,
    kernels: CallKernels,
}

/// A key and what is added to its value; with 0 the key is erased.
type Operation = (u64, u64);

impl Calls {
    fn call(&self, kind: MapOpKind, ops: &[Operation]) -> Result<Vec<MapAnswer>, DeviceError> {
        let (device, count) = (&self.device, ops.len());
        let stream = device.stream()?;
        let keys = device.upload(&ops.iter().map(|op| op.0).collect::<Vec<u64>>())?;
        let operands = device.upload(&ops.iter().map(|op| op.1).collect::<Vec<u64>>())?;
        let (statuses, before) = (device.allocate(count)?, device.allocate(8 * count)?);
        let params = Params {
            map: self.map.reference().map_err(device_error)?,
            keys: keys.ptr(),
            operands: operands.ptr(),
            statuses: statuses.ptr(),
            before: before.ptr(),
            count: count as u64,
            op: kind as u64,
        };
        // SAFETY: the columns have `count` elements, and no other call uses the map until the stream is synchronised.
        unsafe { self.kernels.run.launch(Grid::covering(count as u64, 32), &params, &stream)? };
        stream.synchronize()?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[MapStatus] = bytemuck::checked::cast_slice(&statuses);
        let answer = |(&status, before): (&MapStatus, u64)| MapAnswer { status, before };
        Ok(statuses.iter().zip(before.to_vec::<u64>()?).map(answer).collect())
    }
}

impl Container for Calls {
    type Operation = Operation;
    type Answer = MapAnswer;
    type Model = Model;

    const NAME: &'static str = "hash map of other kernels";

    fn programs() -> Vec<Program> {
        vec![CallKernels::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let map = HashMap::new(device, &HashMapOptions::default().seed(3)).map_err(device_error)?;
        Ok(Self { device: device.clone(), map, kernels: CallKernels::load(device)? })
    }

    fn operation(dice: &mut Dice) -> Operation {
        (dice.below(12), if dice.below(4) == 0 { 0 } else { 1 + dice.below(3) })
    }

    fn run(&mut self, batch: &[Operation]) -> Result<Vec<MapAnswer>, DeviceError> {
        // Two kernels, because what adds keys and what erases them may not run at the same time.
        let (adds, erases): (Vec<_>, Vec<_>) = batch.iter().copied().partition(|op| op.1 > 0);
        let mut added = self.call(MapOpKind::Add, &adds)?.into_iter();
        let mut erased = self.call(MapOpKind::Erase, &erases)?.into_iter();
        let next = |op: &Operation| if op.1 > 0 { added.next() } else { erased.next() };
        Ok(batch.iter().filter_map(next).collect())
    }

    fn check(model: &mut Model, batch: &[Operation], answers: &[MapAnswer]) -> Result<(), String> {
        let mut by_key: BTreeMap<(u64, bool), Vec<(u64, MapAnswer)>> = BTreeMap::new();
        for (&(key, amount), answer) in batch.iter().zip(answers) {
            by_key.entry((key, amount == 0)).or_default().push((amount, *answer));
        }
        for ((key, erases), mut calls) in by_key {
            // Additions happened in the order of the values that they found.
            calls.sort_by_key(|(_, answer)| (answer.status != MapStatus::Inserted, answer.before));
            if erases {
                calls.sort_by_key(|(_, answer)| answer.status != MapStatus::Erased);
            }
            for (amount, answer) in calls {
                let old = model.get(&key).copied();
                let status = match (erases, old) {
                    (true, None) => MapStatus::Absent,
                    (true, Some(_)) => MapStatus::Erased,
                    (false, None) => MapStatus::Inserted,
                    (false, Some(_)) => MapStatus::Updated,
                };
                let right = MapAnswer { status, before: old.unwrap_or(0) };
                if answer != right {
                    return Err(format!("{amount} of key {key} was answered {answer:?} and not {right:?}"));
                }
                match erases {
                    true => model.remove(&key),
                    false => model.insert(key, old.unwrap_or(0) + amount),
                };
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Model) -> Result<(), String> {
        check_contents(&self.map, model).map_err(|error| error.to_string())?;
        let asked: Vec<Operation> = (0..14).map(|key| (key, 0)).collect();
        for kind in [MapOpKind::Find, MapOpKind::Contains] {
            let answers = self.call(kind, &asked).map_err(|error| error.to_string())?;
            for ((key, _), answer) in asked.iter().zip(answers) {
                let value = model.get(key).copied();
                let found = answer.status == MapStatus::Found;
                if found != value.is_some() || kind == MapOpKind::Find && value.unwrap_or(0) != answer.before
                {
                    return Err(format!("{kind:?} of {key} was answered {answer:?}, and there is {value:?}"));
                }
            }
        }
        Ok(())
    }
}
