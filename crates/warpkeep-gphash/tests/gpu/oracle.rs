//! Random batches against a map, with growth by the device and by the CPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use warpkeep_core::Status;
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::GetRows;
use warpkeep_gphash::{Geometry, Progress};

use crate::harness::{Dice, Harness, Space};
use crate::rig::Kind;

/// The work of a run: `batches` batches of `count` operations each, on `keys` keys.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    pub(crate) capacity: u64,
    pub(crate) batches: usize,
    pub(crate) count: usize,
}

pub(crate) fn run(device: &Device, space: Space, kind: Kind, geometry: Geometry, load: Load) {
    let Load { seed, keys, capacity, batches, count } = load;
    let mut dice = Dice::new(seed);
    let mut harness = Harness::new(device, space, kind, geometry, capacity);
    for number in 0..batches {
        harness.batch(&mut dice, keys, count);
        // The device or the CPU continues a growth between batches.
        for _ in 0..dice.below(6) {
            let mut lock = harness.engine.write_lock();
            let progress = match dice.below(2) {
                0 => lock.maintain(&harness.table, 4).unwrap(),
                _ => {
                    let _relocation = harness.engine.relocation_write();
                    harness.table.maintain(4).unwrap()
                }
            };
            harness.table.heap().reclaim();
            if progress == Progress::Idle {
                break;
            }
        }
        if number % 4 == 0 {
            harness.check(keys);
        }
    }
    harness.check(keys);
    harness.inspect();
    let (items, cleared) = harness.engine.write_lock().scan_for_repair(&harness.table).unwrap();
    assert_eq!((items, cleared), (harness.model.len() as u64, 0));
    harness.reopened();
}

pub(crate) fn batches_agree_with_a_map(device: &Device, space: Space) {
    let load = Load { seed: 1, keys: 400, capacity: 60, batches: 60, count: 64 };
    for kind in Kind::ALL {
        run(device, space, kind, Geometry::default(), load);
    }
}

pub(crate) fn every_geometry_agrees_with_a_map(device: &Device, space: Space) {
    let powers = [1_u8, 2, 4, 8, 16, 32];
    let pairs = powers.into_iter().flat_map(|levels| powers.map(|hashes| (levels, hashes)));
    let all = pairs.flat_map(|(levels, hashes)| powers.map(|slots| Geometry::new(levels, hashes, slots)));
    let all: Vec<Geometry> = all.filter_map(Result::ok).collect();
    // Each geometry is a program of its own, which takes seconds to compile for a GPU, so all cores compile.
    let (next, cores) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, usize::from));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&geometry) = all.get(number / 2) else { return };
                    let kind = [Kind::Packed, Kind::KeyedInline][number % 2];
                    let seed = 2 + number as u64 / 2;
                    run(
                        device,
                        space,
                        kind,
                        geometry,
                        Load { seed, keys: 400, capacity: 60, batches: 12, count: 50 },
                    );
                }
            });
        }
    });
}

pub(crate) fn gets_in_device_memory_are_answered_in_device_memory(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 60);
        harness.run(&harness.puts(0..40, 3));
        let rows: Vec<u8> = (0..80).flat_map(|number| kind.key_row(number)).collect();
        let value_len = kind.value(0, 0).len();
        let keys = device.upload(&rows).unwrap();
        let columns = [80, 8 * 80, value_len * 80].map(|bytes| device.allocate_zeroed(bytes).unwrap());
        let stream = device.stream().unwrap();
        let [statuses, versions, values] = &columns;
        let all = GetRows {
            count: 80,
            keys: keys.ptr(),
            statuses: statuses.ptr(),
            versions: versions.ptr(),
            values: values.ptr(),
        };
        for rows in [GetRows { versions: DevicePtr::NULL, values: DevicePtr::NULL, ..all }, all] {
            statuses.fill(0).unwrap();
            // SAFETY: the columns have eighty rows, and live until the reading has finished.
            unsafe { harness.engine.get_rows(&harness.table, &rows, &stream) }.unwrap().finish().unwrap();
            let expected = (0..80).map(|index| if index < 40 { Status::Ok } else { Status::NotFound } as u8);
            assert_eq!(statuses.to_vec::<u8>().unwrap(), expected.collect::<Vec<_>>());
        }
        let (versions, values) = (versions.to_vec::<u64>().unwrap(), values.to_vec::<u8>().unwrap());
        for (&number, (version, value)) in &harness.model {
            let at = number as usize;
            assert_eq!((versions[at], &values[value_len * at..][..value_len]), (*version, value.as_slice()));
        }
    }
}

/// A key that occurs several times is looked up once, and every occurrence is answered.
pub(crate) fn duplicate_keys_get_equal_answers(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 60);
        harness.run(&harness.puts(0..40, 3));
        let mut dice = Dice::new(9);
        // One key; a few hot keys, some of them absent; all keys.
        for keys in [1, 7, 44] {
            let numbers: Vec<u64> = (0..700).map(|_| 43 - dice.below(keys)).collect();
            let rows: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
            let mut answers = 0;
            harness
                .engine
                .get_many(&harness.table, rows.iter().map(Vec::as_slice), |index, found| {
                    let found = found.map(|(version, value)| (version, value.to_vec()));
                    assert_eq!(found.as_ref(), harness.model.get(&numbers[index]), "{kind:?}, {keys} keys");
                    answers += 1;
                })
                .unwrap();
            assert_eq!(answers, 700);
        }
    }
}

/// All operations on duplicate keys fall back to the CPU, and no others.
pub(crate) fn duplicate_keys_fall_back_to_the_cpu(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut harness = Harness::new(device, space, kind, Geometry::default(), 900);
        let mut dice = Dice::new(3);
        let numbers: Vec<u64> = (0..600).map(|_| dice.below(700)).collect();
        let mut rows = harness.puts(numbers.iter().copied(), 1);
        // A get, too.
        rows[5].op = warpkeep_core::Op::Get;
        let batch = crate::harness::batch_of(&rows);
        let mut lock = harness.engine.write_lock();
        let mut stage = lock.stage(&harness.table, &batch, 1).unwrap();
        for (index, number) in numbers.iter().enumerate() {
            let times = numbers.iter().filter(|other| *other == number).count();
            assert_eq!(stage.is_fallback(index), times > 1, "{kind:?}: {number} occurs {times} times");
            assert_eq!(stage.change(index).is_some(), times == 1 && index != 5);
            if times == 1 && index != 5 {
                harness.model.insert(*number, (1 + index as u64, rows[index].value.clone()));
            }
        }
        stage.publish().unwrap();
        drop(stage);
        drop(lock);
        harness.check(700);
        harness.inspect();
        harness.reopened();
    }
}
