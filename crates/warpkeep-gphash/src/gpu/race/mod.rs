//! Readers of the mirror beside whoever publishes, in one launch of the simulator; and that the rules they follow are needed.

mod bench;
mod told;

use std::io::Write as _;

use warpkeep_core::Op;
use warpkeep_device::{DevicePtr, Stream, fault};

use self::bench::{Bench, Beside, KEYS, THERE, long_key, twin_key, value};
use self::told::beside_a_told_twin;
use crate::Layout;
use crate::gpu::params::MIRROR_ENTRIES;
use crate::gpu::straight::params::BeatParams;
use crate::gpu::values::{Choose, Release};
use crate::gpu::{PublishBy, StraightRows, ValueRoom};

// Fault points of `kernels/steps.h`.
const MIRRORED: &str = "index.update";
const VEILED: &str = "index.invalidate_before_change";
const FILLED: &str = "value_cache.fill_before_entry";
const RESERVED: &str = "index.reserved_until_keyed";

/// Readers beside a batch that is published; what is wrong.
fn beside_a_mirrored_batch(seed: u64) -> Option<String> {
    published_beside_readers(seed, mirrored(seed, long_key)).map(|what| format!("with a mirror, {what}"))
}

/// The same, with keys that share their hashes.
fn beside_a_mirrored_batch_of_twins(seed: u64) -> Option<String> {
    // Readers of a mirror without keys take keys with one hash for one here.
    let bench = mirrored(2 * seed, twin_key);
    published_beside_readers(seed, bench).map(|what| format!("of twins, {what}"))
}

/// A table with a mirror, which has its keys or not.
fn mirrored(seed: u64, key: fn(u64) -> Vec<u8>) -> Bench {
    mirrored_of(seed, key, 16)
}

/// The same, with values of so many bytes.
fn mirrored_of(seed: u64, key: fn(u64) -> Vec<u8>, value_len: u32) -> Bench {
    let bench = Bench::with_keys(seed, Layout::Packed, value_len, key);
    bench.engine.keep_keys(seed.is_multiple_of(2));
    let report = bench.engine.load_mirror(&bench.table).unwrap();
    assert_eq!(report.key_bytes > 0, seed.is_multiple_of(2));
    bench
}

/// The same, with values in rows.
fn beside_a_batch_of_cached_values(seed: u64) -> Option<String> {
    let bench = mirrored(seed, long_key);
    let share = [1.0, 0.5][seed as usize / 2 % 2];
    assert!(bench.engine.load_values(&bench.table, ValueRoom::Share(share)).unwrap().cached >= THERE / 2);
    published_beside_readers(seed, bench).map(|what| format!("with values in rows, {what}"))
}

/// Readers beside whoever fills rows, which had other values before.
fn beside_a_fill(seed: u64) -> Option<String> {
    let bench = mirrored(seed, long_key);
    let Bench { engine, table, .. } = &bench;
    engine.load_values(table, ValueRoom::Share(1.0)).unwrap();
    let params = bench.params();
    let mut turn = engine.turn();
    let rows = engine.mirror.state().values.rows.clone().unwrap();
    rows.have_spares(0, 0);
    engine.release(&mut turn.place, params, &rows, &Release::ALL, 0).unwrap();
    let entries = params.mirror.buckets * MIRROR_ENTRIES;
    let some = Choose { params, heat: DevicePtr::NULL, entries, coldest: 0, hottest: 0, left: THERE / 2 };
    // Not the rows that they had.
    let fill = engine.choose(&mut turn.place, table, &rows, &some, 9).unwrap();
    turn.place.stream.synchronize().unwrap();
    let seen = bench.race(Beside { fill, ..Beside::default() });
    drop(turn);
    for (number, cached) in (0..).zip(&seen.cached) {
        let expected = bench.items.get(&number).copied();
        if *cached != expected {
            return Some(format!("seed {seed}: key {number} has {cached:?} and not {expected:?}"));
        }
    }
    bench.wrong().map(|what| format!("seed {seed}: {what}"))
}

