//! The whole API on the first GPU: the same cases as on the simulator.

mod device_body;

use std::io::Write as _;
use std::sync::Once;
use std::time::Duration;

use warpkeep_device::{Device, DeviceChoice, DeviceError, DevicePtr, Grid, Stream};

/// The first GPU; `None`, said where CI sees it, if there is none.
fn gpu() -> Option<Device> {
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(device) => Some(device),
        Err(error @ DeviceError::NoCuda { .. }) => {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                writeln!(std::io::stdout().lock(), "SKIPPED: no CUDA device ({error})").unwrap();
            });
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn on_the_gpu(case: fn(&Device)) {
    if let Some(device) = gpu() {
        case(&device);
    }
}

all_device_cases!(crate::on_the_gpu);

#[test]
fn it_says_what_it_is() {
    let Some(device) = gpu() else { return };
    let abilities = device.info().abilities;
    let (free, total) = device.memory().unwrap();
    assert!(free <= total && total > 1 << 30, "{free} of {total}");
    assert!(abilities.memory_bytes >= total && abilities.multiprocessors > 0 && abilities.l2_bytes > 0);
    assert!(abilities.arch.is_some() && device.last_run().is_none() && device.simulator().is_none());
    writeln!(std::io::stdout().lock(), "{}: {abilities:?}", device.info()).unwrap();
}

#[test]
fn memory_that_the_gpu_does_not_have_is_told_with_what_it_has() {
    let Some(device) = gpu() else { return };
    let error = device.allocate(1 << 50).unwrap_err();
    let DeviceError::OutOfMemory { asked, free, total } = error else { panic!("{error}") };
    assert_eq!(asked, 1 << 50);
    assert!(free <= total && total < asked);
}

#[test]
fn a_stream_of_the_callers_is_used_and_left_alone() {
    let Some(device) = gpu() else { return };
    let theirs = device.stream().unwrap();
    // SAFETY: the stream is live, of the primary context, and outlives the second value.
    let borrowed = unsafe { Stream::from_raw(&device, theirs.as_raw()) }.unwrap();
    let buffer = device.allocate(100).unwrap();
    buffer.fill_on(0, 100, 7, &borrowed).unwrap();
    borrowed.synchronize().unwrap();
    drop(borrowed);
    let mut seen = [0u8; 100];
    buffer.read_on(0, &mut seen, &theirs).unwrap();
    assert_eq!(seen, [7; 100]);
    // SAFETY: null is the default stream.
    let default = unsafe { Stream::from_raw(&device, std::ptr::null_mut()) }.unwrap();
    buffer.fill_on(0, 100, 8, &default).unwrap();
    default.synchronize().unwrap();
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [8; 100]);
}

#[test]
fn opened_twice_it_is_one_gpu_and_memory_comes_back() {
    let (Some(first), Some(second)) = (gpu(), gpu()) else { return };
    assert!(!first.is_same(&second));
    let bytes = 1 << 30;
    for _ in 0..200 {
        // Far more than there is, if it were not given back.
        drop(first.allocate(bytes).unwrap());
        drop(second.allocate(bytes).unwrap());
    }
    drop(first);
    assert_eq!(second.upload(&[3u32]).unwrap().to_vec::<u32>().unwrap(), [3]);
}

#[test]
fn a_kernel_under_way_is_not_done_and_can_be_waited_for() {
    use device_body::programs::{DEVICE_SCOPE, PublishParams, load};
    let Some(device) = gpu() else { return };
    let count = load(&device).unwrap().kernel("publish_count").unwrap();
    let total = device.allocate_zeroed(8).unwrap();
    let null = DevicePtr::NULL;
    let rounds = 2_000;
    let params = PublishParams { data: total.ptr(), flags: null, seen: null, between: DEVICE_SCOPE, rounds };
    let stream = device.stream().unwrap();
    // SAFETY: the kernel counts in `total`. Hundreds of millions of changes of one word take it many milliseconds.
    unsafe { count.launch(Grid { blocks: 132, threads: 1024, shared_bytes: 0 }, &params, &stream) }.unwrap();
    assert!(!stream.is_done().unwrap());
    assert!(!stream.synchronize_within(Duration::from_micros(100)).unwrap());
    assert!(stream.synchronize_within(Duration::from_secs(60)).unwrap());
    assert_eq!(total.to_vec::<u64>().unwrap(), [132 * 1024 * u64::from(rounds)]);
}
