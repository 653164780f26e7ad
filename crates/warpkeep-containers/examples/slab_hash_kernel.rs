//! A kernel of one's own that tells which words of a stream are new: `slab_hash_calls_first` in `kernels/slab_hash_calls.cu`.
//!
//! The kernel claims slabs, but it cannot make the set grow. It answers `Full` for words that it has no place for, and the host inserts those,
//! which makes room.

use std::error::Error;

use bytemuck::NoUninit;
use warpkeep_containers::{SlabAnswer, SlabHashOptions, SlabSet, SlabStatus, SlabTableRef};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Grid, KernelSet as _};

/// What the kernel takes: the struct `Firsts` of its source.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Firsts {
    seen: SlabTableRef,
    words: DevicePtr,
    statuses: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct Kernels in "slab_hash_calls.cu", prefix "slab_hash_calls_" {
        first: Firsts,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (kernels, stream) = (Kernels::load(&device)?, device.stream()?);
    let mut seen = SlabSet::<u64>::new(&device, SlabHashOptions::default())?;
    let (mut first, mut refused) = (0, 0);
    for page in 0..10_u64 {
        let words: Vec<u64> = (0..2000).map(|i| (i * i + 31 * page) % 12_007).collect();
        let (on_device, statuses) = (device.upload(&words)?, device.allocate(words.len())?);
        let params = Firsts {
            seen: seen.reference()?,
            words: on_device.ptr(),
            statuses: statuses.ptr(),
            count: words.len() as u64,
        };
        // SAFETY: the columns have a word and a status for each thread, and the set is not used otherwise until the stream is synchronised.
        unsafe { kernels.first.launch(Grid::covering(params.count, 128), &params, &stream)? };
        stream.synchronize()?;
        let statuses = statuses.to_vec::<u8>()?;
        first += statuses.iter().filter(|status| **status == SlabStatus::Inserted as u8).count();
        let is_full = |status: u8| status == SlabStatus::Full as u8;
        let left: Vec<u64> = words
            .iter()
            .zip(statuses)
            .filter(|(_, status)| is_full(*status))
            .map(|(word, _)| *word)
            .collect();
        let answers = seen.insert(&left)?;
        first += answers.iter().filter(|answer| **answer == SlabAnswer::Inserted).count();
        refused += left.len();
        assert!(seen.contains(&words)?.into_iter().all(|there| there));
    }
    assert_eq!(first as u64, seen.len()?);
    println!("{first} different words, {refused} inserted by the host, {:?}", seen.stats()?);
    Ok(())
}
