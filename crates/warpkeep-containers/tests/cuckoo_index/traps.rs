//! What went wrong in other cuckoo indexes, Mega-KV's above all. Each is a test.

use warpkeep_containers::{CuckooIndex, CuckooIndexOptions, IndexAnswer, IndexOp, IndexStatus};
use warpkeep_device::sim::Seeded;
use warpkeep_device::{Device, Mode};
use warpkeep_suites::device::{Container as _, Dice};

use crate::calls::Calls;
use crate::model::{Model, check_answers, check_contents};

fn options(items: u64) -> CuckooIndexOptions {
    CuckooIndexOptions::default().items(items)
}

/// The same index on the simulator and on the CPU.
fn both(items: u64) -> [CuckooIndex; 2] {
    let device = Device::simulated(Mode::fast()).unwrap();
    [CuckooIndex::new(&device, &options(items)).unwrap(), CuckooIndex::on_cpu(&options(items)).unwrap()]
}

fn seeded(seed: u64) -> Device {
    Device::simulated(Mode::Seeded(Seeded { switch_chance: 500, ..Seeded::new(seed) })).unwrap()
}

fn count(answers: &[IndexAnswer], status: IndexStatus) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

#[test]
fn a_displaced_entry_goes_to_its_own_other_bucket_and_is_found() {
    // Six entries of the buckets 0 and 3, then sixteen of 2 and 3: the last have room only if all of the first go to 0.
    for index in both(28) {
        let of = |pair: [u64; 2], count: usize| -> Vec<u64> {
            let hashes = (0..).map(|i: u64| (i.wrapping_mul(0x0765_4321) << 32) | 3);
            hashes.filter(|hash| index.buckets_of(*hash) == pair).take(count).collect()
        };
        let (first, others) = (of([3, 0], 6), of([3, 2], 16));
        assert_eq!(count(&index.insert(&first, &[0, 1, 2, 3, 4, 5]).unwrap(), IndexStatus::Inserted), 6);
        let locations: Vec<u32> = (10..26).collect();
        let answers = index.insert(&others, &locations).unwrap();
        assert_eq!(
            (count(&answers, IndexStatus::Displaced), count(&answers, IndexStatus::Inserted)),
            (3, 13)
        );
        let entries = first.into_iter().zip(0..).chain(others.into_iter().zip(10..));
        check_contents(&index, &entries.map(|(hash, at)| (hash, vec![at])).collect()).unwrap();
        let in_first = index.entries().unwrap().iter().filter(|entry| entry.bucket == 0).count();
        assert_eq!(in_first, 6);
    }
}

#[test]
fn nothing_is_dropped_when_displacement_gives_up() {
    // The seventeenth entry of one hash has nowhere to go, and says so. The sixteen are there.
    for index in both(14) {
        let hash = 0x1234_5678_0000_0001;
        let answers = index.insert(&[hash; 20], &std::array::from_fn::<u32, 20, _>(|i| i as u32)).unwrap();
        assert_eq!(count(&answers, IndexStatus::Full), 4, "{answers:?}");
        let there: Vec<u32> =
            (0..20).filter(|at| answers[*at as usize].status != IndexStatus::Full).collect();
        assert_eq!(index.search_all(&[hash]).unwrap(), std::slice::from_ref(&there));
        check_contents(&index, &Model::from([(hash, there.clone())])).unwrap();
        // One goes, and another has its place.
        index.delete(&[hash], &there[..1]).unwrap();
        assert!(index.insert(&[hash], &[77]).unwrap()[0].status.is_added());
        index.verify().unwrap();
    }
}

