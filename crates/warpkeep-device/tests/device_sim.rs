//! The whole API on the simulator, as fast as it goes and on a seeded schedule with every access checked.

#![cfg(not(no_simulator))]

mod device_body;

use std::io::Write as _;
use std::ptr::NonNull;

use bytemuck::NoUninit;
use device_body::programs::{DEVICE_SCOPE, PublishParams, SYSTEM_FENCE, program};
use warpkeep_device::sim::{CrashImage, Mode};
use warpkeep_device::{
    Device, DeviceError, DevicePtr, Grid, KernelSet as _, Program, RegisterOptions, Stream,
};

fn on_both_modes(case: fn(&Device)) {
    for mode in [Mode::fast(), Mode::seeded(3)] {
        case(&Device::simulated(mode).unwrap());
    }
}

all_device_cases!(crate::on_both_modes);

const WARP: Grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };

/// `faults::Params`.
#[derive(Debug, Clone, Copy, NoUninit)]
#[repr(C)]
struct FaultParams {
    data: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    /// Kernels that do something wrong.
    struct FaultKernels in "sim.cu", prefix "fault_" {
        assertion: FaultParams,
        out_of_bounds: FaultParams,
        uninitialised: FaultParams,
    }
}

/// Runs one of the kernels that do something wrong.
fn fail(device: &Device, kernel: &str, grid: Grid, data: DevicePtr) -> DeviceError {
    let stream = device.stream().unwrap();
    let module = device.load(&FaultKernels::program()).unwrap();
    // SAFETY: the simulator stops the kernel where it goes wrong.
    unsafe { module.launch(kernel, grid, &FaultParams { data, count: 0 }, &stream) }.unwrap_err()
}

#[test]
fn a_kernel_that_fails_loses_the_device() {
    for mode in [Mode::fast(), Mode::seeded(1)] {
        let device = Device::simulated(mode).unwrap();
        let buffer = device.allocate_zeroed(8).unwrap();
        let error = fail(&device, "fault_assertion", Grid { threads: 64, ..WARP }, buffer.ptr());
        assert!(error.is_lost(), "{error}");
        assert!(
            error.to_string().contains("kernel fault_assertion") && error.to_string().contains("4242"),
            "{error}"
        );

        // From now on everything says the same, and nothing hangs or panics.
        let later = [
            device.check().unwrap_err(),
            device.allocate(8).unwrap_err(),
            device.stream().unwrap_err(),
            device.event().unwrap_err(),
            device.pin(8).unwrap_err(),
            buffer.fill(1).unwrap_err(),
            buffer.to_vec::<u64>().unwrap_err(),
            device.load(&program()).unwrap_err(),
        ];
        for lost in later {
            assert_eq!(lost.to_string(), error.to_string());
        }
        // Another device is not concerned.
        assert_eq!(
            Device::simulated(Mode::fast()).unwrap().upload(&[1u8]).unwrap().to_vec::<u8>().unwrap(),
            [1]
        );
    }
}

#[test]
fn memory_that_was_never_written_is_found_out_and_what_was_written_is_not() {
    let device = || Device::simulated(Mode::seeded(5)).unwrap();
    let fresh = device();
    let unwritten = fresh.allocate(32 * 8).unwrap();
    let error = fail(&fresh, "fault_uninitialised", WARP, unwritten.ptr());
    assert!(error.to_string().contains("uninitialised"), "{error}");

    let fills: [fn(&Device, &warpkeep_device::Buffer); 4] = [
        |_, buffer| buffer.fill(0).unwrap(),
        |_, buffer| buffer.write(0, &[0u64; 32]).unwrap(),
        |device, buffer| {
            let other = device.allocate_zeroed(32 * 8).unwrap();
            buffer.copy_from(0, &other, 0, 32 * 8).unwrap();
        },
        |device, buffer| {
            let stream = device.stream().unwrap();
            buffer.fill_on(0, 32 * 8, 1, &stream).unwrap();
        },
    ];
    for fill in fills {
        let device = device();
        let buffer = device.allocate(32 * 8).unwrap();
        fill(&device, &buffer);
        let stream = device.stream().unwrap();
        let module = device.load(&FaultKernels::program()).unwrap();
        // SAFETY: 32 threads use a word each.
        unsafe {
            module.launch("fault_uninitialised", WARP, &FaultParams { data: buffer.ptr(), count: 0 }, &stream)
        }
        .unwrap();
    }
}

#[test]
fn a_buffer_that_is_too_short_or_gone_is_found_out() {
    let device = Device::simulated(Mode::seeded(5)).unwrap();
    let short = device.allocate_zeroed(31 * 8).unwrap();
    let error = fail(&device, "fault_out_of_bounds", WARP, short.ptr());
    assert!(error.is_lost() && error.to_string().contains("out of bounds"), "{error}");

    let device = Device::simulated(Mode::seeded(5)).unwrap();
    let gone = device.allocate_zeroed(32 * 8).unwrap().ptr();
    let error = fail(&device, "fault_out_of_bounds", WARP, gone);
    assert!(error.is_lost() && error.to_string().contains("after free"), "{error}");
}

