//! Hash maps that are saved and loaded, and files that are damaged.

use std::fs;
use std::path::Path;

use warpkeep_containers::{ContainerError, HashMap, HashMapOptions, HashSet, MapOp, MapStatus};
use warpkeep_device::{Device, DeviceError, Mode};

use crate::keys::{TestKey as _, key_of_hash};

fn options() -> HashMapOptions {
    HashMapOptions::default().seed(5)
}

fn filled(count: u64) -> HashMap {
    let map = HashMap::new(&Device::simulated(Mode::fast()).unwrap(), &options()).unwrap();
    let ops: Vec<MapOp> = (0..count).map(|i| MapOp::put(i.wrapping_mul(i) ^ u64::MAX, i)).collect();
    map.apply(&ops).unwrap();
    map
}

fn pairs(map: &HashMap) -> Vec<(u64, u64)> {
    let mut pairs = map.retrieve_all().unwrap();
    pairs.sort_unstable();
    pairs
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_saved_map_is_loaded_on_a_device_and_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = Device::simulated(Mode::fast()).unwrap();
    // None, one, exactly a block, and more than one.
    for count in [0, 1, 4096, 10_000] {
        let map = filled(count);
        map.save(&path).unwrap();
        assert_eq!(names(folder.path()), ["pairs.map"], "no other file is left");
        let loaded = HashMap::load(&device, &path, &HashMapOptions::default()).unwrap();
        assert_eq!((pairs(&loaded), loaded.len().unwrap()), (pairs(&map), count));
        loaded.verify().unwrap();
        let on_cpu = HashMap::load_on_cpu(&path, &HashMapOptions::default()).unwrap();
        assert_eq!(pairs(&on_cpu), pairs(&map));
        // And what the CPU saved, with another seed.
        on_cpu.save(&path).unwrap();
        let again = HashMap::load(&device, &path, &options().seed(9)).unwrap();
        assert_eq!(pairs(&again), pairs(&map));
    }
}

#[test]
fn every_damaged_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    filled(6).save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let error = HashMap::<u64, u64>::load_on_cpu(&path, &options()).expect_err(what);
        assert!(matches!(error, ContainerError::Damaged { .. }), "{what}: {error}");
        assert!(error.to_string().contains("take another copy"), "{error}");
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            refused(&bytes, &format!("bit {bit} of byte {at}"));
        }
    }
    for len in 0..whole.len() {
        refused(&whole[..len], &format!("{len} bytes"));
    }
    refused(&[&whole[..], &[0]].concat(), "a byte too many");
    fs::write(&path, &whole).unwrap();
    assert_eq!(HashMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap().len().unwrap(), 6);
}

#[test]
fn a_key_that_is_there_twice_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    filled(2).save(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let (header, block) = bytes.split_at_mut(40);
    assert_eq!((header.len(), block.len()), (40, 36));
    block.copy_within(0..16, 16);
    let sum = crc32c::crc32c(&block[..32]).to_le_bytes();
    block[32..].copy_from_slice(&sum);
    fs::write(&path, &bytes).unwrap();
    let error = HashMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap_err();
    assert!(error.to_string().contains("a key twice"), "{error}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("pairs.map");
    let error = filled(3).save(&path).unwrap_err();
    assert!(matches!(error, ContainerError::Io { .. }), "{error}");
    assert!(HashMap::<u64, u64>::load_on_cpu(&path, &options()).is_err());
    // A folder of that name cannot be replaced by a file, and stays.
    let path = folder.path().join("pairs.map");
    fs::create_dir(&path).unwrap();
    assert!(filled(3).save(&path).is_err());
    assert_eq!(names(folder.path()), ["pairs.map"]);
}

#[test]
fn files_that_others_left_are_passed_over_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    // Those of a program that had the same process number and did not come to the end of its saves.
    let left = |number: usize| folder.path().join(format!("pairs.map.{}-{number}.new", std::process::id()));
    for number in 0..1000 {
        fs::write(left(number), [number as u8]).unwrap();
    }
    let map = filled(3);
    map.save(&path).unwrap();
    assert_eq!(HashMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap().len().unwrap(), 3);
    for number in 0..1000 {
        assert_eq!(fs::read(left(number)).unwrap(), [number as u8]);
    }
    assert_eq!(names(folder.path()).len(), 1001);
}

