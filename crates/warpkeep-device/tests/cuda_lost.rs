//! A GPU lost to a kernel. Alone in its process: nothing there can use that GPU afterwards.

#[allow(dead_code, reason = "one of its kernels is enough to lose a GPU")]
#[path = "device_body/programs.rs"]
mod programs;

use std::io::Write as _;

use programs::{TableParams, load};
use warpkeep_device::{Device, DeviceChoice, DeviceError, DevicePtr, Grid};

#[test]
fn a_kernel_that_strays_loses_the_device_and_is_named() {
    let device = match Device::open(DeviceChoice::Cuda(0)) {
        Ok(device) => device,
        Err(error @ DeviceError::NoCuda { .. }) => {
            writeln!(std::io::stdout().lock(), "SKIPPED: no CUDA device ({error})").unwrap();
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let module = load(&device).unwrap();
    let stream = device.stream().unwrap();
    let mut pinned = device.pin(64).unwrap();
    pinned.as_mut_slice().fill(9);
    let buffer = device.allocate_zeroed(64).unwrap();

    let fine = TableParams {
        slots: DevicePtr::NULL,
        keys: DevicePtr::NULL,
        values: DevicePtr::NULL,
        buckets: 1,
        count: 0,
    };
    let grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };
    // SAFETY: with no items it touches nothing.
    unsafe { module.launch("table_insert", grid, &fine, &stream) }.unwrap();
    stream.synchronize().unwrap();

    let strays = TableParams { keys: DevicePtr::new(0x10), count: 32, ..fine };
    // SAFETY: it reads an address that is not there, which ends the context and nothing else.
    unsafe { module.launch("table_find", grid, &strays, &stream) }.unwrap();
    let error = stream.synchronize().unwrap_err();
    writeln!(std::io::stdout().lock(), "{error}").unwrap();
    assert!(error.is_lost(), "{error}");
    let DeviceError::Lost { kernel, .. } = &error else { panic!("{error}") };
    assert_eq!(kernel, "kernel table_find");

    let later = [
        device.check().unwrap_err(),
        device.allocate(8).unwrap_err(),
        buffer.fill(1).unwrap_err(),
        buffer.to_vec::<u8>().unwrap_err(),
        device.load(&programs::program()).unwrap_err(),
        device.stream().unwrap_err(),
        device.pin(8).unwrap_err(),
    ];
    for lost in later {
        assert_eq!(lost.to_string(), error.to_string());
    }
    // Host memory is good to the end, and everything can be dropped.
    assert_eq!(pinned.as_slice(), [9; 64]);
    drop((buffer, pinned, module, stream));
    drop(device);
    // The primary context is the process's: opening the GPU again here shows it.
    if let Ok(again) = Device::open(DeviceChoice::Cuda(0)) {
        let result = again.upload(&[1u8]);
        writeln!(std::io::stdout().lock(), "opened again in the same process: {result:?}").unwrap();
    }
}
