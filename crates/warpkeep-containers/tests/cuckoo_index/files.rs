//! Cuckoo indexes that are saved and loaded, and files that are damaged.

use std::fs;

use warpkeep_containers::{ContainerError, CuckooIndex, CuckooIndexOptions, HashMap, HashMapOptions};
use warpkeep_device::{Device, DeviceError, Mode};

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn options(items: u64) -> CuckooIndexOptions {
    CuckooIndexOptions::default().items(items)
}

/// Hashes and locations, some of them twice.
fn columns(count: u64) -> (Vec<u64>, Vec<u32>) {
    let hash = |i: u64| (i - i % 3 / 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((0..count).map(hash).collect(), (0..count as u32).map(|i| i / 2).collect())
}

#[test]
fn a_saved_index_is_loaded_on_a_device_and_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.index");
    for (items, count) in [(0, 0), (1, 1), (5000, 4500)] {
        let (hashes, locations) = columns(count);
        let index = CuckooIndex::new(&device(), &options(items)).unwrap();
        index.insert(&hashes, &locations).unwrap();
        index.save(&path).unwrap();
        for loaded in [
            CuckooIndex::load(&device(), &path, &options(1 << 20)).unwrap(),
            CuckooIndex::load_on_cpu(&path).unwrap(),
        ] {
            assert_eq!(loaded.len().unwrap(), count);
            loaded.verify_entries(&hashes, &locations).unwrap();
            assert_eq!(loaded.search(&hashes).unwrap(), index.search(&hashes).unwrap());
            // It works on, and what the CPU saved is the same.
            loaded.save(&path).unwrap();
            loaded.delete(&hashes, &locations).unwrap();
            assert!(loaded.is_empty().unwrap());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
        CuckooIndex::load(&device(), &path, &options(0))
            .unwrap()
            .verify_entries(&hashes, &locations)
            .unwrap();
    }
}

#[test]
fn a_damaged_index_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.index");
    let index = CuckooIndex::on_cpu(&options(3)).unwrap();
    index.insert(&[7 << 32, 8 << 32, 9 << 32], &[1, 2, 3]).unwrap();
    index.save(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).unwrap();
        let error = CuckooIndex::load_on_cpu(&path).expect_err(what);
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
    // Checksums that are right do not make a file right: another number of buckets, and a cell without a location.
    let mut bytes = whole.clone();
    bytes[24] += 1;
    let sum = crc32c::crc32c(&bytes[..32]).to_le_bytes();
    bytes[32..36].copy_from_slice(&sum);
    refused(&bytes, "buckets that are no power of two");
    let (mut bytes, end) = (whole.clone(), whole.len() - 4);
    bytes[end - 8..end].copy_from_slice(&5_u64.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[40..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    refused(&bytes, "a cell without a location");
}

#[test]
fn a_file_of_something_else_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.map");
    HashMap::<u64, u64>::on_cpu(&HashMapOptions::default()).save(&path).unwrap();
    let error = CuckooIndex::load(&device(), &path, &options(0)).unwrap_err();
    assert!(matches!(error, ContainerError::WrongKind { .. }), "{error}");
    assert!(error.to_string().contains("holds a HashMap with keys of 8 and values of 8 bytes"), "{error}");
    let error = CuckooIndex::load_on_cpu(folder.path().join("missing")).unwrap_err();
    assert!(matches!(error, ContainerError::Io { .. }), "{error}");
    // An index that does not fit is an error, and leaves nothing behind.
    CuckooIndex::on_cpu(&options(100_000)).unwrap().save(&path).unwrap();
    let device = device();
    let error = CuckooIndex::load(&device.with_budget(100 << 10), &path, &options(0)).unwrap_err();
    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
    assert_eq!(device.allocated(), 0);
}
