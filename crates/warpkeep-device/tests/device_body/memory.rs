//! Device memory.

use warpkeep_device::{Device, DeviceError, Grid, KernelCache, KernelSet as _};

use super::programs::{BothKernels, SLOTS, TableParams};

pub(crate) fn what_is_written_is_read(device: &Device) {
    for len in [1usize, 7, 4096, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let buffer = device.upload(&bytes).unwrap();
        assert_eq!(buffer.len(), len);
        assert!(!buffer.ptr().is_null());
        assert_eq!(buffer.to_vec::<u8>().unwrap(), bytes);
    }
    let zeros = device.allocate_zeroed(1000).unwrap();
    assert_eq!(zeros.to_vec::<u8>().unwrap(), vec![0; 1000]);
}

pub(crate) fn parts_are_written_and_read_at_their_offsets(device: &Device) {
    let stream = device.stream().unwrap();
    let buffer = device.allocate_zeroed(64).unwrap();
    buffer.write(8, &[0x1111_1111u32, 0x2222_2222]).unwrap();
    buffer.write_on(60, &[9u8, 8, 7, 6], &stream).unwrap();
    let mut part = [0u32; 3];
    buffer.read(4, &mut part).unwrap();
    assert_eq!(part, [0, 0x1111_1111, 0x2222_2222]);
    let mut tail = [0u8; 5];
    buffer.read_on(59, &mut tail, &stream).unwrap();
    assert_eq!(tail, [0, 9, 8, 7, 6]);
}

pub(crate) fn filling_and_copying(device: &Device) {
    let stream = device.stream().unwrap();
    let from = device.upload(&(0..100u8).collect::<Vec<_>>()).unwrap();
    let to = device.allocate(100).unwrap();
    to.fill(0xEE).unwrap();
    to.copy_from(10, &from, 20, 30).unwrap();
    to.copy_from_on(90, &from, 0, 10, &stream).unwrap();
    to.fill_on(0, 5, 0x11, &stream).unwrap();
    stream.synchronize().unwrap();
    let mut expected = vec![0xEE; 100];
    expected[10..40].copy_from_slice(&(20..50).collect::<Vec<u8>>());
    expected[90..].copy_from_slice(&(0..10).collect::<Vec<u8>>());
    expected[..5].fill(0x11);
    assert_eq!(to.to_vec::<u8>().unwrap(), expected);

    from.copy_from(0, &from, 50, 50).unwrap();
    let mut first = [0u8; 2];
    from.read(0, &mut first).unwrap();
    assert_eq!(first, [50, 51]);
    assert!(from.copy_from(0, &from, 49, 50).is_err(), "overlapping ranges");
}

pub(crate) fn views_count_elements(device: &Device) {
    let buffer = device.upload(&[10u64, 20, 30]).unwrap();
    let view = buffer.view::<u64>().unwrap();
    assert_eq!((view.len(), view.is_empty()), (3, false));
    assert_eq!(view.get(1).unwrap(), 20);
    view.set(1, 21).unwrap();
    view.write(2, &[31]).unwrap();
    assert_eq!(view.to_vec().unwrap(), [10, 21, 31]);
    assert_eq!(view.ptr(2).unwrap().address(), buffer.ptr().address() + 16);
    assert!(view.ptr(4).is_err());
    assert!(view.get(3).is_err());
    assert!(view.get(usize::MAX).is_err());
    let error = buffer.view::<[u8; 5]>().unwrap_err();
    assert!(matches!(error, DeviceError::NotWholeElements { size: 24, element: 5 }), "{error}");
}

pub(crate) fn ranges_outside_a_buffer_are_refused(device: &Device) {
    let buffer = device.allocate_zeroed(16).unwrap();
    let other = device.allocate_zeroed(16).unwrap();
    let stream = device.stream().unwrap();
    let mut out = [0u8; 4];
    let refused = [
        buffer.write(13, &[1u8, 2, 3, 4]),
        buffer.write(usize::MAX, &[1u8, 2]),
        buffer.read(17, &mut out),
        buffer.fill_on(1, 16, 0, &stream),
        buffer.copy_from(0, &other, 8, 9),
        buffer.copy_from(8, &other, 0, 9),
        buffer.copy_from(0, &other, 0, usize::MAX),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, DeviceError::OutOfBounds { size: 16, .. }), "{error}");
    }
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [0; 16]);
}