#[test]
fn a_map_saved_by_the_cpu_has_a_seed_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = Device::simulated(Mode::fast()).unwrap();
    // With the seed 0 all of them have the same two buckets.
    let keys: Vec<u64> = (0..200).map(|number| u64::in_buckets(3, 2, number)).collect();
    let defaults = HashMapOptions::default();
    // A map of the CPU with the seed 0 is saved as it was before the CPU had seeds.
    for options in [defaults.clone(), defaults.clone().seed(0)] {
        let map = HashMap::<u64, u64>::on_cpu(&options);
        map.insert(&keys[..100], &keys[..100]).unwrap();
        map.save(&path).unwrap();
        let loaded = HashMap::<u64, u64>::load(&device, &path, &defaults).unwrap();
        let answers = loaded.insert(&keys[100..], &keys[100..]).unwrap();
        assert!(answers.iter().all(|answer| answer.status == MapStatus::Inserted), "{answers:?}");
        let set = HashSet::<u64>::on_cpu(&options);
        set.insert(&keys[..100]).unwrap();
        set.save(&path).unwrap();
        let loaded = HashSet::<u64>::load(&device, &path, &defaults).unwrap();
        assert!(loaded.insert(&keys[100..]).unwrap().iter().all(|status| *status == MapStatus::Inserted));
    }
}

#[test]
fn a_map_larger_than_most_bytes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = Device::simulated(Mode::fast()).unwrap();
    let refused = |made: Result<HashMap, ContainerError>, bytes: u64| {
        let error = made.unwrap_err();
        let is_so = matches!(error.device(), Some(DeviceError::OutOfBudget { left, .. }) if *left == bytes);
        assert!(is_so, "{bytes}: {error}");
        assert_eq!(device.allocated(), 0);
    };
    let sized = |items, bytes| HashMap::new(&device, &options().items(items).most_bytes(bytes));
    refused(sized(1 << 20, 4096), 4096);
    refused(sized(1 << 20, (32 << 20) - 1), (32 << 20) - 1);
    // There is no map of fewer buckets than 64.
    refused(sized(0, 4095), 4095);
    refused(sized(0, 0), 0);
    // Room is what a load of 0.95 leaves.
    refused(sized(244, 4096), 4096);
    assert_eq!(sized(243, 4096).unwrap().stats().unwrap().most_bytes, 4096);
    filled(20_000).save(&path).unwrap();
    let load = |bytes| HashMap::load(&device, &path, &options().most_bytes(bytes));
    refused(load(4096), 4096);
    refused(load(256 << 10), 256 << 10);
    assert_eq!(load(512 << 10).unwrap().len().unwrap(), 20_000);
}

#[test]
fn a_map_that_was_saved_at_a_high_load_is_loaded_into_as_much_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = Device::simulated(Mode::fast()).unwrap();
    let options = HashMapOptions::default().seed(0).most_bytes(4096);
    // Four keys for each of 64 buckets.
    let keys: Vec<u64> = (0..256).map(|i| key_of_hash((i % 64) | (i << 32))).collect();
    for count in [243, 244, 250, 256] {
        let map = HashMap::new(&device, &options).unwrap();
        let answers = map.insert(&keys[..count], &keys[..count]).unwrap();
        assert!(answers.iter().all(|answer| answer.status == MapStatus::Inserted), "{count}");
        map.save(&path).unwrap();
        let loaded = HashMap::load(&device, &path, &options).unwrap();
        assert_eq!(pairs(&loaded), pairs(&map), "{count}");
        assert_eq!(loaded.stats().unwrap().slots, 256);
        loaded.verify().unwrap();
    }
}

#[test]
fn keys_that_find_no_slot_when_they_are_loaded_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    let device = Device::simulated(Mode::fast()).unwrap();
    // Nine keys of two buckets, which a map with another seed has.
    let keys: Vec<u64> = (0..9).map(|number| u64::in_buckets(3, 2, number)).collect();
    let map = HashMap::new(&device, &options()).unwrap();
    map.insert(&keys, &keys).unwrap();
    map.save(&path).unwrap();
    drop(map);
    let error = HashMap::<u64, u64>::load(&device, &path, &options().seed(0)).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBudget { asked: 8192, left: 4096 })), "{error}");
    assert_eq!(device.allocated(), 0);
}

#[test]
fn a_map_that_does_not_fit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    filled(20_000).save(&path).unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let error = HashMap::<u64, u64>::load(&device.with_budget(100 << 10), &path, &options()).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert_eq!(device.allocated(), 0);
}