#[test]
fn a_refused_batch_leaves_everything_that_was_there() {
    let [index, _] = both(28);
    let mut dice = Dice::new(1);
    let (mut model, mut refused) = (Model::new(), 0);
    for _ in 0..20 {
        let ops: Vec<IndexOp> = (0..30)
            .map(|_| {
                let hash = dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                IndexOp::insert(hash, dice.below(1 << 30) as u32)
            })
            .collect();
        let answers = index.apply(&ops).unwrap();
        refused += count(&answers, IndexStatus::Full);
        check_answers(&mut model, &ops, &answers).unwrap();
        check_contents(&index, &model).unwrap();
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn every_signature_and_every_location_but_one_can_be_stored() {
    for index in both(1000) {
        let mut model = Model::new();
        for signature in [0, 1, 2, u64::from(u32::MAX)] {
            // Even ones, whose others are odd.
            for bucket in [0, 2, 4, u64::from(u32::MAX) - 1] {
                let ops = [0, 1, u32::MAX - 1, u32::MAX]
                    .map(|location| IndexOp::insert((signature << 32) | bucket, location));
                let answers = index.apply(&ops).unwrap();
                assert_eq!(answers[3].status, IndexStatus::BadLocation);
                check_answers(&mut model, &ops, &answers).unwrap();
            }
        }
        check_contents(&index, &model).unwrap();
        // The number that is no location matches nothing, neither an empty cell nor another.
        let hashes = [0, 1 << 32, 9 << 32];
        assert_eq!(count(&index.delete(&hashes, &[u32::MAX; 3]).unwrap(), IndexStatus::Absent), 3);
        let answers = index.replace(&[9 << 32, 0], &[u32::MAX; 2], &[4, u32::MAX]).unwrap();
        assert_eq!(answers[0].status, IndexStatus::Inserted);
        assert_eq!(answers[1].status, IndexStatus::BadLocation);
        model.insert(9 << 32, vec![4]);
        check_contents(&index, &model).unwrap();
        // Emptied, there is nothing that matches the signature 0.
        index.clear().unwrap();
        assert_eq!(count(&index.search(&[0, 1 << 32]).unwrap(), IndexStatus::Absent), 2);
    }
}

#[test]
fn a_signature_is_never_paired_with_another_location() {
    // Locations follow from their hashes, which an entry with halves of two would break.
    for seed in 0..10 {
        let index = CuckooIndex::new(&seeded(seed), &options(120)).unwrap();
        let hashes: Vec<u64> = (0..100).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let location = |hash: u64, round: u32| (hash >> 40) as u32 * 4 + round;
        let mut olds: Vec<u32> = hashes.iter().map(|hash| location(*hash, 0)).collect();
        assert_eq!(count(&index.insert(&hashes, &olds).unwrap(), IndexStatus::Full), 0);
        for round in 1..4 {
            let news: Vec<u32> = hashes.iter().map(|hash| location(*hash, round)).collect();
            let answers = index.replace(&hashes, &olds, &news).unwrap();
            assert_eq!(count(&answers, IndexStatus::Replaced), 100, "seed {seed}");
            index.verify_entries(&hashes, &news).unwrap();
            olds = news;
        }
    }
}

#[test]
fn a_search_beside_a_replacement_finds_the_old_location_or_the_new_one() {
    let mut found = [0; 2];
    for seed in 0..60 {
        let calls = Calls::create(&seeded(seed), 60).unwrap();
        let [olds, news] = calls.replace_and_search().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        found = [found[0] + olds, found[1] + news];
    }
    assert!(found.iter().all(|times| *times > 100), "searches came before and after: {found:?}");
}

#[test]
fn an_entry_is_found_while_others_are_displaced() {
    // Four buckets that are nearly full: most batches move entries.
    let device = Device::simulated(Mode::fast()).unwrap();
    let index = CuckooIndex::new(&device, &options(28)).unwrap();
    let hashes: Vec<u64> = (1..=200).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let (stay, come) = hashes.split_at(20);
    assert_eq!(count(&index.insert(stay, &[7; 20]).unwrap(), IndexStatus::Full), 0);
    let displaced = std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            let mut displaced = 0;
            for some in come.chunks(12).cycle().take(90) {
                let answers = index.insert(some, &vec![9; some.len()]).unwrap();
                displaced += count(&answers, IndexStatus::Displaced);
                index.delete(some, &vec![9; some.len()]).unwrap();
            }
            displaced
        });
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..200 {
                    let answers = index.search(stay).unwrap();
                    assert!(answers.iter().all(|answer| answer.locations() == [7]), "{answers:?}");
                }
            });
        }
        writer.join().unwrap()
    });
    assert!(displaced > 20, "{displaced}");
    index.verify_entries(stay, &[7; 20]).unwrap();
}

#[test]
fn batches_of_any_length_leave_no_lane_behind() {
    // Lanes without an operation take part in what their warp does together. The simulator notices if they do not.
    for (seed, length) in [1, 2, 31, 32, 33, 63, 65, 127, 128, 129, 161].into_iter().enumerate() {
        let index = CuckooIndex::new(&seeded(seed as u64), &options(400)).unwrap();
        let hashes: Vec<u64> = (1..=length).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let locations: Vec<u32> = (0..length as u32).collect();
        let length = length as usize;
        assert_eq!(count(&index.insert(&hashes, &locations).unwrap(), IndexStatus::Inserted), length);
        assert_eq!(count(&index.search(&hashes).unwrap(), IndexStatus::Found), length);
        let ops: Vec<IndexOp> = hashes.iter().map(|hash| IndexOp::insert(*hash, 1000)).collect();
        assert_eq!(count(&index.apply(&ops).unwrap(), IndexStatus::Inserted), length);
        assert!(index.search_all(&hashes).unwrap().iter().all(|found| found.len() == 2));
        assert_eq!(count(&index.delete(&hashes, &vec![1000; length]).unwrap(), IndexStatus::Deleted), length);
        index.verify_entries(&hashes, &locations).unwrap();
    }
}

