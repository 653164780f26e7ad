//! A kernel of one's own that counts words in a hash map: `hash_map_calls_count_words` in `kernels/hash_map_calls.cu`.
//!
//! The kernel cannot make the map grow. It answers `Full` for words that it has no slot for, and the host counts those, which makes room.

use std::error::Error;

use bytemuck::NoUninit;
use warpkeep_containers::{HashMap, HashMapOptions, HashMapRef, MapStatus, Upsert};
use warpkeep_device::{Device, DeviceChoice, DevicePtr, Grid, KernelSet as _};

/// What the kernel takes: the struct `Words` of its source.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Words {
    map: HashMapRef,
    words: DevicePtr,
    statuses: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct Kernels in "hash_map_calls.cu", prefix "hash_map_calls_" {
        count_words: Words,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open(DeviceChoice::Cuda(0)).or_else(|_| Device::open(DeviceChoice::Sim))?;
    let (kernels, stream) = (Kernels::load(&device)?, device.stream()?);
    let counts = HashMap::new(&device, &HashMapOptions::default())?;
    let mut refused = 0;
    for page in 0..10_u64 {
        let words: Vec<u64> = (0..1000).map(|i| (i * i + 7 * page) % 611).collect();
        let (on_device, statuses) = (device.upload(&words)?, device.allocate(words.len())?);
        let params = Words {
            map: counts.reference()?,
            words: on_device.ptr(),
            statuses: statuses.ptr(),
            count: words.len() as u64,
        };
        // SAFETY: the columns have a word and a status for each thread, and the map is not used otherwise until the stream is synchronised.
        unsafe { kernels.count_words.launch(Grid::covering(params.count, 128), &params, &stream)? };
        stream.synchronize()?;
        let is_full = |status: u8| status == MapStatus::Full as u8;
        let statuses = statuses.to_vec::<u8>()?;
        let left: Vec<u64> =
            words.iter().zip(statuses).filter(|(_, s)| is_full(*s)).map(|(w, _)| *w).collect();
        counts.upsert(Upsert::Add, &left, &vec![1; left.len()])?;
        refused += left.len();
    }
    let total: u64 = counts.retrieve_all()?.iter().map(|(_, count)| count).sum();
    assert_eq!(total, 10_000);
    println!(
        "{} different words, {refused} of {total} counted by the host, {:?}",
        counts.len()?,
        counts.stats()?
    );
    Ok(())
}
