//! Kernels of others that read a snapshot through `warpkeep/ordered_map.h`.

use std::collections::BTreeMap;

use bytemuck::NoUninit;
use warpkeep_containers::{
    OrderedMap, OrderedMapOptions, OrderedMapRef, OrderedStatus, OrderedWriterRef, Upsert,
};
use warpkeep_device::{Device, DevicePtr, Grid, KernelSet as _, Mode};
use warpkeep_suites::device::Dice;

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    map: OrderedMapRef,
    keys: DevicePtr,
    values: DevicePtr,
    above: DevicePtr,
    below: DevicePtr,
    counts: DevicePtr,
    sums: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct CallKernels in "ordered_map_calls.cu", prefix "ordered_map_calls_" {
        read: Params,
        both: Both,
    }
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Both {
    writer: OrderedWriterRef,
    before: OrderedMapRef,
    keys: DevicePtr,
    counts: DevicePtr,
    sums: DevicePtr,
    below: DevicePtr,
    statuses: DevicePtr,
    count: u64,
}

#[test]
fn kernels_of_others_compile_for_a_gpu() {
    warpkeep_suites::device::compile_programs("ordered map of other kernels", &[CallKernels::program()]);
}

#[test]
fn kernels_of_others_read_a_snapshot_while_the_map_changes() {
    let device = Device::simulated(Mode::seeded(3)).unwrap();
    let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
    let keys: Vec<u64> = (0..300).map(|i| 7 * i).chain([u64::MAX]).collect();
    map.insert(&keys, &keys).unwrap();
    let snapshot = map.snapshot();
    let model: BTreeMap<u64, u64> = keys.iter().map(|key| (*key, *key)).collect();
    map.upsert(Upsert::Replace, &keys, &vec![5; keys.len()]).unwrap();
    map.erase(&keys[50..250]).unwrap();

    let asked: Vec<u64> = (0..400).map(|i| 6 * i).chain([u64::MAX, u64::MAX - 3]).collect();
    let (kernels, stream) = (CallKernels::load(&device).unwrap(), device.stream().unwrap());
    let column = |bytes: usize| device.allocate(bytes * asked.len()).unwrap();
    let (at, columns, counts) = (device.upload(&asked).unwrap(), [(); 4].map(|()| column(8)), column(4));
    let params = Params {
        map: snapshot.reference().unwrap(),
        keys: at.ptr(),
        values: columns[0].ptr(),
        above: columns[1].ptr(),
        below: columns[2].ptr(),
        counts: counts.ptr(),
        sums: columns[3].ptr(),
        count: asked.len() as u64,
    };
    // SAFETY: the columns have an element for each key, and the snapshot is held until the stream is synchronised.
    unsafe { kernels.read.launch(Grid::covering(params.count, 64), &params, &stream).unwrap() };
    stream.synchronize().unwrap();
    let [values, above, below, sums] = columns.map(|column| column.to_vec::<u64>().unwrap());
    let counts = counts.to_vec::<u32>().unwrap();
    for (at, key) in asked.iter().enumerate() {
        assert_eq!(values[at], model.get(key).copied().unwrap_or(u64::MAX));
        assert_eq!(above[at], model.range(key..).next().map_or(u64::MAX, |pair| *pair.0));
        assert_eq!(below[at], model.range(..key).next_back().map_or(u64::MAX, |pair| *pair.0));
        let inside = model.range(*key..=key.saturating_add(100));
        assert_eq!(sums[at], inside.clone().map(|pair| *pair.1).fold(0, u64::wrapping_add));
        assert_eq!(counts[at] as usize, inside.count());
    }
    let on_cpu = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
    assert!(on_cpu.snapshot().reference().is_err());
}

/// Threads of one kernel change the map while others read a snapshot of the state before.
fn read_beside_changes(seed: u64) {
    let (device, mut dice) = (Device::simulated(Mode::seeded(seed)).unwrap(), Dice::new(seed));
    let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default()).unwrap();
    let keys: Vec<u64> = (0..120).map(|i| 7 * i).collect();
    map.insert(&keys, &keys).unwrap();
    let model: BTreeMap<u64, u64> = keys.iter().map(|key| (*key, *key)).collect();
    let snapshot = map.snapshot();
    let (kernels, stream) = (CallKernels::load(&device).unwrap(), device.stream().unwrap());
    let asked: Vec<u64> = (0..256).map(|_| dice.below(900)).collect();
    let column = |bytes: usize| device.allocate_zeroed(bytes * asked.len()).unwrap();
    let (at, counts, statuses) = (device.upload(&asked).unwrap(), column(4), column(1));
    let (sums, below) = (column(8), column(8));
    let writer = map.writer(asked.len() as u64).unwrap();
    let params = Both {
        writer: writer.reference(),
        before: snapshot.reference().unwrap(),
        keys: at.ptr(),
        counts: counts.ptr(),
        sums: sums.ptr(),
        below: below.ptr(),
        statuses: statuses.ptr(),
        count: asked.len() as u64,
    };
    // SAFETY: the columns have an element for each key; writer and snapshot are held until the stream is synchronised.
    unsafe { kernels.both.launch(Grid::covering(params.count, 64), &params, &stream).unwrap() };
    stream.synchronize().unwrap();
    writer.finish().unwrap();
    let (sums, below) = (sums.to_vec::<u64>().unwrap(), below.to_vec::<u64>().unwrap());
    let counts = counts.to_vec::<u32>().unwrap();
    for (at, key) in asked.iter().enumerate().filter(|(at, _)| at % 2 == 0) {
        let inside = model.range(*key..=*key + 100);
        assert_eq!(counts[at] as usize, inside.clone().count());
        assert_eq!(sums[at], inside.map(|(_, value)| value).sum::<u64>());
        assert_eq!(below[at], model.range(..key).next_back().map_or(u64::MAX, |pair| *pair.0));
    }
    assert!(snapshot.retrieve_all().unwrap().into_iter().eq(model));
    let changed = statuses.to_vec::<u8>().unwrap();
    let full = |status: &u8| *status == OrderedStatus::Full as u8;
    assert!(!changed.iter().any(full) && changed.contains(&(OrderedStatus::Erased as u8)));
    map.verify().unwrap();
}

#[test]
fn threads_read_the_state_before_while_others_of_their_kernel_change_the_map() {
    (0..12).for_each(read_beside_changes);
}
