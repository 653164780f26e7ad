//! Kernels that change a map through `warpkeep/ordered_writer.h`, and whether some order explains their answers.

use std::collections::{BTreeMap, HashSet};

use bytemuck::NoUninit;
use warpkeep_containers::{
    ContainerError, OrderedKey, OrderedMap, OrderedMapOptions, OrderedOp, OrderedOpKind, OrderedStatus,
    OrderedWord, OrderedWriter, OrderedWriterRef,
};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, TypedKernel};
use warpkeep_suites::device::{Container, Dice};

use crate::model::{KINDS, Model, check_contents, expected, key_of};

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
pub(crate) struct Params {
    map: OrderedWriterRef,
    codes: DevicePtr,
    keys: DevicePtr,
    operands: DevicePtr,
    statuses: DevicePtr,
    before: DevicePtr,
    times: DevicePtr,
    clock: DevicePtr,
    count: u64,
    each: u64,
}

warpkeep_device::kernel_set! {
    pub(crate) struct ChangeKernels in "ordered_map_calls.cu", prefix "ordered_map_calls_" {
        change_u32: Params,
        change_u64: Params,
        change_u128: Params,
    }
}

/// The kernel that changes maps with these keys.
pub(crate) fn kernel<K: OrderedWord>(device: &Device) -> Result<TypedKernel<Params>, DeviceError> {
    let kernels = ChangeKernels::load(device)?;
    Ok(match size_of::<K>() {
        4 => kernels.change_u32,
        8 => kernels.change_u64,
        _ => kernels.change_u128,
    })
}

/// An answer, and when the operation began and ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<V> {
    pub(crate) status: OrderedStatus,
    pub(crate) before: V,
    begun: u64,
    ended: u64,
}

/// Runs operations in one kernel, each thread `each` of them one after the other. Without `timed` any order of them may explain the answers.
pub(crate) fn run_ops<K: OrderedKey<V>, V: OrderedWord>(
    device: &Device,
    kernel: &TypedKernel<Params>,
    writer: &OrderedWriter<K, V>,
    ops: &[OrderedOp<K, V>],
    each: u64,
    timed: bool,
) -> Result<Vec<Change<V>>, DeviceError> {
    let (stream, count) = (device.stream()?, ops.len());
    let codes = device.upload(&ops.iter().map(|op| op.kind as u8).collect::<Vec<u8>>())?;
    let keys = device.upload(&ops.iter().map(|op| op.key).collect::<Vec<K>>())?;
    let operands = device.upload(&ops.iter().map(|op| op.value).collect::<Vec<V>>())?;
    let (statuses, before) = (device.allocate(count)?, device.allocate(size_of::<V>() * count)?);
    let times = device.allocate_zeroed(16 * count)?;
    let clock = device.allocate_zeroed(8)?;
    let params = Params {
        map: writer.reference(),
        codes: codes.ptr(),
        keys: keys.ptr(),
        operands: operands.ptr(),
        statuses: statuses.ptr(),
        before: before.ptr(),
        times: if timed { times.ptr() } else { DevicePtr::NULL },
        clock: clock.ptr(),
        count: count as u64,
        each,
    };
    // SAFETY: the columns have an element for each operation, and the writer is there until the stream is synchronised.
    unsafe { kernel.launch(Grid::covering((count as u64).div_ceil(each), 32), &params, &stream)? };
    stream.synchronize()?;
    let statuses = statuses.to_vec::<u8>()?;
    let statuses: &[OrderedStatus] = bytemuck::checked::cast_slice(&statuses);
    let (before, times) = (before.to_vec::<V>()?, times.to_vec::<u64>()?);
    let change = |at: usize| Change {
        status: statuses[at],
        before: before[at],
        begun: if timed { times[2 * at] } else { 0 },
        ended: if timed { times[2 * at + 1] } else { u64::MAX },
    };
    Ok((0..count).map(change).collect())
}

/// One operation of a key, and the answer to it.
type Call<K, V> = (OrderedOp<K, V>, Change<V>);

