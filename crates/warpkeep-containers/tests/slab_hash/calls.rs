//! Batches in device memory, in a stream of the caller.

use std::fmt::Debug;

use bytemuck::{NoUninit, Pod, checked};
use warpkeep_containers::{
    ContainerError, DeviceSlabAnswers, DeviceSlabOps, SlabAnswer, SlabHashOptions, SlabKey, SlabMap,
    SlabMultiMap, SlabMultiRequest, SlabOpKind, SlabOpKinds, SlabRequest, SlabSet, SlabStatus, SlabTableRef,
    SlabValue, Sorter,
};
use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, Grid, KernelSet as _};
use warpkeep_suites::device::Dice;

use crate::{device, sorted};

fn options() -> SlabHashOptions {
    SlabHashOptions { seed: Some(0), ..SlabHashOptions::default() }
}

fn statuses(column: &Buffer) -> Vec<SlabStatus> {
    checked::try_cast_slice::<u8, SlabStatus>(&column.to_vec::<u8>().unwrap()).unwrap().to_vec()
}

/// Batches with distinct keys, whose answers are the same in every order: those of columns are those of slices.
fn columns_agree_with_slices<W: SlabKey<W> + SlabValue>(word: fn(u64) -> W, slab_bytes: u32) {
    let (device, mut dice) = (device(), Dice::new(7));
    let options = SlabHashOptions { slab_bytes, ..options() };
    let mut on_columns = SlabMap::<W, W>::new(&device, options).unwrap();
    let mut on_slices = SlabMap::<W, W>::on_cpu(options);
    let stream = device.stream().unwrap();
    for batch in 0..12 {
        let begin = dice.below(300);
        let requests: Vec<SlabRequest<W, W>> = (begin..begin + dice.below(400))
            .map(|number| match (dice.below(4), word(number), word(number << 7 | batch)) {
                (0, key, _) => SlabRequest::Search(key),
                (1, key, value) => SlabRequest::Insert(key, value),
                (2, key, value) => SlabRequest::Replace(key, value),
                (_, key, _) => SlabRequest::Delete(key),
            })
            .collect();
        let (mut codes, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for request in &requests {
            let (kind, value) = match *request {
                // A byte that is no kind searches.
                SlabRequest::Search(_) => (if batch == 3 { 200 } else { 0 }, word(0)),
                SlabRequest::Insert(_, value) => (SlabOpKind::Insert as u8, value),
                SlabRequest::Replace(_, value) => (SlabOpKind::Replace as u8, value),
                SlabRequest::Delete(_) => (SlabOpKind::Delete as u8, word(0)),
            };
            codes.push(kind);
            keys.push(request.key());
            values.push(value);
        }
        let codes = device.upload(&codes).unwrap();
        let (keys, values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let count = requests.len();
        let mut found_statuses = device.allocate(count).unwrap();
        let mut found = device.allocate(size_of::<W>() * count).unwrap();
        let kinds = SlabOpKinds::Each(&codes);
        let ops = DeviceSlabOps { kinds, keys: &keys, values: Some(&values), count };
        let answers = DeviceSlabAnswers { statuses: &mut found_statuses, values: Some(&mut found) };
        on_columns.apply_on(ops, answers, &stream).unwrap();
        let expected = on_slices.apply(&requests).unwrap();
        for ((status, value), expected) in
            statuses(&found_statuses).into_iter().zip(found.to_vec::<W>().unwrap()).zip(&expected)
        {
            assert_eq!(value, expected.value().unwrap_or_default());
            assert_eq!(format!("{status:?}"), format!("{expected:?}").split('(').next().unwrap());
        }
        assert_eq!(sorted(on_columns.pairs().unwrap()), sorted(on_slices.pairs().unwrap()));
        // The list in device memory has the same.
        let len = on_columns.len().unwrap() as usize;
        let mut keys = device.allocate(size_of::<W>() * len).unwrap();
        let mut values = device.allocate(size_of::<W>() * len).unwrap();
        assert_eq!(on_columns.pairs_on(&mut keys, &mut values, &stream).unwrap(), len as u64);
        let listed = keys.to_vec::<W>().unwrap().into_iter().zip(values.to_vec::<W>().unwrap()).collect();
        assert_eq!(sorted(listed), sorted(on_slices.pairs().unwrap()));
    }
    assert!(on_columns.len().unwrap() > 100, "{:?}", on_columns.stats());
}

#[test]
fn columns_and_slices_have_the_same_answers() {
    columns_agree_with_slices::<u32>(|number| (number as u32).wrapping_mul(0x9E37_79B9), 64);
    columns_agree_with_slices::<u64>(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15), 0);
}

/// A column of `count` answers.
fn answers<V: Pod>(device: &Device, count: usize) -> (Buffer, Buffer) {
    (device.allocate(count).unwrap(), device.allocate(size_of::<V>() * count).unwrap())
}

#[test]
fn a_batch_of_one_kind_needs_no_codes_and_searches_can_be_enqueued() {
    let (device, count) = (device(), 5000);
    let stream = device.stream().unwrap();
    let numbers: Vec<u64> = (0..count as u64).collect();
    let (keys, values) = (device.upload(&numbers).unwrap(), device.upload(&sorted(numbers.clone())).unwrap());
    let mut map = SlabMap::<u64, u64>::new(&device, options()).unwrap();
    let (mut states, mut found) = answers::<u64>(&device, count);
    for (kind, status) in [
        (SlabOpKind::Search, SlabStatus::Absent),
        (SlabOpKind::Insert, SlabStatus::Inserted),
        (SlabOpKind::Insert, SlabStatus::Present),
        (SlabOpKind::Replace, SlabStatus::Updated),
        (SlabOpKind::Search, SlabStatus::Found),
        (SlabOpKind::Count, SlabStatus::Counted),
        (SlabOpKind::Delete, SlabStatus::Removed),
        (SlabOpKind::Replace, SlabStatus::Inserted),
        (SlabOpKind::DeleteAll, SlabStatus::Counted),
        (SlabOpKind::Insert, SlabStatus::Inserted),
    ] {
        let ops = DeviceSlabOps { kinds: SlabOpKinds::All(kind), keys: &keys, values: Some(&values), count };
        // Without a column for values they are not written.
        let without = DeviceSlabAnswers { statuses: &mut states, values: None };
        map.apply_on(ops, without, &stream).unwrap();
        assert!(statuses(&states).iter().all(|is| *is == status), "{kind:?}");
    }
    let stats = map.stats().unwrap();
    assert!(stats.buckets >= 1024 && stats.chained_slabs < stats.buckets, "{stats:?}");

    let to = DeviceSlabAnswers { statuses: &mut states, values: Some(&mut found) };
    // SAFETY: nothing uses the buffers or the map until the event is reached.
    let event = unsafe { map.enqueue_search(&keys, count, to, &stream).unwrap() };
    event.synchronize().unwrap();
    assert!(statuses(&states).iter().all(|is| *is == SlabStatus::Found));
    assert_eq!(found.to_vec::<u64>().unwrap(), numbers);
}

#[test]
fn sets_have_columns_of_keys_alone() {
    let (device, count) = (device(), 3000);
    let stream = device.stream().unwrap();
    let numbers: Vec<u32> = (0..count as u32).map(|number| number / 2 * 7).collect();
    let keys = device.upload(&numbers).unwrap();
    let mut set: SlabSet = SlabSet::new(&device, options()).unwrap();
    let mut states = device.allocate(count).unwrap();
    let kinds = SlabOpKinds::All(SlabOpKind::Insert);
    let ops = DeviceSlabOps { kinds, keys: &keys, values: None, count };
    set.apply_on(ops, DeviceSlabAnswers { statuses: &mut states, values: None }, &stream).unwrap();
    let inserted = |of: &[SlabStatus]| of.iter().filter(|status| **status == SlabStatus::Inserted).count();
    assert_eq!((inserted(&statuses(&states)), set.len().unwrap()), (1500, 1500));
    let mut listed = device.allocate(4 * 1500).unwrap();
    assert_eq!(set.keys_on(&mut listed, &stream).unwrap(), 1500);
    assert_eq!(sorted(listed.to_vec::<u32>().unwrap()), (0..1500).map(|i| i * 7).collect::<Vec<u32>>());
    // SAFETY: nothing uses the buffers or the set until the event is reached.
    unsafe {
        let to = DeviceSlabAnswers { statuses: &mut states, values: None };
        set.enqueue_search(&keys, count, to, &stream).unwrap().synchronize().unwrap();
    }
    assert!(statuses(&states).iter().all(|is| *is == SlabStatus::Found));
}

#[test]
fn values_are_counted_and_gathered_in_device_memory() {
    let (device, keys_each) = (device(), 60);
    let (stream, sorter) = (device.stream().unwrap(), Sorter::new(&device).unwrap());
    let mut map: SlabMultiMap = SlabMultiMap::new(&device, options()).unwrap();
    let pairs: Vec<(u32, u32)> = (0..900).map(|i| (i * i % 61, i)).collect();
    for (key, value) in &pairs {
        if value % 30 == 0 {
            map.apply(&[SlabMultiRequest::Insert(*key, *value)]).unwrap();
        }
    }
    let model = |key: u32| -> Vec<u32> {
        pairs.iter().filter(|pair| pair.0 == key && pair.1 % 30 == 0).map(|pair| pair.1).collect()
    };
    let keys = device.upload(&(0..keys_each as u32).collect::<Vec<_>>()).unwrap();
    let (mut states, mut begins) = answers::<u32>(&device, keys_each);
    let kinds = SlabOpKinds::All(SlabOpKind::Count);
    let ops = DeviceSlabOps { kinds, keys: &keys, values: None, count: keys_each };
    let to = DeviceSlabAnswers { statuses: &mut states, values: Some(&mut begins) };
    map.apply_on(ops, to, &stream).unwrap();
    let counts = begins.to_vec::<u32>().unwrap();
    assert_eq!(counts, (0..keys_each as u32).map(|key| model(key).len() as u32).collect::<Vec<_>>());
    sorter.exclusive_scan(&mut begins, keys_each, &stream).unwrap();
    let total = counts.iter().sum::<u32>() as usize;
    let mut values = device.allocate(4 * total).unwrap();
    map.gather_on(&keys, &begins, keys_each, &mut values, &stream).unwrap();
    let expected: Vec<u32> = (0..keys_each as u32).flat_map(model).collect();
    assert_eq!(values.to_vec::<u32>().unwrap(), expected);
    // What does not fit is left out, and nothing is written behind the column.
    let mut short = device.allocate(4 * (total - 5)).unwrap();
    map.gather_on(&keys, &begins, keys_each, &mut short, &stream).unwrap();
    assert_eq!(short.to_vec::<u32>().unwrap(), expected[..total - 5]);
}

#[test]
fn values_behind_the_end_of_a_column_are_left_out_wherever_they_begin() {
    let device = device();
    let stream = device.stream().unwrap();
    let mut map = SlabMultiMap::<u64, u64>::new(&device, options()).unwrap();
    map.build(&[7; 40], &(100..140).collect::<Vec<_>>()).unwrap();
    let keys = device.upload(&[7_u64]).unwrap();
    // The last positions wrap around to the first ones of the column.
    for begin in [u64::MAX, u64::MAX - 20, 1 << 63, 1 << 61, 10] {
        let begins = device.upload(&[begin]).unwrap();
        let mut values = device.upload(&[1_u64; 10]).unwrap();
        map.gather_on(&keys, &begins, 1, &mut values, &stream).unwrap();
        assert_eq!(values.to_vec::<u64>().unwrap(), [1; 10], "from {begin} on");
    }
    let begins = device.upload(&[4_u64]).unwrap();
    let mut values = device.upload(&[1_u64; 6]).unwrap();
    map.gather_on(&keys, &begins, 1, &mut values, &stream).unwrap();
    assert_eq!(values.to_vec::<u64>().unwrap(), [1, 1, 1, 1, 100, 101]);
}

#[test]
fn buffers_that_are_too_short_are_refused_before_anything_is_changed() {
    let device = device();
    let stream = device.stream().unwrap();
    let mut map: SlabMap = SlabMap::new(&device, options()).unwrap();
    let (short, long) = (device.allocate(4 * 9).unwrap(), device.allocate(4 * 10).unwrap());
    let (mut few, mut many) = (device.allocate(9).unwrap(), device.allocate(10).unwrap());
    let mut values = device.allocate(4 * 9).unwrap();
    let codes = device.allocate(9).unwrap();
    let all = SlabOpKinds::All(SlabOpKind::Insert);
    let refused = |result: Result<(), ContainerError>| {
        let error = result.unwrap_err();
        assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    };
    let ops = DeviceSlabOps { kinds: all, keys: &short, values: None, count: 10 };
    refused(map.apply_on(ops, DeviceSlabAnswers { statuses: &mut many, values: None }, &stream));
    let ops = DeviceSlabOps { kinds: all, keys: &long, values: Some(&short), count: 10 };
    refused(map.apply_on(ops, DeviceSlabAnswers { statuses: &mut many, values: None }, &stream));
    let ops = DeviceSlabOps { kinds: all, keys: &long, values: None, count: 10 };
    refused(map.apply_on(ops, DeviceSlabAnswers { statuses: &mut few, values: None }, &stream));
    refused(map.apply_on(ops, DeviceSlabAnswers { statuses: &mut many, values: Some(&mut values) }, &stream));
    let ops = DeviceSlabOps { kinds: SlabOpKinds::Each(&codes), ..ops };
    refused(map.apply_on(ops, DeviceSlabAnswers { statuses: &mut many, values: None }, &stream));
    let to = DeviceSlabAnswers { statuses: &mut many, values: None };
    refused(map.build_on(&short, &long, 10, to, &stream));
    assert!(map.is_empty().unwrap());
    map.apply(&[SlabRequest::Insert(1, 1), SlabRequest::Insert(2, 2)]).unwrap();
    let (mut one, mut two) = (device.allocate(4).unwrap(), device.allocate(8).unwrap());
    refused(map.pairs_on(&mut one, &mut two, &stream).map(|_| ()));
    // A batch of nothing is no batch.
    let ops = DeviceSlabOps { count: 0, ..ops };
    map.apply_on(ops, DeviceSlabAnswers { statuses: &mut many, values: None }, &stream).unwrap();
    assert_eq!(map.len().unwrap(), 2);
}

#[test]
fn what_works_in_device_memory_is_refused_on_the_cpu() {
    let device = device();
    let stream = device.stream().unwrap();
    let mut map: SlabMap = SlabMap::on_cpu(options());
    let keys = device.upload(&[1_u32]).unwrap();
    let (mut states, mut values) = answers::<u32>(&device, 1);
    fn refused<T: Debug>(result: Result<T, ContainerError>, what: &str) {
        let error = result.unwrap_err();
        assert!(matches!(error, ContainerError::OnCpu { .. }), "{what}: {error}");
        assert!(error.to_string().contains("takes slices"), "{error}");
    }
    let kinds = SlabOpKinds::All(SlabOpKind::Insert);
    let ops = DeviceSlabOps { kinds, keys: &keys, values: None, count: 1 };
    refused(
        map.apply_on(ops, DeviceSlabAnswers { statuses: &mut states, values: None }, &stream),
        "apply_on",
    );
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    refused(map.build_on(&keys, &keys, 1, to, &stream), "build_on");
    refused(map.reference(), "reference");
    refused(map.pairs_on(&mut states, &mut values, &stream), "pairs_on");
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    // SAFETY: nothing is enqueued.
    refused(unsafe { map.enqueue_search(&keys, 1, to, &stream) }.map(|_| ()), "enqueue_search");
    let multi: SlabMultiMap = SlabMultiMap::on_cpu(options());
    refused(multi.gather_on(&keys, &keys, 1, &mut values, &stream), "gather_on");
}

#[test]
fn batches_need_no_memory_that_is_not_there_already() {
    let device = &device().with_budget(8 << 20);
    let (stream, count) = (device.stream().unwrap(), 3000);
    let mut map: SlabMap = SlabMap::new(device, SlabHashOptions { capacity: 9000, ..options() }).unwrap();
    let keys = device.upload(&(0..count as u32).collect::<Vec<_>>()).unwrap();
    let codes = device.upload(&[SlabOpKind::Replace as u8; 3000]).unwrap();
    let (mut states, _) = answers::<u32>(device, count);
    let mut replaced = |map: &mut SlabMap| {
        let ops = DeviceSlabOps { kinds: SlabOpKinds::Each(&codes), keys: &keys, values: None, count };
        map.apply_on(ops, DeviceSlabAnswers { statuses: &mut states, values: None }, &stream).unwrap();
        statuses(&states)
    };
    assert!(replaced(&mut map).iter().all(|is| *is == SlabStatus::Inserted));
    let ballast = |bytes| std::iter::from_fn(move || device.allocate(bytes).ok()).collect::<Vec<Buffer>>();
    let _all = (ballast(1 << 10), ballast(1));
    let before = device.allocated();
    for _ in 0..3 {
        assert!(replaced(&mut map).iter().all(|is| *is == SlabStatus::Updated));
    }
    assert_eq!((device.allocated(), map.len().unwrap()), (before, 3000));
}

#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Firsts {
    seen: SlabTableRef,
    words: DevicePtr,
    statuses: DevicePtr,
    count: u64,
}

