//! A kernel of one's own that searches a cuckoo index by tiles of eight lanes: `cuckoo_index_calls_search_by_tile` in
//! `kernels/cuckoo_index_calls.cu`.

use std::error::Error;

use bytemuck::NoUninit;
use warpkeep_containers::{CuckooIndex, CuckooIndexOptions, CuckooIndexRef, IndexStatus};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Grid, KernelSet as _};

/// What the kernel takes: the struct `Calls` of its source. It searches, so that some columns stay away.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Calls {
    index: CuckooIndexRef,
    hashes: DevicePtr,
    codes: DevicePtr,
    locations: DevicePtr,
    olds: DevicePtr,
    statuses: DevicePtr,
    matches: DevicePtr,
    found: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct Kernels in "cuckoo_index_calls.cu", prefix "cuckoo_index_calls_" {
        search_by_tile: Calls,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (kernels, stream) = (Kernels::load(&device)?, device.stream()?);
    let index = CuckooIndex::new(&device, &CuckooIndexOptions::default().items(5000))?;
    let hashes: Vec<u64> = (1..=6000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let locations: Vec<u32> = (0..4000).collect();
    index.insert(&hashes[..4000], &locations)?;

    // Six thousand searches, of which four thousand find something.
    let (column, count) = (device.upload(&hashes)?, hashes.len());
    let (statuses, matches) = (device.allocate(count)?, device.allocate(count)?);
    let found = device.allocate(8 * count)?;
    let params = Calls {
        index: index.reference()?,
        hashes: column.ptr(),
        codes: DevicePtr::NULL,
        locations: DevicePtr::NULL,
        olds: DevicePtr::NULL,
        statuses: statuses.ptr(),
        matches: matches.ptr(),
        found: found.ptr(),
        count: count as u64,
    };
    // SAFETY: the columns have an element for each search, and no call changes the index until the stream is synchronised.
    unsafe { kernels.search_by_tile.launch(Grid::covering(8 * params.count, 128), &params, &stream)? };
    stream.synchronize()?;
    let (statuses, found) = (statuses.to_vec::<u8>()?, found.to_vec::<[u32; 2]>()?);
    for (at, location) in locations.iter().enumerate() {
        assert_eq!((statuses[at], found[at][0]), (IndexStatus::Found as u8, *location));
    }
    let hits = statuses.iter().filter(|status| **status == IndexStatus::Found as u8).count();
    println!("{hits} of {count} hashes have an entry, {:?}", index.stats()?);
    Ok(())
}
