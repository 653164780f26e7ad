//! The cuckoo index beside a multimap of the standard library: properties, limits and bad arguments.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use warpkeep_containers::{
    ContainerError, CuckooIndex, CuckooIndexOptions, DeviceIndexAnswers, DeviceIndexOps, IndexOp,
    IndexOpKind, IndexOpKinds, IndexStatus, NO_LOCATION,
};
use warpkeep_device::{Buffer, Device, DeviceError, DevicePtr, Mode};
use warpkeep_suites::device::Dice;

use crate::model::{Model, Plain, check_answers, check_contents, columns, expected, plain, random_op};

fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(26), failure_persistence: None, ..Config::default() }
}

fn device() -> Device {
    Device::simulated(Mode::fast()).unwrap()
}

fn options(items: u64) -> CuckooIndexOptions {
    CuckooIndexOptions::default().items(items)
}

fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Operations on any hashes, and on few with few locations, so that operations of a batch meet in an entry.
fn operations(most: usize) -> impl Strategy<Value = Vec<IndexOp>> {
    let location = || prop_oneof![4 => 0..3_u32, 1 => any::<u32>()];
    let hash = prop_oneof![3 => (0..60_u64).prop_map(spread), 1 => any::<u64>()];
    let op = (0..5, hash, location(), location()).prop_map(|(kind, hash, location, old)| match kind {
        0 => IndexOp::insert(hash, location),
        1 => IndexOp::replace(hash, old, location),
        2 | 3 => IndexOp::delete(hash, location),
        _ => IndexOp::search(hash),
    });
    prop::collection::vec(op, 0..most)
}

/// Runs a batch through device memory, where the device plans it.
fn apply_on(device: &Device, index: &CuckooIndex, ops: &[IndexOp]) -> Vec<Plain> {
    let (stream, count) = (device.stream().unwrap(), ops.len());
    let hashes = device.upload(&ops.iter().map(|op| op.hash).collect::<Vec<u64>>()).unwrap();
    let codes = device.upload(&ops.iter().map(|op| op.kind as u8).collect::<Vec<u8>>()).unwrap();
    let locations = device.upload(&ops.iter().map(|op| op.location).collect::<Vec<u32>>()).unwrap();
    let olds = device.upload(&ops.iter().map(|op| op.old).collect::<Vec<u32>>()).unwrap();
    // Not zeroed: what is there before must not matter.
    let garbage = |bytes: usize| device.upload(&vec![0xA5_u8; bytes]).unwrap();
    let (mut statuses, mut matches, mut found) = (garbage(count), garbage(count), garbage(8 * count));
    let batch = DeviceIndexOps {
        kinds: IndexOpKinds::Each(&codes),
        hashes: &hashes,
        locations: Some(&locations),
        olds: Some(&olds),
        count,
    };
    let answers = DeviceIndexAnswers {
        statuses: &mut statuses,
        matches: Some(&mut matches),
        locations: Some(&mut found),
    };
    index.apply_on(batch, answers, &stream).unwrap();
    let statuses = statuses.to_vec::<u8>().unwrap();
    let statuses: &[IndexStatus] = bytemuck::checked::cast_slice(&statuses);
    let (matches, found) = (matches.to_vec::<u8>().unwrap(), found.to_vec::<[u32; 2]>().unwrap());
    let answer = |at: usize| {
        let status = if statuses[at].is_added() { IndexStatus::Inserted } else { statuses[at] };
        let locations = found[at].iter().copied().filter(|location| *location != NO_LOCATION);
        (status, matches[at], locations.collect())
    };
    (0..count).map(answer).collect()
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn batches_agree_with_a_multimap_of_the_standard_library(batches in prop::collection::vec(operations(300), 1..6)) {
        let device = device();
        let on_device = CuckooIndex::new(&device, &options(6000)).unwrap();
        let in_parts = CuckooIndex::new(&device, &options(6000).staged(37)).unwrap();
        let planned_there = CuckooIndex::new(&device, &options(6000)).unwrap();
        let on_cpu = CuckooIndex::on_cpu(&options(6000)).unwrap();
        let mut model = Model::new();
        for ops in &batches {
            let right: Vec<Plain> = ops.iter().map(|op| expected(&mut model, *op)).collect();
            // Sixteen entries of one hash, at most, have cells.
            prop_assume!(model.values().all(|locations| locations.len() <= 10));
            for index in [&on_device, &in_parts, &on_cpu] {
                let answers: Vec<Plain> = index.apply(ops).unwrap().iter().map(plain).collect();
                prop_assert_eq!(&answers, &right);
            }
            prop_assert_eq!(&apply_on(&device, &planned_there, ops), &right);
        }
        for index in [&on_device, &in_parts, &planned_there, &on_cpu] {
            check_contents(index, &model).unwrap();
        }
    }

    #[test]
    fn a_crowded_index_refuses_and_loses_nothing(batches in prop::collection::vec(operations(120), 1..6), items in 1..80_u64) {
        let device = device();
        for index in [CuckooIndex::new(&device, &options(items)).unwrap(), CuckooIndex::on_cpu(&options(items)).unwrap()] {
            let mut model = Model::new();
            for ops in &batches {
                // So few buckets that different hashes may not be told apart: these are the same signatures.
                let ops: Vec<IndexOp> = ops.iter().map(|op| IndexOp { hash: op.hash & !0xffff_ffff, ..*op }).collect();
                let answers = index.apply(&ops).unwrap();
                check_answers(&mut model, &ops, &answers).unwrap();
            }
            check_contents(&index, &model).unwrap();
        }
    }
}

