//! Slab hashes that are saved and loaded, and files that are damaged.

use std::fs;
use std::path::Path;

use warpkeep_containers::{
    ContainerError, SlabHashOptions, SlabMap, SlabMultiMap, SlabMultiRequest, SlabRequest, SlabSet,
};
use warpkeep_device::DeviceError;

use crate::{device, sorted};

fn options() -> SlabHashOptions {
    SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }
}

#[test]
fn saved_maps_and_sets_are_loaded_on_a_device_and_on_the_cpu() {
    let (folder, device) = (tempfile::tempdir().unwrap(), device());
    let path = folder.path().join("pairs.slab");
    for count in [0, 1, 4096, 9000_u64] {
        let keys: Vec<u64> = (0..count).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let mut map = SlabMap::<u64, u64>::new(&device, options()).unwrap();
        map.build(&keys, &sorted(keys.clone())).unwrap();
        map.save(&path).unwrap();
        let expected = sorted(map.pairs().unwrap());
        let on_cpu = SlabMap::<u64, u64>::load_on_cpu(&path, options()).unwrap();
        assert_eq!(sorted(on_cpu.pairs().unwrap()), expected);
        // And what the CPU saved, with other slabs and another seed.
        on_cpu.save(&path).unwrap();
        let other = SlabHashOptions { slab_bytes: 64, seed: Some(9), ..options() };
        let mut loaded = SlabMap::<u64, u64>::load(&device, &path, other).unwrap();
        assert_eq!((sorted(loaded.pairs().unwrap()), loaded.len().unwrap()), (expected, count));
        loaded.apply(&keys.iter().map(|key| SlabRequest::Delete(*key)).collect::<Vec<_>>()).unwrap();
        assert!(loaded.is_empty().unwrap());

        let narrow: Vec<u32> = (0..count as u32).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
        let mut set: SlabSet = SlabSet::on_cpu(options());
        set.build(&narrow).unwrap();
        set.save(&path).unwrap();
        let loaded: SlabSet = SlabSet::load(&device, &path, options()).unwrap();
        loaded.save(&path).unwrap();
        let again: SlabSet = SlabSet::load_on_cpu(&path, options()).unwrap();
        assert_eq!(sorted(again.keys().unwrap()), sorted(narrow));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    }
}

#[test]
fn a_saved_multimap_keeps_the_order_of_values() {
    let (folder, device) = (tempfile::tempdir().unwrap(), device());
    let path = folder.path().join("pairs.slab");
    let mut map: SlabMultiMap = SlabMultiMap::new(&device, options()).unwrap();
    map.build(&(0..3000).map(|i| i % 40).collect::<Vec<_>>(), &(0..3000).collect::<Vec<_>>()).unwrap();
    map.apply(&[SlabMultiRequest::Delete(3), SlabMultiRequest::Insert(4, 7)]).unwrap();
    map.save(&path).unwrap();
    let keys: Vec<u32> = (0..41).collect();
    let on_cpu: SlabMultiMap = SlabMultiMap::load_on_cpu(&path, options()).unwrap();
    assert_eq!(on_cpu.search_all(&keys).unwrap(), map.search_all(&keys).unwrap());
    on_cpu.save(&path).unwrap();
    let loaded: SlabMultiMap = SlabMultiMap::load(&device, &path, options()).unwrap();
    assert_eq!(loaded.search_all(&keys).unwrap(), map.search_all(&keys).unwrap());
    assert_eq!(loaded.search(&[3]).unwrap(), [Some(43)]);
}

#[test]
fn every_damaged_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.slab");
    let mut map: SlabMap = SlabMap::on_cpu(options());
    map.build(&[1, 2, 3, u32::MAX], &[10, 20, 30, 40]).unwrap();
    map.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let error = SlabMap::<u32, u32>::load_on_cpu(&path, options()).expect_err(what);
        assert!(matches!(error, ContainerError::Damaged { .. }), "{what}: {error}");
        assert!(error.to_string().contains("take another copy"), "{error}");
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            refused(&bytes, &format!("bit {bit} of byte {at}"));
        }
        refused(&whole[..at], &format!("{at} bytes"));
    }
    refused(&[&whole[..], &[0]].concat(), "a byte too many");
    // So is a word of the header that this program does not know.
    let mut bytes = whole.clone();
    bytes[24] = 1;
    let sum = crc32c::crc32c(&bytes[..32]).to_le_bytes();
    bytes[32..36].copy_from_slice(&sum);
    refused(&bytes, "a word in the header");
    // A key that is there twice is damage, although the checksums are right.
    let mut bytes = whole.clone();
    let (header, block) = bytes.split_at_mut(40);
    assert_eq!((header.len(), block.len()), (40, 36));
    block.copy_within(0..8, 8);
    let sum = crc32c::crc32c(&block[..32]).to_le_bytes();
    block[32..].copy_from_slice(&sum);
    refused(&bytes, "a key twice");
    // A device refuses the same, and keeps no memory.
    let device = device();
    assert!(matches!(
        SlabMap::<u32, u32>::load(&device, &path, options()).unwrap_err(),
        ContainerError::Damaged { .. }
    ));
    assert_eq!(device.allocated(), 0);
}

/// What a file is refused for.
fn wrong_kind<T: std::fmt::Debug>(loaded: Result<T, ContainerError>, found: &str) {
    let error = loaded.unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains(found) && message.contains("load it as what it holds"), "{message}");
}

#[test]
fn other_kinds_and_widths_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("pairs.slab");
    let mut map: SlabMap = SlabMap::on_cpu(options());
    map.build(&[1, 2], &[10, 20]).unwrap();
    map.save(path).unwrap();
    let found = "holds a SlabMap with keys of 4 and values of 4 bytes";
    wrong_kind(SlabMap::<u64, u64>::load_on_cpu(path, options()), found);
    wrong_kind(SlabMultiMap::<u32, u32>::load(&device(), path, options()), found);
    wrong_kind(SlabSet::<u32>::load_on_cpu(path, options()), found);
    wrong_kind(warpkeep_containers::CuckooIndex::load_on_cpu(path), found);
    SlabSet::<u64>::on_cpu(options()).save(path).unwrap();
    wrong_kind(SlabSet::<u32>::load_on_cpu(path, options()), "holds a SlabSet with keys of 8 bytes");
}

#[test]
fn files_that_cannot_be_written_or_do_not_fit_are_errors() {
    let (folder, device) = (tempfile::tempdir().unwrap(), device());
    let path = folder.path().join("missing").join("pairs.slab");
    let mut map: SlabMap = SlabMap::on_cpu(options());
    let keys: Vec<u32> = (0..30_000).collect();
    map.build(&keys, &keys).unwrap();
    let error = map.save(&path).unwrap_err();
    assert!(matches!(error, ContainerError::Io { .. }), "{error}");
    assert!(matches!(SlabMap::<u32, u32>::load_on_cpu(&path, options()), Err(ContainerError::Io { .. })));
    let path = folder.path().join("pairs.slab");
    map.save(&path).unwrap();
    for budget in [50 << 10, 300 << 10, 700 << 10] {
        let error = SlabMap::<u32, u32>::load(&device.with_budget(budget), &path, options()).unwrap_err();
        assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{budget}: {error}");
        assert_eq!(device.allocated(), 0);
    }
    // A folder of that name cannot be replaced by a file, and stays.
    let path = folder.path().join("folder");
    fs::create_dir(&path).unwrap();
    assert!(map.save(&path).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
