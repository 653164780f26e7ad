//! Units of device memory from the host: claimed, freed, exchanged, grown.
//!
//! `cargo run -p warpkeep-containers --example slab_alloc` uses the first GPU, and the simulator where there is none.

use std::error::Error;

use warpkeep_containers::{SlabAlloc, SlabAllocOptions};
use warpkeep_device::{Device, DeviceChoice};

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let options = SlabAllocOptions { initial_units: 4096, most_units: 1 << 20 };
    let mut pool = SlabAlloc::new(&device, 128, options)?;

    // Fewer come back if there are fewer: out of memory is an answer.
    let handles = pool.allocate(5000)?;
    assert_eq!(handles.len(), 4096);
    // Growth keeps handles, addresses and contents.
    pool.memory().write(128 * handles[0] as usize, &[7_u64; 16])?;
    pool.grow(8192)?;
    let mut contents = [0_u64; 16];
    pool.memory().read(128 * handles[0] as usize, &mut contents)?;
    assert_eq!(contents, [7; 16]);

    // Half of the units go and others come, in one launch. A unit that is given back twice is refused.
    let (claimed, refused) = pool.exchange(&handles[..2048], 3000)?;
    assert_eq!((claimed.len(), refused.len()), (3000, 0));
    assert_eq!(pool.release(&[claimed[0], claimed[0]])?, 1);
    // Eight units side by side, and units that are all zeros.
    let runs = pool.allocate_runs(10, 8)?;
    assert!(runs.iter().all(|first| first % 8 == 0));
    let zeroed = pool.allocate_zeroed(5)?;
    pool.release(&zeroed)?;
    pool.release_runs(&runs, 8)?;
    let stats = pool.stats()?;
    assert_eq!((stats.in_use, stats.refused), (2048 + 2999, 1));
    println!("{stats:?}");
    Ok(())
}