#[test]
fn displacement_reaches_a_load_of_90_percent_and_more() {
    let device = device();
    for (seed, index) in [
        CuckooIndex::new(&device, &options(3600)).unwrap(),
        CuckooIndex::new(&device, &options(3600)).unwrap(),
        CuckooIndex::on_cpu(&options(3600)).unwrap(),
    ]
    .iter()
    .enumerate()
    {
        let (mut dice, mut model, mut displaced) = (Dice::new(seed as u64), Model::new(), 0);
        let cells = index.stats().unwrap().cells as usize;
        assert_eq!(cells, 4096);
        for _ in 0..50 {
            let ops: Vec<IndexOp> = (0..100)
                .map(|_| {
                    let hash = spread(dice.below(1 << 31)) ^ dice.below(1 << 31);
                    IndexOp::insert(hash, dice.below(1 << 31) as u32)
                })
                .collect();
            let stored = index.len().unwrap() as usize;
            let answers = index.apply(&ops).unwrap();
            let full = answers.iter().filter(|answer| answer.status == IndexStatus::Full).count();
            displaced += answers.iter().filter(|answer| answer.status == IndexStatus::Displaced).count();
            assert!(full == 0 || (stored + 100) * 100 >= cells * 97, "full at {stored} of {cells}");
            check_answers(&mut model, &ops, &answers).unwrap();
        }
        check_contents(index, &model).unwrap();
        let load = index.stats().unwrap().load;
        assert!(load > 0.97 && displaced > 50, "{load}, {displaced}");
    }
}

#[test]
fn a_large_batch_is_sorted_by_the_device() {
    let index = CuckooIndex::new(&device(), &options(100_000)).unwrap();
    let hashes: Vec<u64> = (0..100_000).map(|i| spread(i) ^ (spread(i) >> 29)).collect();
    let locations: Vec<u32> = (0..100_000).collect();
    let answers = index.insert(&hashes, &locations).unwrap();
    assert!(answers.iter().all(|answer| answer.status.is_added()));
    let stats = index.stats().unwrap();
    assert_eq!((stats.items, stats.buckets), (100_000, 16_384), "{stats:?}");
    index.verify_entries(&hashes, &locations).unwrap();
    assert!(index.search(&hashes).unwrap().iter().zip(&locations).all(|(a, at)| a.locations() == [*at]));
    let answers = index.delete(&hashes, &locations).unwrap();
    assert!(answers.iter().all(|answer| answer.status == IndexStatus::Deleted));
    assert!(index.is_empty().unwrap() && index.entries().unwrap().is_empty());
}

#[test]
fn inserting_and_deleting_for_many_rounds_leaves_no_trace() {
    let index = CuckooIndex::new(&device(), &options(900)).unwrap();
    let mut model = Model::new();
    let hashes: Vec<u64> = (0..900).map(spread).collect();
    for round in 0..60 {
        let mut ops: Vec<IndexOp> = Vec::new();
        for i in 0..300 {
            let hash = hashes[(round * 300 + i) % 900];
            ops.extend(model.get(&hash).map(|locations| IndexOp::delete(hash, locations[0])));
            ops.push(IndexOp::insert(hash, round as u32));
        }
        let answers = index.apply(&ops).unwrap();
        assert!(answers.iter().all(|answer| answer.status != IndexStatus::Full));
        check_answers(&mut model, &ops, &answers).unwrap();
    }
    check_contents(&index, &model).unwrap();
    assert_eq!(index.len().unwrap(), 900);
}

