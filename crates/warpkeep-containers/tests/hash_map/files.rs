//! Hash maps that are saved and loaded, and files that are damaged.

use std::fs;
use std::path::Path;

use warpkeep_containers::{ContainerError, HashMap, HashMapOptions, MapOp};
use warpkeep_device::{Device, DeviceError, Mode};

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
fn a_map_that_does_not_fit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    filled(20_000).save(&path).unwrap();
    let device = Device::simulated(Mode::fast()).unwrap();
    let error = HashMap::<u64, u64>::load(&device.with_budget(100 << 10), &path, &options()).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert_eq!(device.allocated(), 0);
}