warpkeep_device::kernel_set! {
    struct CallKernels in "slab_hash_calls.cu", prefix "slab_hash_calls_" {
        first: Firsts,
    }
}

#[test]
fn batches_count_what_kernels_of_the_caller_stored() {
    let device = device();
    let (kernels, stream) = (CallKernels::load(&device).unwrap(), device.stream().unwrap());
    let mut set = SlabSet::<u64>::new(&device, SlabHashOptions { most_buckets: 4, ..options() }).unwrap();
    // Room for 1024 slabs, of which the kernel takes nearly all.
    set.insert(&[1 << 40]).unwrap();
    let words: Vec<u64> = (0..7000).collect();
    let column = device.upload(&words).unwrap();
    let states = device.allocate(words.len()).unwrap();
    let params = Firsts {
        seen: set.reference().unwrap(),
        words: column.ptr(),
        statuses: states.ptr(),
        count: words.len() as u64,
    };
    // SAFETY: the columns have as many elements as that, and the set stays until the stream is synchronised.
    unsafe { kernels.first.launch(Grid::covering(params.count, 128), &params, &stream).unwrap() };
    stream.synchronize().unwrap();
    assert!(statuses(&states).iter().all(|is| *is == SlabStatus::Inserted));
    assert_eq!(set.len().unwrap(), 7001);
    // More slabs are needed than there are: that is known from the counters alone.
    let more: Vec<u64> = (10_000..10_700).collect();
    assert!(set.insert(&more).unwrap().iter().all(|answer| *answer == SlabAnswer::Inserted));
    set.verify().unwrap();
}

