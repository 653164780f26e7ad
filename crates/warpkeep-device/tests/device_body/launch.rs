//! Kernels.

use bytemuck::NoUninit;
use warpkeep_device::{
    Device, DeviceChoice, DeviceError, DevicePtr, Grid, KernelCache, KernelEntry, KernelSet as _, Program,
};

use super::programs::{BothKernels, SLOTS, TableParams, items, load, program};

fn key(i: u64) -> u64 {
    // Any odd factor gives every number once; 0 means empty.
    (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

pub(crate) fn a_table_of_kernels_answers(device: &Device) {
    let count = items(device);
    let buckets = count.div_ceil(SLOTS) * 2;
    let keys: Vec<u64> = (0..count).map(key).collect();
    let values: Vec<u64> = (0..count).map(|i| i + 7).collect();
    let slots = device.allocate_zeroed((buckets * SLOTS * 16) as usize).unwrap();
    let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());

    let BothKernels { table_insert: insert, table_find: find, .. } =
        BothKernels::load_with(device, &KernelCache::none()).unwrap();
    assert_eq!(find.name(), "table_find");
    assert!(find.resident_blocks(128, 0).unwrap() > 0);
    if device.simulator().is_none() {
        assert!(find.resources().registers > 0);
        assert!(!find.resources().spills());
    }
    let stream = device.stream().unwrap();
    let grid = Grid::covering(count, 128);
    let mut params =
        TableParams { slots: slots.ptr(), keys: keys_in.ptr(), values: values_in.ptr(), buckets, count };
    // SAFETY: all buffers are as long as the parameters say and live until the end; only kernels look at them until the
    // stream is waited for.
    unsafe { insert.launch(grid, &params, &stream) }.unwrap();
    let found = device.allocate_zeroed(values.len() * 8).unwrap();
    params.values = found.ptr();
    // SAFETY: as above.
    unsafe { find.launch(grid, &params, &stream) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(found.to_vec::<u64>().unwrap(), values);

    // Keys that are not there.
    let others: Vec<u64> = (count..2 * count).map(key).collect();
    keys_in.write_on(0, &others, &stream).unwrap();
    // SAFETY: as above.
    unsafe { find.launch(grid, &params, &stream) }.unwrap();
    stream.synchronize().unwrap();
    assert!(found.to_vec::<u64>().unwrap().iter().all(|value| *value == 0));
    assert_eq!(device.last_run().is_some(), device.simulator().is_some());
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Oversize([u64; 513]);

pub(crate) fn launches_that_cannot_be_are_refused(device: &Device) {
    let module = load(device).unwrap();
    let stream = device.stream().unwrap();
    let null = DevicePtr::NULL;
    let params = TableParams { slots: null, keys: null, values: null, buckets: 1, count: 0 };
    let fine = Grid { blocks: 1, threads: 32, shared_bytes: 0 };

    let error = module.kernel("table_fnid").unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DeviceError::UnknownKernel { .. }));
    assert!(text.contains("table_fnid") && text.contains("table_find, publish_count"), "{text}");

    // SAFETY: refused before anything runs, all of them.
    unsafe {
        assert!(matches!(
            module.launch("nothing", fine, &params, &stream),
            Err(DeviceError::UnknownKernel { .. })
        ));
        assert!(matches!(
            module.launch("table_find", fine, &Oversize([0; 513]), &stream),
            Err(DeviceError::ParamsTooLarge { bytes: 4104, most: 4096, .. })
        ));
        assert!(matches!(
            module.launch("table_find", fine, &7u64, &stream),
            Err(DeviceError::WrongParams { given: 8, expected: 40, .. })
        ));
        let wrong = [
            Grid { blocks: 0, ..fine },
            Grid { threads: 0, ..fine },
            Grid { threads: 1025, ..fine },
            Grid { blocks: u32::MAX, ..fine },
            Grid { shared_bytes: 1 << 30, ..fine },
        ];
        for grid in wrong {
            let error = module.launch("table_find", grid, &params, &stream).unwrap_err();
            assert!(matches!(error, DeviceError::BadGrid { .. }), "{grid:?}: {error}");
            assert!(error.to_string().contains("table_find"));
        }
        if let Ok(other) = Device::open(DeviceChoice::Sim) {
            let refused = module.launch("table_find", fine, &params, &other.stream().unwrap());
            assert!(matches!(refused, Err(DeviceError::OtherDevice { .. })), "{refused:?}");
        }
        // With nothing to do it runs, and touches nothing; also with much shared memory.
        module.launch("table_find", fine, &params, &stream).unwrap();
        module.launch("table_find", Grid { shared_bytes: 100 << 10, ..fine }, &params, &stream).unwrap();
    }
    stream.synchronize().unwrap();
}

pub(crate) fn a_program_is_loaded_twice(device: &Device) {
    let folder = tempfile::tempdir().unwrap();
    let cache = KernelCache::at(folder.path());
    for _ in 0..2 {
        device.load_with(&program(), &cache).unwrap().kernel("table_insert").unwrap();
    }
    let entries = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(entries, usize::from(device.simulator().is_none()), "a GPU's code is kept, once");

    const WRONG: &[KernelEntry] = &[KernelEntry { name: "no_such_kernel", params_bytes: 8, simulated: None }];
    let mut wrong = program();
    wrong.kernels = WRONG;
    let error = device.load_with(&wrong, &KernelCache::none()).unwrap_err();
    assert!(error.to_string().contains("no_such_kernel"), "{error}");
}

pub(crate) fn a_kernel_outlives_its_module_handle(device: &Device) {
    let find = load(device).unwrap().kernel("table_find").unwrap();
    let stream = device.stream().unwrap();
    let null = DevicePtr::NULL;
    let params = TableParams { slots: null, keys: null, values: null, buckets: 1, count: 0 };
    // SAFETY: with no items the kernel touches nothing.
    unsafe { find.launch(Grid { blocks: 3, threads: 64, shared_bytes: 0 }, &params, &stream) }.unwrap();
    stream.synchronize().unwrap();
}

pub(crate) fn a_set_whose_sides_disagree_is_refused(device: &Device) {
    let right = BothKernels::program();
    let load = |program| device.load_with(&program, &KernelCache::none()).map(|_| ()).unwrap_err();

    let mut agreement = right.agreements[0];
    agreement.host += 1;
    let error = load(Program { agreements: vec![agreement].leak(), ..right.clone() });
    assert!(matches!(error, DeviceError::Disagreement { host: 17, kernels: Some(16), .. }), "{error}");
    assert!(error.to_string().contains("WK_AGREE(table_slots"), "{error}");

    agreement.name = "no_such_number";
    agreement.simulated = None;
    let error = load(Program { agreements: vec![agreement].leak(), ..right.clone() });
    assert!(matches!(error, DeviceError::Disagreement { kernels: None, .. }), "{error}");

    let mut kernel = right.kernels[1];
    kernel.params_bytes += 8;
    let error = load(Program { kernels: vec![kernel].leak(), ..right.clone() });
    assert!(matches!(error, DeviceError::WrongParams { given: 48, expected: 40, .. }), "{error}");

    // A handle for another struct is refused before anything is launched with it.
    let module = device.load_with(&right, &KernelCache::none()).unwrap();
    let error = module.typed::<u64>("table_find").unwrap_err();
    assert!(matches!(error, DeviceError::WrongParams { given: 8, expected: 40, .. }), "{error}");
    let part = Program { kernels: &right.kernels[..1], ..right.clone() };
    let error = BothKernels::of(&device.load_with(&part, &KernelCache::none()).unwrap()).unwrap_err();
    assert!(matches!(error, DeviceError::UnknownKernel { .. }), "{error}");
}