fn published_beside_readers(seed: u64, mut bench: Bench) -> Option<String> {
    let mut wrong = None;
    let all = [(Op::Put, 0..30), (Op::Delete, 10..40), (Op::Put, 20..KEYS), (Op::Put, 20..KEYS)];
    let all: Vec<(Op, Vec<u64>)> = all
        .into_iter()
        .flat_map(|(op, numbers)| bench.batches(numbers).into_iter().map(move |numbers| (op, numbers)))
        .collect();
    for (round, (op, numbers)) in all.into_iter().enumerate() {
        let first = 1000 * (round as u64 + 1);
        let before = bench.items.clone();
        bench.write(op, numbers.iter().copied(), first, |bench, publish| {
            let seen = bench.race(Beside { publish: Some(publish), ..Beside::default() });
            for (number, (plain, cached)) in (0..).zip(seen.plain.into_iter().zip(seen.cached)) {
                let old = before.get(&number).copied();
                let place = numbers.iter().position(|&one| one == number);
                let new = match (place, op) {
                    (None, _) => old,
                    (Some(_), Op::Delete) => None,
                    (Some(place), _) => {
                        let version = first + place as u64;
                        Some((version, value(number, version)))
                    }
                };
                // One after the other, by one reader: time does not go back.
                let fine = [(old, old), (old, new), (new, new)].contains(&(plain, cached));
                if !fine {
                    let what = format!("round {round}: key {number} has {plain:?} and then {cached:?}");
                    wrong.get_or_insert(format!("seed {seed}: {what}, was {old:?}, is to be {new:?}"));
                }
            }
        });
        wrong = wrong.or_else(|| bench.wrong().map(|what| format!("seed {seed}: {what}")));
    }
    wrong
}

/// Readers beside each beat of batches that are written straight through, in parts of so many; what is wrong. They look at the image, into the mirror, and at the image again.
fn beside_a_straight_batch(seed: u64, part: u64, words: PublishBy) -> Option<String> {
    // In tiles, every other time, where the host has tails to store.
    let value_len = if words != PublishBy::Device && seed / 4 % 2 == 1 { 128 } else { 16 };
    // With keys beside the entries: without them batches are written in two phases.
    let mut bench = mirrored_of(2 * seed, long_key, value_len);
    bench.engine.adjust(|profile| profile.publish_by = words);
    bench.engine.adjust(|profile| profile.chunk_operations = part);
    let mut wrong = None;
    for (op, numbers) in [(Op::Put, 0..30), (Op::Delete, 10..40), (Op::Put, 20..KEYS), (Op::Update, 20..KEYS)]
    {
        let first = 1000 * (bench.items.len() as u64 + 1 + op as u64);
        let before = bench.items.clone();
        for (version, number) in (first..).zip(numbers.clone()) {
            match op {
                Op::Delete => bench.items.remove(&number),
                _ => bench.items.insert(number, (version, value(number, version))),
            };
        }
        let keys: Vec<u8> = numbers.clone().flat_map(|number| bench.row(number)).collect();
        let values: Vec<u64> = (first..)
            .zip(numbers.clone())
            .flat_map(|(version, number)| vec![value(number, version); value_len as usize / 8])
            .collect();
        let keys = bench.device.upload(&keys).unwrap();
        let values = bench.device.upload(&values).unwrap();
        let statuses = bench.device.allocate_zeroed(KEYS as usize).unwrap();
        let count = numbers.end - numbers.start;
        let rows =
            StraightRows { op, count, keys: keys.ptr(), values: values.ptr(), statuses: statuses.ptr() };
        let stream = bench.device.stream().unwrap();
        let mut beats = 0;
        let each = |params: &BeatParams, _, _: &Stream| {
            beats += 1;
            let late = seed / 2 % 2 == 1;
            let seen = bench.race(Beside { beat: Some(*params), late, ..Beside::default() });
            for number in 0..KEYS {
                let at = number as usize;
                let looks = [seen.plain[at], seen.cached[at], seen.again[at]];
                let (old, new) = (before.get(&number).copied(), bench.items.get(&number).copied());
                // Time does not go back.
                let turned = looks.iter().position(|look| *look == new).unwrap_or(looks.len());
                let (earlier, later) = looks.split_at(turned);
                if earlier.iter().any(|look| *look != old) || later.iter().any(|look| *look != new) {
                    let what = format!("{op:?}, beat {}: key {number} has {looks:?}", params.beat);
                    wrong.get_or_insert(format!("seed {seed}: {what}, was {old:?}, is to be {new:?}"));
                }
            }
            Ok(())
        };
        // SAFETY: the columns are as long as the rows say, and nobody else has them.
        let wrote =
            unsafe { bench.engine.turn().write_in_beats(&bench.table, &rows, None, first, &stream, each) }
                .unwrap();
        if wrote.is_none_or(|wrote| wrote.by_cpu > 0) {
            wrong.get_or_insert(format!("seed {seed}: {op:?} of {numbers:?} came to {wrote:?}"));
        }
        assert_eq!(beats > 3, part < KEYS, "{beats}");
        wrong = wrong.or_else(|| bench.wrong().map(|what| format!("seed {seed}: {what}")));
    }
    wrong
}

