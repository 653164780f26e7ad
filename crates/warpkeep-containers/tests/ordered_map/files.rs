//! Ordered maps that are saved and loaded, and files that are damaged.

use std::fs;

use warpkeep_containers::{ContainerError, HashMap, HashMapOptions, OrderedMap, OrderedMapOptions};
use warpkeep_device::{Device, Mode};

fn options() -> OrderedMapOptions {
    OrderedMapOptions::default()
}

#[test]
fn a_saved_map_is_loaded_on_a_device_and_on_the_cpu() {
    let (folder, device) = (tempfile::tempdir().unwrap(), Device::simulated(Mode::fast()).unwrap());
    let path = folder.path().join("ticks.map");
    // None, one, exactly a block, and more than one.
    for count in [0, 1, 4096, 10_000] {
        let map = OrderedMap::<u64, u64>::new(&device, &options()).unwrap();
        let keys: Vec<u64> = (0..count).map(|i: u64| i.wrapping_mul(i) ^ u64::MAX).collect();
        map.insert(&keys, &keys).unwrap();
        let state = map.snapshot();
        map.erase(&keys).unwrap();
        state.save(&path).unwrap();
        let loaded = OrderedMap::<u64, u64>::load(&device, &path, &options()).unwrap();
        assert_eq!(loaded.retrieve_all().unwrap(), state.retrieve_all().unwrap());
        loaded.verify().unwrap();
        let on_cpu = OrderedMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap();
        on_cpu.save(&path).unwrap();
        let again = OrderedMap::<u64, u64>::load(&device, &path, &options()).unwrap();
        assert_eq!((again.retrieve_all().unwrap(), again.len()), (state.retrieve_all().unwrap(), count));
    }
}

#[test]
fn every_damaged_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks.map");
    let map = OrderedMap::<u32, u32>::on_cpu(&options());
    map.insert(&[1, 2, 3, 4, 5, u32::MAX], &[9; 6]).unwrap();
    map.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let error = OrderedMap::<u32, u32>::load_on_cpu(&path, &options()).expect_err(what);
        assert!(matches!(error, ContainerError::Damaged { .. }), "{what}: {error}");
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("byte {at}"));
        refused(&whole[..at], &format!("{at} bytes"));
    }
    refused(&[&whole[..], &[0]].concat(), "a byte too many");
    // Keys in another order, with the right checksum.
    let mut bytes = whole.clone();
    let (block, sum) = bytes[40..].split_at_mut(48);
    block.copy_within(0..8, 8);
    sum.copy_from_slice(&crc32c::crc32c(block).to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = OrderedMap::<u32, u32>::load_on_cpu(&path, &options()).unwrap_err();
    assert!(error.to_string().contains("ascending order"), "{error}");
}

#[test]
fn files_of_other_keys_and_other_containers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks.map");
    OrderedMap::<u64, u64>::on_cpu(&options()).save(&path).unwrap();
    let error = OrderedMap::<u32, u32>::load_on_cpu(&path, &options()).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    HashMap::<u64, u64>::on_cpu(&HashMapOptions::default()).save(&path).unwrap();
    let error = OrderedMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    let error = OrderedMap::<u64, u64>::load_on_cpu(&path, &options()).unwrap_err();
    assert!(matches!(error, ContainerError::Io { .. }), "{error}");
}
