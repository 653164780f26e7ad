//! Kernels that use `warpkeep/hash_map.h` as anybody's kernels may.

use std::collections::BTreeMap;

use bytemuck::NoUninit;
use warpkeep_containers::{HashMap, HashMapOptions, HashMapRef, MapAnswer, MapOpKind, MapStatus};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, TypedKernel};
use warpkeep_suites::device::{Container, Dice};

use crate::container::device_error;
use crate::keys::{TestKey, TestValue};
use crate::model::{Model, check_contents};

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Params<K, V> {
    pub(crate) map: HashMapRef<K, V>,
    pub(crate) keys: DevicePtr,
    pub(crate) operands: DevicePtr,
    pub(crate) statuses: DevicePtr,
    pub(crate) before: DevicePtr,
    pub(crate) count: u64,
    pub(crate) op: u64,
}

// SAFETY: words of eight bytes, without padding.
unsafe impl<K: Copy + 'static, V: Copy + 'static> NoUninit for Params<K, V> {}

type P88 = Params<u64, u64>;
type P84 = Params<u64, u32>;
type P816 = Params<u64, [u64; 2]>;
type P44 = Params<u32, u32>;
type P48 = Params<u32, u64>;
type P416 = Params<u32, [u64; 2]>;

warpkeep_device::kernel_set! {
    pub(crate) struct CallKernels in "hash_map_calls.cu", prefix "hash_map_calls_" {
        run_8_8: P88,
        run_8_4: P84,
        run_8_16: P816,
        run_4_4: P44,
        run_4_8: P48,
        run_4_16: P416,
        put_and_find_8_8: P88,
        put_and_find_8_4: P84,
        put_and_find_8_16: P816,
        put_and_find_4_4: P44,
        put_and_find_4_8: P48,
        put_and_find_4_16: P416,
    }
}

/// A map that kernels change with calls of their threads.
pub(crate) struct Calls<K: TestKey = u64, V: TestValue = u64> {
    device: Device,
    map: HashMap<K, V>,
    run: TypedKernel<Params<K, V>>,
    put_and_find: TypedKernel<Params<K, V>>,
}

/// Loads the kernels of its widths.
pub(crate) trait Widths<K: TestKey, V: TestValue> {
    fn kernels(device: &Device) -> Result<[TypedKernel<Params<K, V>>; 2], DeviceError>;
}

macro_rules! widths {
    ($($key:ty, $value:ty: $run:ident, $put_and_find:ident;)*) => {$(
        impl Widths<$key, $value> for CallKernels {
            fn kernels(device: &Device) -> Result<[TypedKernel<Params<$key, $value>>; 2], DeviceError> {
                let kernels = CallKernels::load(device)?;
                Ok([kernels.$run, kernels.$put_and_find])
            }
        }
    )*};
}

widths! {
    u64, u64: run_8_8, put_and_find_8_8;
    u64, u32: run_8_4, put_and_find_8_4;
    u64, [u64; 2]: run_8_16, put_and_find_8_16;
    u32, u32: run_4_4, put_and_find_4_4;
    u32, u64: run_4_8, put_and_find_4_8;
    u32, [u64; 2]: run_4_16, put_and_find_4_16;
}

/// A key and the number of a value that is added, or put where values are no numbers; with 0 the key is erased.
pub(crate) type Operation = (u64, u64);

/// The number of an operation's value, and the answer to it.
type Call<V> = (u64, MapAnswer<V>);

impl<K: TestKey, V: TestValue> Calls<K, V>
where
    CallKernels: Widths<K, V>,
{
    pub(crate) fn call(&self, kind: MapOpKind, ops: &[Operation]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        self.launch(&self.run, kind, ops)
    }

    fn launch(
        &self,
        kernel: &TypedKernel<Params<K, V>>,
        kind: MapOpKind,
        ops: &[Operation],
    ) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        let (device, count) = (&self.device, ops.len());
        let stream = device.stream()?;
        let keys = device.upload(&ops.iter().map(|op| K::cut(op.0)).collect::<Vec<K>>())?;
        let operands = device.upload(&ops.iter().map(|op| V::of(op.1)).collect::<Vec<V>>())?;
        let (statuses, before) = (device.allocate(count)?, device.allocate(size_of::<V>() * count)?);
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
        unsafe { kernel.launch(Grid::covering(count as u64, 32), &params, &stream)? };
        stream.synchronize()?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[MapStatus] = bytemuck::checked::cast_slice(&statuses);
        let answer = |(&status, before): (&MapStatus, V)| MapAnswer { status, before };
        Ok(statuses.iter().zip(before.to_vec::<V>()?).map(answer).collect())
    }

    /// In a new map: every other thread puts a value, and those between find one. The answers of the latter.
    pub(crate) fn find_beside_puts(&self, ops: &[Operation]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        let other = Self::create(&self.device, 0)?;
        let answers = other.launch(&self.put_and_find, MapOpKind::Put, ops)?;
        Ok(answers.into_iter().skip(1).step_by(2).collect())
    }

    /// In a new map: half of the threads put the values of their keys, which are numbers from 1 on, and the others find them or nothing; an
    /// error if one finds something else.
    fn put_and_find(&self, keys: u64) -> Result<(), String> {
        let ops: Vec<Operation> = (0..4 * keys).map(|i| (i / 2 % keys, i / 2 % keys + 1)).collect();
        let failed = |error: DeviceError| error.to_string();
        let answers = self.find_beside_puts(&ops).map_err(failed)?;
        for ((key, number), answer) in ops.iter().skip(1).step_by(2).zip(&answers) {
            let none = bytemuck::Zeroable::zeroed();
            let right = [(MapStatus::Found, V::of(*number)), (MapStatus::Absent, none)];
            if !right.contains(&(answer.status, answer.before)) {
                return Err(format!("key {key} was found with {answer:?}"));
            }
        }
        Ok(())
    }
}

