//! Random batches against a plain map, with growth, and with the CPU taking turns.

use std::sync::atomic::{AtomicUsize, Ordering};

use warpkeep_core::Status;
use warpkeep_device::{Device, DevicePtr};
use warpkeep_gphash::gpu::GetRows;
use warpkeep_gphash::{Geometry, Progress};

use crate::bench::{Bench, Dice, Space};
use crate::rig::Kind;

/// What a run does: so many batches of so many operations on so many keys.
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
    let mut dice = Dice(seed);
    let mut bench = Bench::new(device, space, kind, geometry, capacity);
    for number in 0..batches {
        bench.batch(&mut dice, keys, count);
        // Growth goes on between batches, by the device or by the CPU.
        for _ in 0..dice.below(6) {
            let mut turn = bench.engine.turn();
            let progress = match dice.below(2) {
                0 => turn.maintain(&bench.table, 4).unwrap(),
                _ => {
                    let _moving = bench.engine.moving();
                    bench.table.maintain(4).unwrap()
                }
            };
            bench.table.heap().reclaim();
            if progress == Progress::Idle {
                break;
            }
        }
        if number % 4 == 0 {
            bench.check(keys);
        }
    }
    bench.check(keys);
    bench.inspect();
    let (items, cleared) = bench.engine.turn().scan_for_repair(&bench.table).unwrap();
    assert_eq!((items, cleared), (bench.model.len() as u64, 0));
    bench.reopened();
}

pub(crate) fn batches_do_what_a_map_does(device: &Device, space: Space) {
    let load = Load { seed: 1, keys: 400, capacity: 60, batches: 60, count: 64 };
    for kind in Kind::ALL {
        run(device, space, kind, Geometry::default(), load);
    }
}

pub(crate) fn every_geometry_does_what_a_map_does(device: &Device, space: Space) {
    let powers = [1_u8, 2, 4, 8, 16, 32];
    let pairs = powers.into_iter().flat_map(|levels| powers.map(|hashes| (levels, hashes)));
    let all = pairs.flat_map(|(levels, hashes)| powers.map(|slots| Geometry::new(levels, hashes, slots)));
    let all: Vec<Geometry> = all.filter_map(Result::ok).collect();
    // Each is a program of its own, and for a GPU takes seconds to compile: on all cores.
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

/// Keys and answers that never leave the device's memory.
pub(crate) fn rows_in_device_memory_are_answered_there(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 60);
        bench.run(&bench.puts(0..40, 3));
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
        for asked in [GetRows { versions: DevicePtr::NULL, values: DevicePtr::NULL, ..all }, all] {
            statuses.fill(0).unwrap();
            // SAFETY: the columns are as long as eighty rows take, and stay until the reading is finished.
            unsafe { bench.engine.get_rows(&bench.table, &asked, &stream) }.unwrap().finish().unwrap();
            let expected = (0..80).map(|index| if index < 40 { Status::Ok } else { Status::NotFound } as u8);
            assert_eq!(statuses.to_vec::<u8>().unwrap(), expected.collect::<Vec<_>>());
        }
        let (versions, values) = (versions.to_vec::<u64>().unwrap(), values.to_vec::<u8>().unwrap());
        for (&number, (version, value)) in &bench.model {
            let at = number as usize;
            assert_eq!((versions[at], &values[value_len * at..][..value_len]), (*version, value.as_slice()));
        }
    }
}

/// Keys that a batch has many times are looked up once for all of them, and each is answered.
pub(crate) fn equal_keys_are_answered_alike(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 60);
        bench.run(&bench.puts(0..40, 3));
        let mut dice = Dice(9);
        // One key alone; a few hot ones, of which some are not there; as many different ones as there are.
        for keys in [1, 7, 44] {
            let numbers: Vec<u64> = (0..700).map(|_| 43 - dice.below(keys)).collect();
            let rows: Vec<_> = numbers.iter().map(|&number| kind.key(number)).collect();
            let mut answered = 0;
            bench
                .engine
                .get_many(&bench.table, rows.iter().map(Vec::as_slice), |index, found| {
                    let found = found.map(|(version, value)| (version, value.to_vec()));
                    assert_eq!(found.as_ref(), bench.model.get(&numbers[index]), "{kind:?}, {keys} keys");
                    answered += 1;
                })
                .unwrap();
            assert_eq!(answered, 700);
        }
    }
}

/// Operations on keys that a batch has more than once are left to the CPU, all of them, and no others.
pub(crate) fn keys_that_come_twice_are_left(device: &Device, space: Space) {
    for kind in Kind::ALL {
        let mut bench = Bench::new(device, space, kind, Geometry::default(), 900);
        let mut dice = Dice(3);
        let numbers: Vec<u64> = (0..600).map(|_| dice.below(700)).collect();
        let mut rows = bench.puts(numbers.iter().copied(), 1);
        // Whatever they do.
        rows[5].op = warpkeep_core::Op::Get;
        let batch = crate::bench::batch_of(&rows);
        let mut turn = bench.engine.turn();
        let mut stage = turn.stage(&bench.table, &batch, 1).unwrap();
        for (index, number) in numbers.iter().enumerate() {
            let times = numbers.iter().filter(|other| *other == number).count();
            assert_eq!(stage.is_left(index), times > 1, "{kind:?}: {number} comes {times} times");
            assert_eq!(stage.change(index).is_some(), times == 1 && index != 5);
            if times == 1 && index != 5 {
                bench.model.insert(*number, (1 + index as u64, rows[index].value.clone()));
            }
        }
        stage.publish().unwrap();
        drop(stage);
        drop(turn);
        bench.check(700);
        bench.inspect();
        bench.reopened();
    }
}