#[test]
fn memory_that_is_short_at_any_allocation_loses_nothing() {
    let device = device();
    let mut dice = Dice::new(4);
    let ops: Vec<IndexOp> = (0..15_000)
        .map(|_| {
            let hash = spread(dice.below(9000));
            random_op(&mut dice, hash)
        })
        .collect();
    let (mut refused, mut done) = (0, 0);
    for step in 0..70_u64 {
        let small = device.with_budget(step * step * 150);
        let index = match CuckooIndex::new(&small, &options(9000)) {
            Ok(index) => index,
            Err(error) => {
                assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                refused += 1;
                continue;
            }
        };
        let mut model = Model::new();
        // The first parts are planned by the host, the last by the device.
        for ops in [&ops[..3000], &ops[3000..6000], &ops[6000..]] {
            match index.apply(ops) {
                Err(error) => {
                    assert!(error.device().is_some_and(DeviceError::is_out_of_memory), "{error}");
                    refused += 1;
                }
                Ok(answers) => {
                    check_answers(&mut model, ops, &answers).unwrap();
                    done += 1;
                }
            }
            let (hashes, locations) = columns(&model);
            match index.verify_entries(&hashes, &locations) {
                Err(ContainerError::Device(error)) => assert!(error.is_out_of_memory(), "{error}"),
                other => other.unwrap(),
            }
        }
    }
    assert!(refused > 10 && done > 20, "{refused} refused, {done} done");
    assert_eq!(device.allocated(), 0);
}

#[test]
fn bad_arguments_are_refused_before_anything_changes() {
    let device = device();
    let (index, stream) = (CuckooIndex::new(&device, &options(10)).unwrap(), device.stream().unwrap());
    let error = index.insert(&[1, 2], &[1]).unwrap_err();
    assert!(matches!(error, ContainerError::WrongLength { given: 1, expected: 2, .. }), "{error}");
    assert!(index.replace(&[1], &[], &[1]).is_err() && index.delete(&[1], &[1, 2]).is_err());
    assert!(index.verify_entries(&[1], &[]).is_err());
    let hashes = device.upload(&[1_u64 << 32, 2 << 32]).unwrap();
    let mut statuses = device.allocate(3).unwrap();
    let mut run = |index: &CuckooIndex, count| {
        let kinds = IndexOpKinds::All(IndexOpKind::Insert);
        let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: None, olds: None, count };
        let answers = DeviceIndexAnswers { statuses: &mut statuses, matches: None, locations: None };
        index.apply_on(ops, answers, &stream)
    };
    let error = run(&index, 3).unwrap_err();
    assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { len: 24, size: 16, .. })), "{error}");
    assert!(run(&index, usize::MAX).is_err() && index.is_empty().unwrap());
    run(&index, 0).unwrap();
    run(&index, 2).unwrap();
    assert_eq!(index.search(&[1 << 32]).unwrap()[0].locations(), [0]);
    let on_cpu = CuckooIndex::on_cpu(&options(10)).unwrap();
    assert!(matches!(run(&on_cpu, 2), Err(ContainerError::OnCpu { what: "apply_on" })));
    assert!(on_cpu.reference().is_err());
    let error = CuckooIndex::new(&device, &options(1 << 40)).unwrap_err();
    assert!(matches!(error, ContainerError::TooLarge { .. }), "{error}");
    assert!(CuckooIndex::on_cpu(&options(u64::MAX)).is_err());
}

#[test]
fn a_batch_that_changes_an_index_has_fewer_than_2_to_the_32_operations() {
    // Kernels number them with 32 bits: with more, two would have one number.
    let device = device();
    let (index, stream) = (CuckooIndex::new(&device, &options(10)).unwrap(), device.stream().unwrap());
    let hashes = device.upload(&[1_u64]).unwrap();
    let mut statuses = device.allocate(1).unwrap();
    let mut run = |kind, count| {
        let kinds = IndexOpKinds::All(kind);
        let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: None, olds: None, count };
        let answers = DeviceIndexAnswers { statuses: &mut statuses, matches: None, locations: None };
        index.apply_on(ops, answers, &stream).unwrap_err()
    };
    let error = run(IndexOpKind::Insert, 1 << 32);
    assert!(matches!(error, ContainerError::TooLarge { given: 0x1_0000_0000, .. }), "{error}");
    for (kind, count) in [(IndexOpKind::Search, 1 << 32), (IndexOpKind::Delete, u32::MAX as usize)] {
        let error = run(kind, count);
        assert!(matches!(error.device(), Some(DeviceError::OutOfBounds { .. })), "{error}");
    }
}

