//! The power goes at every step: with the right fences a flag never stands without its data, without them it does.

use warpkeep_device::sim::{Contents, CrashImage, Memory, Mode, RegionId, Seeded, Simulator, StoreRecord};

use crate::support::{
    Kernel, PublishParams, Words, between, grid, launch, publish_records, publish_relay, tell,
};

const ROUNDS: u32 = 3;
const THREADS: u32 = 3;
const BLOCKS: u32 = 2;

/// An image of records and flags, as one range: data first, then the flags.
struct Image {
    words: Words,
    region: RegionId,
    flags_at: usize,
}

impl Image {
    fn new(simulator: &Simulator) -> Self {
        let flags_at = (BLOCKS * THREADS * ROUNDS * 2) as usize;
        let mut words = Words::new(flags_at + (BLOCKS * THREADS) as usize);
        let region = words.register(simulator, Memory::Image, Contents::Written);
        Self { words, region, flags_at }
    }

    fn bytes(&self) -> Vec<u8> {
        bytemuck::cast_slice(self.words.as_ref()).to_vec()
    }

    fn params(&mut self, between: u32, seen: &mut Words) -> PublishParams {
        let data = self.words.address();
        PublishParams {
            data,
            flags: data + self.flags_at as u64 * 8,
            seen: seen.address(),
            between,
            rounds: ROUNDS,
        }
    }
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()
}

/// What the records promise: a flag of n means that the first n records of its thread are there as a whole.
fn records_hold(bytes: &[u8], flags_at: usize) -> bool {
    let words = words_of(bytes);
    (0..u64::from(BLOCKS * THREADS)).all(|t| {
        let flag = words[flags_at + t as usize];
        (1..=flag).all(|round| {
            let at = ((t * u64::from(ROUNDS) + round - 1) * 2) as usize;
            words[at] == round * 1000 + t && words[at + 1] == round * 2000 + t
        })
    })
}

/// The relay's promise: the flag means that the data is there.
fn relay_holds(bytes: &[u8], flags_at: usize) -> bool {
    let words = words_of(bytes);
    words[flags_at] == 0 || words[0] == 17
}

struct Run {
    log: Vec<StoreRecord>,
    before: Vec<u8>,
    after: Vec<u8>,
    region: RegionId,
    flags_at: usize,
    steps: u64,
    crashed: bool,
}

fn run(kernel: Kernel, threads: u32, between: u32, seed: u64, crash_at: Option<u64>) -> Run {
    let simulator =
        Simulator::new(Mode::Seeded(Seeded { crash_at, ..Seeded::new(seed) })).expect("there is a compiler");
    let mut image = Image::new(&simulator);
    let mut seen = Words::new(2).on(&simulator);
    let before = image.bytes();
    let params = image.params(between, &mut seen);
    let report = launch(&simulator, kernel, grid(BLOCKS, threads), &params).expect("a crash is no fault");
    Run {
        log: simulator.take_store_log(),
        before,
        after: image.bytes(),
        region: image.region,
        flags_at: image.flags_at,
        steps: report.now,
        crashed: report.crashed,
    }
}

/// Crashes one run after each of its steps, in several ways each. Gives images made, and how many break the promise.
fn explore(
    kernel: Kernel,
    threads: u32,
    between: u32,
    holds: fn(&[u8], usize) -> bool,
    seeds: u64,
) -> (u64, u64) {
    let (mut images, mut broken) = (0, 0);
    for seed in 0..seeds {
        let whole = run(kernel, threads, between, seed, None);
        assert!(!whole.crashed);
        for step in 0..=whole.steps {
            let crash = CrashImage::new(&whole.before, whole.region, &whole.log, step);
            let mut candidates: Vec<Vec<u8>> = (0..12).map(|sample| crash.sample(sample)).collect();
            candidates.push(crash.arrived(step));
            for image in candidates {
                images += 1;
                broken += u64::from(!holds(&image, whole.flags_at));
            }
        }
    }
    (images, broken)
}

