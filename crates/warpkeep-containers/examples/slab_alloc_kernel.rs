//! Kernels of one's own that build linked lists of units and give them back: `kernels/slab_alloc_calls.cu`.

use std::error::Error;

use bytemuck::NoUninit;
use warpkeep_containers::{SlabAlloc, SlabAllocOptions, SlabAllocRef};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Grid, KernelSet as _};

/// What both kernels take: the struct `Lists` of their source.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Lists {
    nodes: SlabAllocRef,
    heads: DevicePtr,
    lists: u64,
    values: DevicePtr,
    results: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct Kernels in "slab_alloc_calls.cu", prefix "slab_alloc_calls_" {
        push: Lists,
        drain: Lists,
    }
}

const LISTS: u64 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (kernels, stream) = (Kernels::load(&device)?, device.stream()?);
    let mut pool =
        SlabAlloc::new(&device, 32, SlabAllocOptions { initial_units: 1024, most_units: 1 << 20 })?;
    let values: Vec<u64> = (0..3000).collect();
    let heads = device.allocate_zeroed(4 * LISTS as usize)?;
    let mut left = values.clone();
    // A kernel cannot make the pool grow: the host does, for the values that had no node.
    while !left.is_empty() {
        let (column, missed) = (device.upload(&left)?, device.allocate_zeroed(8)?);
        let count = left.len() as u64;
        let (nodes, heads, values) = (pool.reference(), heads.ptr(), column.ptr());
        let params = Lists { nodes, heads, lists: LISTS, values, results: missed.ptr(), count };
        let before = pool.in_use()?;
        // SAFETY: the columns have this many elements, and nothing else uses them or the pool until the stream is synchronised.
        unsafe { kernels.push.launch(Grid::covering(count, 128), &params, &stream)? };
        stream.synchronize()?;
        let missed = missed.to_vec::<u64>()?[0];
        assert_eq!(pool.in_use()? - before, count - missed);
        println!("{} nodes, {missed} values without one", pool.in_use()?);
        // Which values were missed is not told here, so that all go and come again.
        left = if missed == 0 { Vec::new() } else { left };
        if missed > 0 {
            drain(&kernels, &pool, params, &device)?;
            pool.grow(2 * pool.capacity() as u32)?;
        }
    }
    let params = Lists {
        nodes: pool.reference(),
        heads: heads.ptr(),
        lists: LISTS,
        values: DevicePtr::NULL,
        results: DevicePtr::NULL,
        count: 0,
    };
    let sums = drain(&kernels, &pool, params, &device)?;
    assert_eq!(sums.iter().sum::<u64>(), values.iter().sum());
    assert_eq!(pool.in_use()?, 0);
    println!("{:?}", pool.stats()?);
    Ok(())
}

/// The sum of each list, whose nodes are given back.
fn drain(
    kernels: &Kernels,
    pool: &SlabAlloc,
    params: Lists,
    device: &Device,
) -> Result<Vec<u64>, Box<dyn Error>> {
    let (sums, stream) = (device.allocate(8 * LISTS as usize)?, device.stream()?);
    let params = Lists { nodes: pool.reference(), results: sums.ptr(), ..params };
    // SAFETY: there is a sum for each list, and nothing else uses lists or pool until the stream is synchronised.
    unsafe { kernels.drain.launch(Grid::covering(LISTS, 128), &params, &stream)? };
    stream.synchronize()?;
    Ok(sums.to_vec()?)
}