#[test]
fn columns_and_streams_of_another_device_are_refused_before_anything_is_changed() {
    let (device, other) = (device(), device());
    let (stream, theirs) = (device.stream().unwrap(), other.stream().unwrap());
    let mut map: SlabMultiMap = SlabMultiMap::new(&device, options()).unwrap();
    let (ours, foreign) = (device.allocate(40).unwrap(), other.allocate(40).unwrap());
    let (mut states, mut foreign_states) = (device.allocate(10).unwrap(), other.allocate(10).unwrap());
    let refused = |result: Result<(), ContainerError>, says: &str| {
        let error = result.unwrap_err();
        let is_typed = matches!(error.device(), Some(DeviceError::OtherDevice { .. }));
        assert!(is_typed && error.to_string().starts_with(says), "{error}");
    };
    let kinds = SlabOpKinds::All(SlabOpKind::Insert);
    let ops = |keys, values| DeviceSlabOps { kinds, keys, values, count: 10 };
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    refused(map.apply_on(ops(&foreign, None), to, &stream), "keys");
    let to = DeviceSlabAnswers { statuses: &mut states, values: None };
    refused(map.apply_on(ops(&ours, Some(&foreign)), to, &stream), "values");
    let to = DeviceSlabAnswers { statuses: &mut foreign_states, values: None };
    refused(map.apply_on(ops(&ours, None), to, &stream), "statuses");
    let to = DeviceSlabAnswers { statuses: &mut foreign_states, values: None };
    refused(map.apply_on(ops(&foreign, None), to, &theirs), "a slab hash");
    let to = DeviceSlabAnswers { statuses: &mut foreign_states, values: None };
    refused(map.build_on(&foreign, &foreign, 10, to, &theirs), "a slab hash");
    let mut values = other.allocate(40).unwrap();
    refused(map.gather_on(&ours, &ours, 10, &mut values, &stream), "values");
    assert!(map.is_empty().unwrap());
    map.verify().unwrap();
}