#[test]
fn an_entry_in_both_buckets_is_found_and_deleted_as_often_as_it_was_inserted() {
    // Nine of one hash are in both buckets for sure.
    for index in both(14) {
        let (hash, location) = (0xABCD_0000_0000_0001, 7);
        let ops = [IndexOp::insert(hash, location); 9];
        assert!(index.apply(&ops).unwrap().iter().all(|answer| answer.status.is_added()));
        let buckets: Vec<u64> = index.entries().unwrap().iter().map(|entry| entry.bucket).collect();
        assert!(buckets.contains(&0) && buckets.contains(&1), "{buckets:?}");
        for left in (0..9).rev() {
            let answers = index.apply(&[IndexOp::delete(hash, location), IndexOp::search(hash)]).unwrap();
            assert_eq!(answers[0].status, IndexStatus::Deleted);
            assert_eq!(usize::from(answers[1].matches), left);
        }
        assert_eq!(index.delete(&[hash], &[location]).unwrap()[0].status, IndexStatus::Absent);
        assert!(index.is_empty().unwrap());
    }
}

#[test]
fn a_replacement_looks_in_both_buckets_before_it_adds() {
    for index in both(14) {
        let hash = 0x5555_0000_0000_0000;
        let locations: Vec<u32> = (0..16).collect();
        index.insert(&[hash; 16], &locations).unwrap();
        // No cell is free, and none is needed: whichever bucket the old one is in.
        let news: Vec<u32> = (100..116).collect();
        let answers = index.replace(&[hash; 16], &locations, &news).unwrap();
        assert_eq!(count(&answers, IndexStatus::Replaced), 16);
        assert_eq!((answers[3].locations(), answers[3].matches), (&[3][..], 1));
        assert_eq!(index.search_all(&[hash]).unwrap(), [news]);
        assert_eq!(index.replace(&[hash], &[5], &[6]).unwrap()[0].status, IndexStatus::Full);
    }
}

#[test]
fn answers_do_not_depend_on_what_their_memory_had() {
    for index in both(100) {
        let hashes = [10 << 32, 20 << 32, 30 << 32];
        index.insert(&hashes, &[1, 2, 3]).unwrap();
        index.insert(&hashes[..1], &[4]).unwrap();
        assert_eq!(index.search(&hashes).unwrap()[0].locations(), [1, 4]);
        // The same memory, and nothing is there.
        for answer in index.search(&[40 << 32, 50 << 32, 60 << 32]).unwrap() {
            assert_eq!((answer.status, answer.matches), (IndexStatus::Absent, 0));
            assert!(answer.locations().is_empty());
        }
    }
}

#[test]
fn more_than_two_matches_are_counted() {
    for index in both(100) {
        let hash = 77 << 32;
        for (number, location) in [50, 20, 90, 10, 20].into_iter().enumerate() {
            index.insert(&[hash], &[location]).unwrap();
            let answer = index.search(&[hash]).unwrap()[0];
            assert_eq!(usize::from(answer.matches), number + 1);
            assert_eq!(answer.status == IndexStatus::Truncated, number >= 2);
        }
        assert_eq!(index.search(&[hash]).unwrap()[0].locations(), [10, 20]);
        assert_eq!(index.search_all(&[hash, 1]).unwrap(), [vec![10, 20, 20, 50, 90], vec![]]);
    }
}

#[test]
fn hashes_that_cannot_be_told_apart_are_one() {
    for index in both(14) {
        // Two buckets: any hashes with the same signature have the same.
        let (one, other) = (0x9999_0000_0000_0000, 0x9999_0000_0000_0FF1);
        assert_eq!(index.buckets_of(one).iter().max(), index.buckets_of(other).iter().max());
        index.insert(&[one, other], &[1, 2]).unwrap();
        assert_eq!(index.search(&[one]).unwrap()[0].locations(), [1, 2]);
        // And operations on them act in the order of the batch.
        let ops = [IndexOp::delete(one, 2), IndexOp::search(other), IndexOp::delete(other, 2)];
        let answers = index.apply(&ops).unwrap();
        assert_eq!((answers[1].locations(), answers[2].status), (&[1][..], IndexStatus::Absent));
        assert_eq!(CuckooIndex::signature_of(one), 0x9999_0000);
    }
}

#[test]
fn a_search_of_a_full_index_ends() {
    for index in both(14) {
        let hashes: Vec<u64> = (0..64).map(|i| i << 32).collect();
        index.insert(&hashes, &[1; 64]).unwrap();
        assert_eq!(index.stats().unwrap().load, 1.0);
        let others: Vec<u64> = (1000..2000).map(|i| i << 32).collect();
        assert_eq!(count(&index.search(&others).unwrap(), IndexStatus::Absent), 1000);
    }
}

#[test]
fn displacements_that_meet_lose_nothing() {
    for seed in 0..30 {
        let index = CuckooIndex::new(&seeded(seed), &options(50)).unwrap();
        let (mut dice, mut model) = (Dice::new(seed), Model::new());
        for _ in 0..3 {
            let op = |dice: &mut Dice| {
                let hash = dice.below(1 << 30).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                IndexOp::insert(hash, dice.below(1 << 30) as u32)
            };
            let ops: Vec<IndexOp> = (0..30).map(|_| op(&mut dice)).collect();
            let answers = index.apply(&ops).unwrap();
            check_answers(&mut model, &ops, &answers).unwrap();
            check_contents(&index, &model).unwrap();
        }
    }
}