impl<K: TestKey, V: TestValue> Container for Calls<K, V>
where
    CallKernels: Widths<K, V>,
{
    type Operation = Operation;
    type Answer = MapAnswer<V>;
    type Model = Model<K, V>;

    const NAME: &'static str = "hash map of other kernels";

    fn programs() -> Vec<Program> {
        vec![CallKernels::program()]
    }

    fn create(device: &Device, _operations: usize) -> Result<Self, DeviceError> {
        let map = HashMap::new(device, &HashMapOptions::default().seed(3)).map_err(device_error)?;
        let [run, put_and_find] = CallKernels::kernels(device)?;
        Ok(Self { device: device.clone(), map, run, put_and_find })
    }

    fn operation(dice: &mut Dice) -> Operation {
        (dice.below(12), if dice.below(4) == 0 { 0 } else { 1 + dice.below(3) })
    }

    fn run(&mut self, batch: &[Operation]) -> Result<Vec<MapAnswer<V>>, DeviceError> {
        // Two kernels, because what adds keys and what erases them may not run at the same time.
        let (adds, erases): (Vec<_>, Vec<_>) = batch.iter().copied().partition(|op| op.1 > 0);
        let kind = if V::NUMBERS { MapOpKind::Add } else { MapOpKind::Put };
        let mut added = self.call(kind, &adds)?.into_iter();
        let mut erased = self.call(MapOpKind::Erase, &erases)?.into_iter();
        let next = |op: &Operation| if op.1 > 0 { added.next() } else { erased.next() };
        Ok(batch.iter().filter_map(next).collect())
    }

    fn check(model: &mut Model<K, V>, batch: &[Operation], answers: &[MapAnswer<V>]) -> Result<(), String> {
        let mut by_key: BTreeMap<(u64, bool), Vec<Call<V>>> = BTreeMap::new();
        for (&(key, amount), answer) in batch.iter().zip(answers) {
            by_key.entry((key, amount == 0)).or_default().push((amount, *answer));
        }
        for ((key, erases), mut calls) in by_key {
            match (erases, V::NUMBERS) {
                (true, _) => calls.sort_by_key(|(_, answer)| answer.status != MapStatus::Erased),
                // Additions happened in the order of the values that they found.
                (false, true) => {
                    calls.sort_by_key(|(_, answer)| (answer.status != MapStatus::Inserted, answer.before));
                }
                // Each found the value of the one before it.
                (false, false) => chain(model.get(&K::cut(key)).copied(), &mut calls)?,
            }
            for (amount, answer) in calls {
                let key = K::cut(key);
                let old = model.get(&key).copied();
                let status = match (erases, old) {
                    (true, None) => MapStatus::Absent,
                    (true, Some(_)) => MapStatus::Erased,
                    (false, None) => MapStatus::Inserted,
                    (false, Some(_)) => MapStatus::Updated,
                };
                let right = MapAnswer { status, before: old.unwrap_or(bytemuck::Zeroable::zeroed()) };
                if answer != right {
                    return Err(format!("{amount} of key {key:?} was answered {answer:?} and not {right:?}"));
                }
                let new = if V::NUMBERS {
                    old.map_or(V::of(amount), |old| old.plus(V::of(amount)))
                } else {
                    V::of(amount)
                };
                match erases {
                    true => model.remove(&key),
                    false => model.insert(key, new),
                };
            }
        }
        Ok(())
    }

    fn compare(&self, model: &Model<K, V>) -> Result<(), String> {
        check_contents(&self.map, model).map_err(|error| error.to_string())?;
        self.put_and_find(10)?;
        let asked: Vec<Operation> = (0..14).map(|key| (key, 0)).collect();
        for kind in [MapOpKind::Find, MapOpKind::Contains] {
            let answers = self.call(kind, &asked).map_err(|error| error.to_string())?;
            for ((key, _), answer) in asked.iter().zip(answers) {
                let value = model.get(&K::cut(*key)).copied();
                let (found, zero) = (answer.status == MapStatus::Found, bytemuck::Zeroable::zeroed());
                if found != value.is_some()
                    || kind == MapOpKind::Find && value.unwrap_or(zero) != answer.before
                {
                    return Err(format!("{kind:?} of {key} was answered {answer:?}, and there is {value:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Puts calls of one key that replaced its value into the order in which they did.
fn chain<V: TestValue>(old: Option<V>, calls: &mut [Call<V>]) -> Result<(), String> {
    // Calls with equal values are exchangeable, but for what they found: a path that uses each call once.
    fn walk<V: TestValue>(old: Option<V>, calls: &mut [Call<V>]) -> bool {
        if calls.is_empty() {
            return true;
        }
        (0..calls.len()).any(|at| {
            let answer = calls[at].1;
            let follows = match old {
                None => answer.status == MapStatus::Inserted,
                Some(old) => answer.status == MapStatus::Updated && answer.before == old,
            };
            if !follows {
                return false;
            }
            calls.swap(0, at);
            let (first, rest) = calls.split_first_mut().expect("it is not empty");
            let is_path = walk(Some(V::of(first.0)), rest);
            if !is_path {
                calls.swap(0, at);
            }
            is_path
        })
    }
    match walk(old, calls) {
        true => Ok(()),
        false => Err(format!("no order explains {calls:?} of a key that had {old:?}")),
    }
}
