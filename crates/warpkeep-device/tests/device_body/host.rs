//! Host memory that kernels reach.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use warpkeep_device::{Device, DeviceError, DevicePtr, Grid, RegisterOptions};

use super::programs::{PublishParams, SYSTEM_FENCE, load};

/// A file in memory, mapped shared, as an image on tmpfs is.
struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
    _file: OwnedFd,
}

impl Mapping {
    fn new(bytes: usize) -> Self {
        let file = memfd_create("warpkeep-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes as u64).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let at =
            unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, &file, 0) }.unwrap();
        Self { at: NonNull::new(at.cast()).unwrap(), bytes, _file: file }
    }

    /// What is in it. Only while no kernel runs.
    fn words(&self) -> Vec<u64> {
        // SAFETY: mapped until this is dropped, and aligned to a page.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast::<u64>(), self.bytes / 8) }.to_vec()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped when it was made, and unmapped once.
        unsafe { munmap(self.at.as_ptr().cast(), self.bytes) }.unwrap();
    }
}

/// Lets 64 threads keep two records each at `data`, and their flags at `flags`; says what must be there then.
fn keep_records(device: &Device, data: DevicePtr, flags: DevicePtr) -> (Vec<u64>, Vec<u64>) {
    let stream = device.stream().unwrap();
    let module = load(device).unwrap();
    let params = PublishParams { data, flags, seen: DevicePtr::NULL, between: SYSTEM_FENCE, rounds: 2 };
    let grid = Grid { blocks: 2, threads: 32, shared_bytes: 0 };
    // SAFETY: the kernel writes 256 words at `data` and 64 at `flags`, which callers have, and no other code reads it.
    unsafe { module.launch("publish_records", grid, &params, &stream) }.unwrap();
    stream.synchronize().unwrap();
    let records = (0..64).flat_map(|t| [1000 + t, 2000 + t, 2000 + t, 4000 + t]).collect();
    (records, vec![2; 64])
}

pub(crate) fn pinned_memory_is_reached_by_kernels(device: &Device) {
    let mut data = device.pin(256 * 8).unwrap();
    let flags = device.pin(64 * 8).unwrap();
    assert!(data.as_slice().iter().all(|byte| *byte == 0));
    data.elements_mut::<u64>().unwrap().fill(5);
    assert_eq!(data.elements::<u64>().unwrap()[255], 5);
    assert!(data.elements::<[u8; 5]>().is_err());
    let (records, raised) = keep_records(device, data.ptr(), flags.ptr());
    assert_eq!(data.elements::<u64>().unwrap(), records);
    assert_eq!(flags.elements::<u64>().unwrap(), raised);
}