fn beside_a_small_batch(seed: u64) -> Option<String> {
    beside_a_straight_batch(seed, KEYS, PublishBy::Device).map(|what| format!("straight, {what}"))
}

fn beside_a_batch_in_parts(seed: u64) -> Option<String> {
    beside_a_straight_batch(seed, 4, PublishBy::Device).map(|what| format!("in parts, {what}"))
}

fn beside_words_of_the_host(seed: u64) -> Option<String> {
    beside_a_straight_batch(seed, 9, PublishBy::Host(2)).map(|what| format!("with words of the host, {what}"))
}

const SEEDS: u64 = 60;

/// Runs a seed; what is wrong.
type Attempt = fn(u64) -> Option<String>;

/// One test: what is left out is left out of all kernels of the process.
#[test]
fn readers_beside_batches_see_what_is_there() {
    for seed in 0..SEEDS {
        assert_eq!(beside_a_mirrored_batch(seed), None);
        assert_eq!(beside_a_batch_of_cached_values(seed), None);
        assert_eq!(beside_a_fill(seed), None);
    }
    for seed in 0..SEEDS / 3 {
        assert_eq!(beside_a_mirrored_batch_of_twins(seed), None);
        assert_eq!(beside_a_told_twin(seed), None);
    }
    for seed in 0..SEEDS / 10 {
        assert_eq!(beside_a_small_batch(seed), None);
        assert_eq!(beside_a_batch_in_parts(seed), None);
    }
    for seed in 0..SEEDS / 7 {
        assert_eq!(beside_words_of_the_host(seed), None);
    }
    let mistakes: [(&str, &str, Attempt); 12] = [
        (RESERVED, "Reserved", beside_a_told_twin),
        (MIRRORED, "Mirrored, straight", beside_a_small_batch),
        (VEILED, "Veiled, straight", beside_a_small_batch),
        (MIRRORED, "Mirrored, in parts", beside_a_batch_in_parts),
        (VEILED, "Veiled, in parts", beside_a_batch_in_parts),
        (MIRRORED, "Mirrored, words of the host", beside_words_of_the_host),
        (VEILED, "Veiled, words of the host", beside_words_of_the_host),
        (MIRRORED, "Mirrored", beside_a_batch_of_cached_values),
        (VEILED, "Veiled", beside_a_batch_of_cached_values),
        (FILLED, "Filled", beside_a_fill),
        (MIRRORED, "Mirrored", beside_a_mirrored_batch),
        (VEILED, "Veiled", beside_a_mirrored_batch),
    ];
    let mut caught = 0;
    let mut told = Vec::new();
    for (step, name, attempt) in mistakes {
        let fault = fault::activate(step);
        let wrong = (0..SEEDS).find_map(attempt);
        assert!(fault.reached() > 0, "no kernel comes to {step}");
        drop(fault);
        caught += u32::from(wrong.is_some());
        told.push(format!("without {name}: {}", wrong.as_deref().unwrap_or("NOT NOTICED")));
    }
    let all = mistakes.len();
    let lines = told.join("\n");
    writeln!(
        std::io::stdout().lock(),
        "{SEEDS} races of a mirror and of a value cache\n{lines}\nraces: {caught} of {all} caught"
    )
    .expect("standard output");
    assert_eq!(caught as usize, all);
}