#[test]
fn without_a_column_all_locations_are_0() {
    let device = device();
    let (index, stream) = (CuckooIndex::new(&device, &options(100)).unwrap(), device.stream().unwrap());
    let hashes = device.upload(&[1_u64 << 32, 2 << 32, 3 << 32]).unwrap();
    let mut statuses = device.allocate_zeroed(3).unwrap();
    let mut run = |kind, count| {
        let kinds = IndexOpKinds::All(kind);
        let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: None, olds: None, count };
        let answers = DeviceIndexAnswers { statuses: &mut statuses, matches: None, locations: None };
        index.apply_on(ops, answers, &stream).unwrap();
        statuses.to_vec::<u8>().unwrap()
    };
    assert_eq!(run(IndexOpKind::Insert, 2)[..2], [IndexStatus::Inserted as u8; 2]);
    let right = [IndexStatus::Deleted, IndexStatus::Deleted, IndexStatus::Absent].map(|status| status as u8);
    assert_eq!(run(IndexOpKind::Delete, 3), right);
    assert!(index.is_empty().unwrap());
}

#[test]
fn memory_of_another_device_is_refused() {
    let [device, other] = [device(), device()];
    let (index, stream) = (CuckooIndex::new(&device, &options(10)).unwrap(), device.stream().unwrap());
    for wrong in 0..7 {
        let of = |column| device_column(if column == wrong { &other } else { &device });
        let [hashes, codes, locations, olds] = [of(0), of(1), of(2), of(3)];
        let [mut statuses, mut matches, mut found] = [of(4), of(5), of(6)];
        let kinds = IndexOpKinds::Each(&codes);
        let (locations, olds) = (Some(&locations), Some(&olds));
        let ops = DeviceIndexOps { kinds, hashes: &hashes, locations, olds, count: 2 };
        let (matches, locations) = (Some(&mut matches), Some(&mut found));
        let answers = DeviceIndexAnswers { statuses: &mut statuses, matches, locations };
        let error = index.apply_on(ops, answers, &stream).unwrap_err();
        assert!(matches!(error.device(), Some(DeviceError::OtherDevice { .. })), "column {wrong}: {error}");
    }
    assert!(index.is_empty().unwrap());
}

/// Room for two of anything.
fn device_column(device: &Device) -> Buffer {
    device.allocate_zeroed(16).unwrap()
}

#[test]
fn a_search_writes_every_answer_to_buffers_that_are_not_zeroed() {
    let device = device();
    let (index, stream) = (CuckooIndex::new(&device, &options(100)).unwrap(), device.stream().unwrap());
    index.insert(&[1 << 32, 1 << 32, 2 << 32, 3 << 32, 3 << 32, 3 << 32], &[9, 8, 7, 6, 5, 4]).unwrap();
    let hashes = device.upload(&[1_u64 << 32, 2 << 32, 3 << 32, 4 << 32]).unwrap();
    let [mut statuses, mut matches, mut found] =
        [4, 4, 32].map(|bytes: usize| device.upload(&vec![0xEE_u8; bytes]).unwrap());
    let kinds = IndexOpKinds::All(IndexOpKind::Search);
    let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: None, olds: None, count: 4 };
    let answers = DeviceIndexAnswers {
        statuses: &mut statuses,
        matches: Some(&mut matches),
        locations: Some(&mut found),
    };
    index.apply_on(ops, answers, &stream).unwrap();
    use IndexStatus::{Absent, Found, Truncated};
    assert_eq!(
        statuses.to_vec::<u8>().unwrap(),
        [Found, Found, Truncated, Absent].map(|status| status as u8)
    );
    assert_eq!(matches.to_vec::<u8>().unwrap(), [2, 1, 3, 0]);
    let none = NO_LOCATION;
    assert_eq!(found.to_vec::<[u32; 2]>().unwrap(), [[8, 9], [7, none], [4, 5], [none, none]]);
}

#[test]
fn an_entry_lies_in_its_preferred_cell_or_the_nearest_to_the_left() {
    let device = device();
    let index = CuckooIndex::new(&device, &options(14)).unwrap();
    let on_cpu = CuckooIndex::on_cpu(&options(14)).unwrap();
    // The upper three bits of a signature number the cell. Both buckets have one each in turn.
    let hash = 5_u64 << 61;
    let locations: Vec<u32> = (0..16).collect();
    for location in &locations {
        index.insert(&[hash], &[*location]).unwrap();
        on_cpu.insert(&[hash], &[*location]).unwrap();
    }
    let reference = index.reference().unwrap();
    let cells = u64::from_le_bytes(bytemuck::bytes_of(&reference)[..8].try_into().unwrap());
    let (copy, stream) = (device.allocate(128).unwrap(), device.stream().unwrap());
    // SAFETY: the index has two buckets of 64 bytes there, and no call of it runs.
    unsafe { device.copy_raw(copy.ptr(), DevicePtr::new(cells), 128, &stream).unwrap() };
    stream.synchronize().unwrap();
    let cells: Vec<u32> = copy.to_vec::<u64>().unwrap().iter().map(|cell| (cell >> 32) as u32 - 1).collect();
    let right = [10, 8, 6, 4, 2, 0, 14, 12];
    assert_eq!(cells[..8], right);
    assert_eq!(cells[8..], right.map(|location| location + 1));
    let on_host: Vec<u32> = on_cpu.entries().unwrap().iter().map(|entry| entry.location).collect();
    assert_eq!(on_host, cells);
}

