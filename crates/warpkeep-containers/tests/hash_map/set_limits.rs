//! The hash set beside the one on the CPU, full, in files, and in kernels of others.

use bytemuck::NoUninit;
use warpkeep_containers::{
    ContainerError, HashMap, HashMapOptions, HashSet, HashSetRef, MapOpKind, MapStatus,
};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, KernelSet as _, Mode};
use warpkeep_suites::device::Dice;

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Params {
    set: HashSetRef,
    keys: DevicePtr,
    statuses: DevicePtr,
    count: u64,
    op: u64,
}

warpkeep_device::kernel_set! {
    struct KeyKernels in "hash_map_calls.cu", prefix "hash_map_calls_" {
        run_keys: Params,
    }
}

#[test]
fn threads_of_kernels_share_a_set() {
    for seed in 0..20 {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let set = HashSet::new(&device, &HashMapOptions::default().seed(seed)).unwrap();
        let (kernels, stream) = (KeyKernels::load(&device).unwrap(), device.stream().unwrap());
        // Each of 40 keys three times, in different warps.
        let keys: Vec<u64> = (0..120).map(|i| i * 7 % 40).collect();
        let run = |op: MapOpKind| {
            let (on_device, statuses) = (device.upload(&keys).unwrap(), device.allocate(keys.len()).unwrap());
            let params = Params {
                set: set.reference().unwrap(),
                keys: on_device.ptr(),
                statuses: statuses.ptr(),
                count: keys.len() as u64,
                op: op as u64,
            };
            // SAFETY: the columns have a key and a status for each thread, and no other code uses the set.
            unsafe { kernels.run_keys.launch(Grid::covering(params.count, 32), &params, &stream).unwrap() };
            stream.synchronize().unwrap();
            let statuses = statuses.to_vec::<u8>().unwrap();
            let of = |status: MapStatus| statuses.iter().filter(|&&code| code == status as u8).count();
            [of(MapStatus::Inserted), of(MapStatus::Found), of(MapStatus::Erased), of(MapStatus::Absent)]
        };
        assert_eq!(run(MapOpKind::Contains), [0, 0, 0, 120]);
        assert_eq!(run(MapOpKind::Insert), [40, 80, 0, 0], "seed {seed}");
        assert_eq!((set.len().unwrap(), set.verify().is_ok()), (40, true));
        assert_eq!(run(MapOpKind::Contains), [0, 120, 0, 0]);
        assert_eq!(run(MapOpKind::Erase), [0, 0, 40, 80], "seed {seed}");
        assert!(set.is_empty().unwrap() && set.verify().is_ok());
    }
}

#[test]
fn a_stream_is_deduplicated_as_on_the_cpu() {
    let set = HashSet::new(&Device::simulated(Mode::fast()).unwrap(), &HashMapOptions::default()).unwrap();
    let on_cpu = HashSet::on_cpu(&HashMapOptions::default());
    let mut dice = Dice::new(3);
    for _ in 0..10 {
        let keys: Vec<u64> = (0..6000).map(|_| dice.below(9000)).collect();
        assert_eq!(set.insert_new(&keys).unwrap(), on_cpu.insert_new(&keys).unwrap());
        let gone: Vec<u64> = (0..300).map(|_| dice.below(9000)).collect();
        assert_eq!(set.erase(&gone).unwrap(), on_cpu.erase(&gone).unwrap());
        assert_eq!(set.contains(&keys).unwrap(), on_cpu.contains(&keys).unwrap());
    }
    set.verify().unwrap();
    let (mut keys, mut right) = (set.retrieve_all().unwrap(), on_cpu.retrieve_all().unwrap());
    keys.sort_unstable();
    right.sort_unstable();
    assert_eq!(keys, right);
    let stats = set.stats().unwrap();
    assert_eq!((stats.items, stats.slots), (right.len() as u64, 8 * stats.buckets));
}

#[test]
fn a_set_reaches_a_load_of_95_percent_and_says_when_it_is_full() {
    let device = Device::simulated(Mode::fast()).unwrap();
    let set = HashSet::new(&device, &HashMapOptions::default().seed(1).most_bytes(64 << 8)).unwrap();
    let keys: Vec<u64> = (0..2048 * 95 / 100).collect();
    assert!(set.insert_new(&keys).unwrap().iter().all(|new| *new));
    assert_eq!(set.stats().unwrap().buckets, 256);
    let more: Vec<u64> = (5000..6000).collect();
    let error = set.insert_new(&more).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert!(set.contains(&keys).unwrap().iter().all(|there| *there));
    set.verify().unwrap();
    let stream = device.stream().unwrap();
    let mut all = device.allocate(8 * 2048).unwrap();
    assert_eq!(set.retrieve_all_on(&mut all, &stream).unwrap(), set.len().unwrap());
}

#[test]
fn a_saved_set_is_a_set_and_no_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.set");
    let device = Device::simulated(Mode::fast()).unwrap();
    let set = HashSet::new(&device, &HashMapOptions::default()).unwrap();
    set.insert(&(0..9000).collect::<Vec<u64>>()).unwrap();
    set.save(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 40 + 8 * 9000 + 4 * 3);
    for loaded in [
        HashSet::<u64>::load(&device, &path, &HashMapOptions::default()).unwrap(),
        HashSet::<u64>::load_on_cpu(&path, &HashMapOptions::default()).unwrap(),
    ] {
        assert_eq!(loaded.len().unwrap(), 9000);
        assert_eq!(loaded.contains(&[0, 8999, 9000]).unwrap(), [true, true, false]);
    }
    let error = HashMap::<u64, u64>::load_on_cpu(&path, &HashMapOptions::default()).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    assert!(error.to_string().contains("holds a HashSet with keys of 8 bytes"), "{error}");
}