#[test]
fn every_step_of_a_publish_protocol() {
    let of = |between| explore(publish_records, THREADS, between, records_hold, 6);
    let (images, broken) = of(between::SYSTEM_FENCE);
    assert_eq!(broken, 0, "with its fences the protocol holds");
    assert!(of(between::NOTHING).1 > 0, "a missing fence is noticed");
    assert!(of(between::BLOCK_FENCE).1 > 0, "a fence for the block orders nothing in the image");
    assert!(of(between::DEVICE_FENCE).1 > 0, "nor does one for the device");
    assert!(of(between::DEVICE_RELEASE).1 > 0, "nor a release for the device");
    tell(&format!("{images} images of a publish protocol; 4 of 4 caught: fences for the image"));
}

#[test]
fn a_fence_carries_what_others_have_ordered() {
    let of = |between| explore(publish_relay, 1, between, relay_holds, 30);
    let (images, broken) = of(between::DEVICE_FENCE);
    assert_eq!(broken, 0, "the second block's fence covers what the first one ordered for the device");
    assert!(of(between::NOTHING).1 > 0, "but not what it did not order");
    assert!(of(between::BLOCK_FENCE).1 > 0, "nor what it ordered for its block");
    tell(&format!("{images} images of a relay; 2 of 2 caught: fences before it"));
}

#[test]
fn killing_the_lanes_leaves_what_had_arrived() {
    let (seed, between) = (3, between::SYSTEM_FENCE);
    let whole = run(publish_records, THREADS, between, seed, None);
    let mut in_flight = 0;
    for step in 0..=whole.steps {
        let killed = run(publish_records, THREADS, between, seed, Some(step));
        assert_eq!(killed.crashed, step < whole.steps, "step {step}");
        assert!(records_hold(&killed.after, killed.flags_at), "step {step}");
        // The same run up to there, so the same image.
        let crash = CrashImage::new(&whole.before, whole.region, &whole.log, step);
        assert_eq!(killed.after, crash.arrived(step), "step {step}");
        // What was in flight is reported, and could have arrived.
        let pending = killed.log.iter().filter(|store| store.arrived.is_none()).count();
        in_flight += pending;
        let crash = CrashImage::new(&killed.before, killed.region, &killed.log, step);
        assert!(crash.open_stores() >= pending);
        for sample in 0..8 {
            assert!(records_hold(&crash.sample(sample), killed.flags_at), "step {step}, sample {sample}");
        }
    }
    assert!(in_flight > 0, "some crash came before a store arrived");
}

#[test]
fn all_subsets_of_a_small_log() {
    let whole = run(publish_relay, 1, between::NOTHING, 1, None);
    let crash = CrashImage::new(&whole.before, whole.region, &whole.log, whole.steps - 1);
    let all = crash.all(8).expect("the relay stores little");
    assert_eq!(all.len(), 1 << crash.open_stores());
    assert!(crash.open_stores() > 0 && crash.all(0).is_none());
    assert!(
        all.contains(&crash.sample(0)) && all.contains(&crash.sample(1)) && all.contains(&crash.sample(9))
    );
}

#[test]
fn the_log_tells_who_stored_what() {
    let whole = run(publish_records, THREADS, between::SYSTEM_FENCE, 5, None);
    assert_eq!(whole.log.len(), (BLOCKS * THREADS * ROUNDS * 3) as usize);
    let mut image = whole.before.clone();
    for store in &whole.log {
        assert!(store.block < BLOCKS && store.thread < THREADS);
        assert!(store.place.file.ends_with("publish.h"), "{}", store.place);
        let (arrived, fenced) = (store.arrived.expect("it ended"), store.fenced.expect("it ended"));
        assert!(store.issued <= arrived && arrived <= fenced && fenced <= whole.steps);
        image[store.offset as usize..][..store.bytes.len()].copy_from_slice(&store.bytes);
    }
    assert_eq!(image, whole.after, "the log is all there is");
    // A record is behind the fence that its thread's flag waits for.
    for flag in whole.log.iter().filter(|store| store.offset >= whole.flags_at as u64 * 8) {
        let earlier = whole.log.iter().filter(|store| {
            (store.block, store.thread) == (flag.block, flag.thread) && store.issued < flag.issued
        });
        for store in earlier {
            assert!(store.fenced.is_some_and(|fenced| fenced <= flag.issued) && store.epoch <= flag.epoch);
        }
    }
}