#[test]
fn codes_that_mean_nothing_only_ask() {
    let device = device();
    let (index, stream) = (CuckooIndex::new(&device, &options(10)).unwrap(), device.stream().unwrap());
    index.insert(&[1 << 32], &[10]).unwrap();
    let hashes = device.upload(&[1_u64 << 32, 2 << 32]).unwrap();
    let codes = device.upload(&[200_u8, 4]).unwrap();
    let mut statuses = device.allocate(2).unwrap();
    let kinds = IndexOpKinds::Each(&codes);
    let ops = DeviceIndexOps { kinds, hashes: &hashes, locations: None, olds: None, count: 2 };
    let answers = DeviceIndexAnswers { statuses: &mut statuses, matches: None, locations: None };
    index.apply_on(ops, answers, &stream).unwrap();
    assert_eq!(statuses.to_vec::<u8>().unwrap(), [IndexStatus::Found as u8, IndexStatus::Absent as u8]);
    assert_eq!(index.len().unwrap(), 1);
}

#[test]
fn threads_see_whole_batches() {
    let index = CuckooIndex::new(&device(), &options(2000)).unwrap();
    let hashes: Vec<u64> = (0..200).map(spread).collect();
    index.insert(&hashes, &[0; 200]).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for round in 0..40 {
                index.replace(&hashes, &[round; 200], &[round + 1; 200]).unwrap();
            }
        });
        threads.spawn(|| {
            for round in 10..20 {
                let others: Vec<u64> = (0..100).map(|i| spread(100 * round + i)).collect();
                index.insert(&others, &[1; 100]).unwrap();
            }
        });
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..40 {
                    let found = index.search(&hashes).unwrap();
                    assert!(found.iter().all(|answer| answer == &found[0]), "{found:?}");
                }
            });
        }
    });
    assert!(index.search(&hashes).unwrap().iter().all(|answer| answer.locations() == [40]));
    assert_eq!(index.len().unwrap(), 1200);
    index.verify().unwrap();
}

#[test]
fn empty_batches_do_nothing() {
    for index in
        [CuckooIndex::new(&device(), &options(0)).unwrap(), CuckooIndex::on_cpu(&options(0)).unwrap()]
    {
        assert!(index.apply(&[]).unwrap().is_empty() && index.search(&[]).unwrap().is_empty());
        assert!(index.insert(&[], &[]).unwrap().is_empty() && index.search_all(&[]).unwrap().is_empty());
        index.verify_entries(&[], &[]).unwrap();
        assert_eq!(index.stats().unwrap().buckets, 2);
    }
}

#[test]
fn a_cell_that_is_overwritten_is_noticed() {
    // A kernel that is not ours may write anywhere; verify reports it.
    let device = device();
    let index = CuckooIndex::new(&device, &options(100)).unwrap();
    let hashes: Vec<u64> = (0..100).map(spread).collect();
    let locations: Vec<u32> = (0..100).collect();
    index.insert(&hashes, &locations).unwrap();
    index.verify_entries(&hashes, &locations).unwrap();
    let error = index.verify_entries(&hashes[1..], &locations[1..]).unwrap_err();
    assert!(matches!(error, ContainerError::Inconsistent { .. }), "{error}");
    // The index's memory begins where its reference says: eight bytes of the address.
    let reference = index.reference().unwrap();
    let cells = u64::from_le_bytes(bytemuck::bytes_of(&reference)[..8].try_into().unwrap());
    let stream = device.stream().unwrap();
    for word in [1_u64, 5 << 32 | 7] {
        let other = device.upload(&[word, word]).unwrap();
        // SAFETY: the index has 16 buckets there, and no call of it runs.
        unsafe { device.copy_raw(DevicePtr::new(cells), other.ptr(), 16, &stream).unwrap() };
        stream.synchronize().unwrap();
        let error = index.verify_entries(&hashes, &locations).unwrap_err();
        assert!(matches!(error, ContainerError::Inconsistent { .. }), "{error}");
    }
}