pub(crate) fn an_empty_buffer_is_a_buffer(device: &Device) {
    let buffer = device.allocate_zeroed(0).unwrap();
    assert!(buffer.is_empty());
    assert!(buffer.ptr().is_null());
    assert!(buffer.to_vec::<u64>().unwrap().is_empty());
    buffer.write::<u8>(0, &[]).unwrap();
    assert!(buffer.write(0, &[1u8]).is_err());
    assert!(device.pin(0).unwrap().as_slice().is_empty());
}

pub(crate) fn a_budget_holds_and_is_given_back(device: &Device) {
    let before = device.allocated();
    let handle = device.with_budget(1000);
    assert!(handle.is_same(device));
    let first = handle.allocate(600).unwrap();
    assert_eq!((handle.budget_left(), handle.allocated()), (400, 600));
    let error = handle.allocate(401).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfBudget { asked: 401, left: 400 }), "{error}");
    assert!(error.is_out_of_memory() && !error.is_lost());
    let inner = handle.clone().with_budget(u64::MAX);
    assert!(inner.allocate(401).is_err(), "a budget inside another cannot be larger");
    let second = inner.allocate_zeroed(400).unwrap();
    assert_eq!((handle.budget_left(), inner.allocated()), (0, 400));
    drop((first, second));
    assert_eq!((handle.budget_left(), device.allocated()), (1000, before));
}

pub(crate) fn too_much_memory_is_an_error(device: &Device) {
    let before = device.allocated();
    let error = device.allocate(1 << 60).unwrap_err();
    assert_eq!(device.allocated(), before, "what was not had is not counted");
    assert!(error.is_out_of_memory() && !error.is_lost(), "{error}");
    device.check().unwrap();
    let small = device.allocate_zeroed(8).unwrap();
    assert_eq!(small.to_vec::<u64>().unwrap(), [0]);
}

pub(crate) fn a_buffer_grows_where_it_lies(device: &Device) {
    let mut buffer = device.reserve(256 << 20).unwrap();
    assert!(buffer.reserved() >= 256 << 20);
    let (at, used) = (buffer.ptr(), device.allocated());
    let kernels = BothKernels::load_with(device, &KernelCache::none()).unwrap();
    let stream = device.stream().unwrap();
    for (buckets, first) in [(2_u64, 1_u64), (300, 100), (5_000, 1_000)] {
        let bytes = (buckets * SLOTS * 16) as usize;
        let before = buffer.len();
        buffer.grow_zeroed(bytes).unwrap();
        assert_eq!((buffer.ptr(), buffer.len()), (at, bytes));
        assert_eq!(device.allocated() - used, buffer.backed() as u64);
        // What was there stays.
        if before > 0 {
            assert_eq!(buffer.view::<u64>().unwrap().get(before / 8 - 1).unwrap(), u64::MAX);
        }
        // Kernels use all of it, also across the borders of what was mapped at once.
        buffer.fill(0).unwrap();
        let keys: Vec<u64> = (first..first + buckets).collect();
        let values: Vec<u64> = keys.iter().map(|key| key + 1).collect();
        let (keys_in, values_in) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let params = TableParams {
            slots: at,
            keys: keys_in.ptr(),
            values: values_in.ptr(),
            buckets,
            count: keys.len() as u64,
        };
        let grid = Grid::covering(keys.len() as u64, 64);
        // SAFETY: all buffers are as long as the parameters say, and stay until the stream is synchronised.
        unsafe { kernels.table_insert.launch(grid, &params, &stream).unwrap() };
        values_in.fill_on(0, values_in.len(), 0, &stream).unwrap();
        // SAFETY: as above.
        unsafe { kernels.table_find.launch(grid, &params, &stream).unwrap() };
        stream.synchronize().unwrap();
        assert_eq!(values_in.to_vec::<u64>().unwrap(), values);
        buffer.write(bytes - 8, &[u64::MAX]).unwrap();
    }
    drop(buffer);
    assert_eq!(device.allocated(), used);
}