#[test]
fn a_kernel_without_an_entry_for_the_simulator_is_refused() {
    const ONLY_CUDA: &[warpkeep_device::KernelEntry] =
        &[warpkeep_device::KernelEntry { name: "only_cuda", params_bytes: 8, simulated: None }];
    let device = Device::simulated(Mode::fast()).unwrap();
    let program = Program { kernels: ONLY_CUDA, ..FaultKernels::program() };
    let error = device.load(&program).unwrap_err();
    assert!(matches!(error, DeviceError::NotSimulated { kernel: "only_cuda", .. }), "{error}");
}

#[test]
fn streams_of_others_are_refused() {
    let device = Device::simulated(Mode::fast()).unwrap();
    // SAFETY: refused before it is used.
    assert!(unsafe { Stream::from_raw(&device, std::ptr::null_mut()) }.is_err());
}

/// An image whose words kernels change, aligned for them.
fn image() -> Vec<u64> {
    vec![0; 64 * 4 + 64]
}

fn keep_records(device: &Device, at: DevicePtr) -> Result<(), DeviceError> {
    let stream = device.stream()?;
    let module = device.load(&program())?;
    let params = PublishParams {
        data: at,
        flags: at.offset(64 * 4 * 8),
        seen: DevicePtr::NULL,
        between: SYSTEM_FENCE,
        rounds: 2,
    };
    // SAFETY: the kernel keeps 4 words a thread and a flag each, which the image has room for.
    unsafe { module.launch("publish_records", Grid { blocks: 2, ..WARP }, &params, &stream) }
}

#[test]
fn a_crash_is_a_loss_and_what_it_can_leave_is_known() {
    // How long a run without a crash takes.
    let whole = Device::simulated(Mode::seeded(9)).unwrap();
    let mut words = image();
    let at = NonNull::new(words.as_mut_ptr().cast::<u8>()).unwrap();
    // SAFETY: the vector outlives the registration, and is not looked at before it is gone.
    let registered = unsafe { whole.register(at, words.len() * 8, RegisterOptions::IMAGE) }.unwrap();
    keep_records(&whole, registered.ptr()).unwrap();
    let steps = whole.last_run().unwrap().now;
    drop((registered, whole));
    assert!(words[64 * 4..].iter().all(|flag| *flag == 2));

    let mut images = 0;
    for step in (1..steps).step_by(7) {
        let device = Device::simulated(Mode::seeded(9)).unwrap();
        let simulator = device.simulator().unwrap();
        simulator.crash_at(Some(step));
        let mut words = image();
        let before = image();
        let at = NonNull::new(words.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: as above.
        let registered = unsafe { device.register(at, words.len() * 8, RegisterOptions::IMAGE) }.unwrap();
        let error = keep_records(&device, registered.ptr()).unwrap_err();
        assert!(error.is_lost() && error.to_string().contains(&format!("step {step}")), "{error}");
        let log = simulator.take_store_log();
        let crash = CrashImage::new(bytemuck::cast_slice(&before), registered.region().unwrap(), &log, step);
        for seed in 0..8 {
            let left: Vec<u64> = bytemuck::allocation::pod_collect_to_vec(&crash.sample(seed));
            for thread in 0..64usize {
                // A flag says how many records are whole.
                for round in 1..=left[64 * 4 + thread] {
                    let record = (thread * 2 + round as usize - 1) * 2;
                    let expected = [round * 1000 + thread as u64, round * 2000 + thread as u64];
                    assert_eq!(left[record..record + 2], expected, "crash at {step}, seed {seed}");
                }
            }
            images += 1;
        }
    }
    assert!(images > 100, "{images}");
    writeln!(std::io::stdout().lock(), "kernels on a simulated device: {images} images").unwrap();
}

#[test]
fn a_run_on_a_seed_is_the_same_every_time() {
    let digest = |seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let total = device.allocate_zeroed(8).unwrap();
        let stream = device.stream().unwrap();
        let null = DevicePtr::NULL;
        let params =
            PublishParams { data: total.ptr(), flags: null, seen: null, between: DEVICE_SCOPE, rounds: 3 };
        let module = device.load(&program()).unwrap();
        // SAFETY: the kernel counts in `total`.
        unsafe { module.launch("publish_count", Grid { blocks: 2, ..WARP }, &params, &stream) }.unwrap();
        assert_eq!(total.to_vec::<u64>().unwrap(), [64 * 3]);
        device.last_run().unwrap().digest
    };
    assert_eq!(digest(4), digest(4));
    assert_ne!(digest(4), digest(5));
}