/// Whether the answers are those of some order of the operations in which each acts between its begin and its end; the model becomes what that order
/// leaves. Operations on different keys do not concern each other, so each key is looked at alone.
pub(crate) fn explain<K: OrderedWord, V: OrderedWord>(
    model: &mut Model<K, V>,
    ops: &[OrderedOp<K, V>],
    changes: &[Change<V>],
) -> Result<(), String> {
    let mut by_key: BTreeMap<K, Vec<Call<K, V>>> = BTreeMap::new();
    for (op, change) in ops.iter().zip(changes) {
        // What there was no memory for has not happened.
        if change.status != OrderedStatus::Full {
            by_key.entry(op.key).or_default().push((*op, *change));
        }
    }
    for (key, mut calls) in by_key {
        assert!(calls.len() <= 128, "too many operations on one key to look at");
        calls.sort_by_key(|(_, change)| change.begun);
        let mut seen = HashSet::new();
        let mut its: Model<K, V> = model.get(&key).map(|value| (key, *value)).into_iter().collect();
        if !walk(&mut its, &calls, 0, &mut seen) {
            return Err(format!("no order explains {calls:?} of a key that had {:?}", model.get(&key)));
        }
        match its.get(&key) {
            Some(value) => model.insert(key, *value),
            None => model.remove(&key),
        };
    }
    Ok(())
}

/// Finds an order for the calls that are not in `done`.
fn walk<K: OrderedWord, V: OrderedWord>(
    model: &mut Model<K, V>,
    calls: &[Call<K, V>],
    done: u128,
    seen: &mut HashSet<(u128, Option<V>)>,
) -> bool {
    let left = || (0..calls.len()).filter(|at| done >> at & 1 == 0);
    let Some(deadline) = left().map(|at| calls[at].1.ended).min() else { return true };
    let now = model.values().next().copied();
    if !seen.insert((done, now)) {
        return false;
    }
    for at in left().filter(|at| calls[*at].1.begun <= deadline) {
        let (op, change) = &calls[at];
        let answer = expected(model, op);
        if (answer.status, answer.value) == (change.status, change.before)
            && walk(model, calls, done | 1 << at, seen)
        {
            return true;
        }
        model.clear();
        model.extend(now.map(|value| (op.key, value)));
    }
    false
}

/// An ordered map that only kernels change.
pub(crate) struct Changes<K, V> {
    device: Device,
    map: OrderedMap<K, V>,
    kernel: TypedKernel<Params>,
    batches: u64,
}

pub(crate) type WideChanges = Changes<u64, u64>;
pub(crate) type NarrowChanges = Changes<u32, u32>;
pub(crate) type WidestChanges = Changes<u128, u64>;

pub(crate) fn device_error(error: ContainerError) -> DeviceError {
    match error {
        ContainerError::Device(error) => error,
        other => panic!("{other}"),
    }
}

/// Keys that meet, keys of one leaf and its neighbours, both ends, and keys anywhere.
fn random_key<K: OrderedWord>(dice: &mut Dice) -> K {
    key_of(match dice.below(4) {
        0 => dice.below(40),
        1 => 1000 + dice.below(300),
        2 => u64::MAX - dice.below(40),
        _ => dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    })
}

impl<K: OrderedKey<V>, V: OrderedWord> Container for Changes<K, V> {
    type Operation = OrderedOp<K, V>;
    type Answer = Change<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "ordered map that kernels change";

    fn programs() -> Vec<Program> {
        vec![ChangeKernels::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let map = OrderedMap::new(device, &OrderedMapOptions::default()).map_err(device_error)?;
        Ok(Self { device: device.clone(), map, kernel: kernel::<K>(device)?, batches: 0 })
    }

    fn operation(dice: &mut Dice) -> OrderedOp<K, V> {
        // Mostly operations that add keys, so that leaves split.
        let kind = match dice.below(3) {
            0 => OrderedOpKind::Put,
            _ => KINDS[dice.below(8) as usize],
        };
        OrderedOp::new(kind, random_key(dice), key_of(1 + dice.below(100)))
    }

    fn run(&mut self, batch: &[OrderedOp<K, V>]) -> Result<Vec<Change<V>>, DeviceError> {
        self.batches += 1;
        let writer = self.map.writer(batch.len() as u64).map_err(device_error)?;
        let mut changes = Vec::new();
        if !batch.is_empty() {
            // Taking the time orders memory, so that it is not taken every time.
            let (each, timed) = (1 + self.batches % 3, self.batches.is_multiple_of(2));
            changes = run_ops(&self.device, &self.kernel, &writer, batch, each, timed)?;
        }
        writer.finish().map_err(device_error)?;
        Ok(changes)
    }

    fn check(
        model: &mut Model<K, V>,
        batch: &[OrderedOp<K, V>],
        changes: &[Change<V>],
    ) -> Result<(), String> {
        if let Some(change) = changes.iter().find(|change| change.status == OrderedStatus::Full) {
            return Err(format!("{change:?} with enough memory"));
        }
        explain(model, batch, changes)
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.map, model).map_err(|error| error.to_string())
    }
}
