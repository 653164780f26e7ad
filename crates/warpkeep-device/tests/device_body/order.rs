//! Streams, events and threads.

use std::time::Duration;

use warpkeep_device::{Device, DeviceChoice, DeviceError, DevicePtr, Grid};

use super::programs::{DEVICE_SCOPE, PublishParams, load};

pub(crate) fn work_in_a_stream_is_in_order(device: &Device) {
    let stream = device.stream().unwrap();
    let (a, b) = (device.allocate(4096).unwrap(), device.allocate(4096).unwrap());
    for round in 0..20u8 {
        a.fill_on(0, 4096, round, &stream).unwrap();
        b.copy_from_on(0, &a, 0, 4096, &stream).unwrap();
        a.fill_on(0, 4096, 0xFF, &stream).unwrap();
    }
    let mut last = vec![0u8; 4096];
    b.read_on(0, &mut last, &stream).unwrap();
    assert_eq!(last, vec![19; 4096]);
    assert!(stream.is_done().unwrap());
    a.fill_on(0, 4096, 1, &stream).unwrap();
    assert!(stream.synchronize_within(Duration::from_secs(60)).unwrap());
}

pub(crate) fn events_tell_the_time_and_the_order(device: &Device) {
    let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
    let (start, end, never) = (device.event().unwrap(), device.event().unwrap(), device.event().unwrap());
    let buffer = device.allocate(1 << 20).unwrap();
    start.record(&one).unwrap();
    for byte in 0..50 {
        buffer.fill_on(0, 1 << 20, byte, &one).unwrap();
    }
    end.record(&one).unwrap();
    two.wait_for(&end).unwrap();
    let mut seen = [0u8; 1];
    buffer.read_on((1 << 20) - 1, &mut seen, &two).unwrap();
    assert_eq!(seen, [49], "the second stream did not wait");
    let took = end.elapsed_since(&start).unwrap();
    assert!(took > Duration::ZERO && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO);
    assert!(matches!(end.elapsed_since(&never), Err(DeviceError::NotRecorded)));
}

pub(crate) fn handles_of_another_device_are_refused(device: &Device) {
    let Ok(other) = Device::open(DeviceChoice::Sim) else { return };
    assert!(!other.is_same(device));
    let buffer = device.allocate_zeroed(8).unwrap();
    let theirs = (other.stream().unwrap(), other.event().unwrap(), other.allocate_zeroed(8).unwrap());
    let ours = device.stream().unwrap();
    let refused = [
        buffer.write_on(0, &[1u8], &theirs.0),
        buffer.fill_on(0, 1, 1, &theirs.0),
        buffer.copy_from(0, &theirs.2, 0, 1),
        ours.wait_for(&theirs.1),
        theirs.1.record(&ours),
    ];
    for result in refused {
        assert!(matches!(result.unwrap_err(), DeviceError::OtherDevice { .. }));
    }
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [0; 8]);
}

pub(crate) fn threads_share_a_device(device: &Device) {
    let module = load(device).unwrap();
    let count = module.kernel("publish_count").unwrap();
    let total = device.allocate_zeroed(8).unwrap();
    let params = PublishParams {
        data: total.ptr(),
        flags: DevicePtr::NULL,
        seen: DevicePtr::NULL,
        between: DEVICE_SCOPE,
        rounds: 2,
    };
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let count = &count;
            scope.spawn(move || {
                let stream = device.stream().unwrap();
                let own = device.allocate(1024).unwrap();
                for round in 0..5 {
                    own.fill_on(0, 1024, thread * 16 + round, &stream).unwrap();
                    let grid = Grid { blocks: 2, threads: 32, shared_bytes: 0 };
                    // SAFETY: the kernel counts in `total`, which outlives the threads; no other code looks at it.
                    unsafe { count.launch(grid, &params, &stream) }.unwrap();
                    let mut seen = vec![0u8; 1024];
                    own.read_on(0, &mut seen, &stream).unwrap();
                    assert_eq!(seen, vec![thread * 16 + round; 1024]);
                }
            });
        }
    });
    assert_eq!(total.to_vec::<u64>().unwrap(), [4 * 5 * 64 * 2]);
}