pub(crate) fn copies_behind_the_program(device: &Device) {
    let stream = device.stream().unwrap();
    let mut from = device.pin(1 << 16).unwrap();
    let mut to = device.pin(1 << 16).unwrap();
    let buffer = device.allocate(1 << 16).unwrap();
    for (i, byte) in from.as_mut_slice().iter_mut().enumerate() {
        *byte = (i % 253) as u8;
    }
    // SAFETY: no code touches the pinned memory until the stream is synchronised.
    unsafe {
        buffer.write_behind(0, from.as_slice(), &stream).unwrap();
        buffer.read_behind(0, to.as_mut_slice(), &stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(from.as_slice(), to.as_slice());
}

pub(crate) fn an_image_on_tmpfs_is_written_by_kernels(device: &Device) {
    let image = Mapping::new(1 << 16);
    // SAFETY: the mapping outlives the registration, and is not looked at while kernels run.
    let registered = unsafe { device.register(image.at, image.bytes, RegisterOptions::IMAGE) }.unwrap();
    assert_eq!((registered.len(), registered.host_ptr()), (1 << 16, image.at));
    assert_eq!(registered.region().is_some(), device.simulator().is_some());
    let (records, raised) = keep_records(device, registered.ptr(), registered.ptr().offset(4096));
    let words = image.words();
    assert_eq!(words[..256], records);
    assert_eq!(words[512..576], raised);

    // SAFETY: as above.
    let twice = unsafe { device.register(image.at, image.bytes, RegisterOptions::IMAGE) };
    assert!(matches!(twice, Err(DeviceError::CannotRegister { .. })), "{twice:?}");
    drop(registered);
    // SAFETY: as above.
    drop(unsafe { device.register(image.at, image.bytes, RegisterOptions::HOST) }.unwrap());
}

pub(crate) fn registered_in_chunks_it_is_still_one_range(device: &Device) {
    const MIB: usize = 1 << 20;
    let image = Mapping::new(7 * MIB);
    let options = RegisterOptions { chunk_bytes: 2 * MIB, ..RegisterOptions::HOST };
    // SAFETY: the mapping outlives the registration, and is not looked at while kernels run.
    let registered = unsafe { device.register(image.at, image.bytes, options) }.unwrap();

    // Records across the border of the first two chunks, by a kernel.
    let at = 2 * MIB - 1024;
    let (records, raised) =
        keep_records(device, registered.ptr().offset(at as u64), registered.ptr().offset(6 * MIB as u64));
    let words = image.words();
    assert_eq!(words[at / 8..at / 8 + 256], records);
    assert_eq!(words[6 * MIB / 8..6 * MIB / 8 + 64], raised);

    // Copies across all borders, both ways.
    let stream = device.stream().unwrap();
    let pattern: Vec<u64> = (0..6 * MIB as u64 / 8).collect();
    let buffer = device.upload(&pattern).unwrap();
    // SAFETY: both ranges are live and apart, and the stream is waited for.
    unsafe { device.copy_raw(registered.ptr().offset(512 * 1024), buffer.ptr(), 6 * MIB, &stream) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(image.words()[512 * 1024 / 8..][..pattern.len()], pattern);
    let back = device.allocate(6 * MIB).unwrap();
    // SAFETY: as above.
    unsafe { device.copy_raw(back.ptr(), registered.ptr().offset(512 * 1024), 6 * MIB, &stream) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(back.to_vec::<u64>().unwrap(), pattern);
    // SAFETY: mapped; no code writes to it during the call.
    let bytes = unsafe { std::slice::from_raw_parts(image.at.as_ptr(), 6 * MIB) };
    back.write(0, bytes).unwrap();
    assert_eq!(back.to_vec::<u64>().unwrap(), image.words()[..6 * MIB / 8]);
}

pub(crate) fn what_cannot_be_registered_is_refused(device: &Device) {
    let image = Mapping::new(8192);
    // SAFETY: nothing is registered.
    let nothing = unsafe { device.register(image.at, 0, RegisterOptions::HOST) };
    assert!(matches!(nothing, Err(DeviceError::CannotRegister { len: 0, .. })), "{nothing:?}");
    if device.simulator().is_some() {
        return;
    }
    // SAFETY: mapped as long as it could be registered.
    let odd = unsafe { device.register(image.at.add(16), 4096, RegisterOptions::HOST) };
    assert!(odd.unwrap_err().to_string().contains("where a page does"));
    // A file on a disk's file system, mapped shared; where the folder is on tmpfs, that works.
    let file =
        tempfile::tempfile_in(std::env::var_os("WARPKEEP_TEST_DISK").unwrap_or("/var/tmp".into())).unwrap();
    file.set_len(1 << 20).unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the system chooses, unmapped below.
    unsafe {
        let at = mmap(std::ptr::null_mut(), 1 << 20, protection, MapFlags::SHARED, &file, 0).unwrap();
        match device.register(NonNull::new(at.cast()).unwrap(), 1 << 20, RegisterOptions::IMAGE) {
            Ok(registered) => drop(registered),
            Err(error) => {
                assert!(error.to_string().contains("tmpfs"), "{error}");
                assert!(!error.is_lost());
            }
        }
        munmap(at, 1 << 20).unwrap();
    }
    device.check().unwrap();
}
