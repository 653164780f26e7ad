//! Whether the hash functions scatter as a random function would. All inputs are fixed, so a test that passes once
//! passes always; the bounds are six standard deviations of what a random function gives.

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::{Seed, hash_bytes, mix64, reduce, second_hash, unmix64};

/// A sequence of numbers unrelated to the functions under test (xorshift, multiplied at the end).
fn noise(count: u64) -> impl Iterator<Item = u64> {
    let mut x = 0x2545_F491_4F6C_DD1Du64;
    (0..count).map(move |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.wrapping_mul(0xD134_2543_DE82_EF95)
    })
}

/// For each pair of an input bit and an output bit: does flipping the one flip the other half of the time?
fn assert_avalanche(name: &str, inputs: &[Vec<u8>], hash: impl Fn(&[u8]) -> u64) {
    assert_avalanche_seeded(name, inputs, |_, input| hash(input));
}

/// The same, with the index of the input handed to the hash.
fn assert_avalanche_seeded(name: &str, inputs: &[Vec<u8>], hash: impl Fn(u64, &[u8]) -> u64) {
    let bits = inputs[0].len() * 8;
    let mut flips = vec![[0u32; 64]; bits];
    for (index, input) in inputs.iter().enumerate() {
        let index = index as u64;
        let mut input = input.clone();
        let before = hash(index, &input);
        for (bit, flips) in flips.iter_mut().enumerate() {
            input[bit / 8] ^= 1 << (bit % 8);
            let changed = before ^ hash(index, &input);
            input[bit / 8] ^= 1 << (bit % 8);
            for (out, flips) in flips.iter_mut().enumerate() {
                *flips += (changed >> out & 1) as u32;
            }
        }
    }
    let samples = inputs.len() as f64;
    let bound = 6.0 * 0.5 / samples.sqrt();
    for (bit, flips) in flips.iter().enumerate() {
        for (out, flips) in flips.iter().enumerate() {
            let share = f64::from(*flips) / samples;
            assert!(
                (share - 0.5).abs() < bound,
                "{name}: input bit {bit} flips output bit {out} with {share:.3}"
            );
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("the inputs have 8 bytes"))
}

fn numbers(keys: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
    keys.map(|k| k.to_le_bytes().to_vec()).collect()
}

#[test]
fn every_key_bit_reaches_every_hash_bit() {
    let mix = |bytes: &[u8]| mix64(Seed(5), number(bytes));
    assert_avalanche("mix64, any keys", &numbers(noise(4096)), mix);
    assert_avalanche("mix64, small keys", &numbers(0..4096), mix);
    assert_avalanche("mix64, keys in the upper half", &numbers((0..4096).map(|k| k << 48)), mix);
    assert_avalanche("second_hash, any hashes", &numbers(noise(4096)), |bytes| second_hash(number(bytes)));
}

#[test]
fn every_seed_bit_reaches_every_hash_bit() {
    for key in [0, 1, u64::MAX] {
        assert_avalanche("mix64, seeds", &numbers(0..4096), |bytes| mix64(Seed(number(bytes)), key));
    }
    assert_avalanche("hash_bytes, seeds", &numbers(noise(4096)), |bytes| {
        hash_bytes(Seed(number(bytes)), b"the same key")
    });
}

#[test]
fn every_bit_of_a_longer_key_reaches_every_hash_bit() {
    for len in [1, 2, 3, 4, 7, 9, 15, 16, 17, 33, 48] {
        let words: Vec<u64> = noise(2048 * 8).collect();
        let inputs: Vec<Vec<u8>> = words
            .chunks(8)
            .map(|words| words.iter().flat_map(|w| w.to_le_bytes()).take(len).collect())
            .collect();
        assert_avalanche_seeded(&format!("{len} bytes, many seeds"), &inputs, |index, bytes| {
            hash_bytes(Seed(index), bytes)
        });
        // One or two bytes have fewer values than there are samples, so under one seed the samples repeat and
        // the bound, which counts them as independent, does not hold for any function.
        if len > 2 {
            assert_avalanche(&format!("{len} bytes"), &inputs, |bytes| hash_bytes(Seed(9), bytes));
        }
    }
}

/// Refuses a spread over `buckets` more uneven than chance makes it.
fn assert_even(name: &str, buckets: usize, places: impl Iterator<Item = usize>) {
    let mut counts = vec![0u64; buckets];
    let mut total = 0u64;
    for place in places {
        counts[place] += 1;
        total += 1;
    }
    let expected = total as f64 / buckets as f64;
    let chi_square: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    let freedom = (buckets - 1) as f64;
    let bound = freedom + 6.0 * (2.0 * freedom).sqrt();
    assert!(
        chi_square < bound,
        "{name}: chi-square {chi_square:.0} over {buckets} buckets, bound {bound:.0}"
    );
}

/// A name, and how to take a place from a hash.
type Part = (&'static str, fn(u64) -> u64);

/// A name, and how to make a key of a number.
type Shape = (&'static str, fn(u64) -> String);

/// The parts of a hash that tables take places and tags from.
fn assert_all_parts_even(name: &str, hashes: &[u64]) {
    let parts: [Part; 5] = [
        ("low bits", |h| h & 1023),
        ("bits 24..34", |h| h >> 24 & 1023),
        ("high bits", |h| h >> 54),
        ("reduced", |h| reduce(h, 1000)),
        ("second hash, low bits", |h| second_hash(h) & 1023),
    ];
    for (part, place) in parts {
        let buckets = if part == "reduced" { 1000 } else { 1024 };
        assert_even(&format!("{name}, {part}"), buckets, hashes.iter().map(|h| place(*h) as usize));
    }
}

#[test]
fn regular_integers_spread_evenly() {
    for seed in [Seed(0), Seed(1), Seed(0x0123_4567_89AB_CDEF)] {
        for shift in 0..48 {
            let hashes: Vec<u64> = (0..16_384).map(|k| mix64(seed, k << shift)).collect();
            assert_all_parts_even(&format!("multiples of 2^{shift}, seed {seed}"), &hashes);
        }
        for stride in [3, 10, 1000, 4095, 4097, 1_000_000_007] {
            let hashes: Vec<u64> = (0..16_384).map(|k| mix64(seed, k * stride)).collect();
            assert_all_parts_even(&format!("multiples of {stride}, seed {seed}"), &hashes);
        }
    }
}

#[test]
fn regular_texts_spread_evenly() {
    let shapes: [Shape; 5] = [
        ("digits", |i| i.to_string()),
        ("user:<n>", |i| format!("user:{i}")),
        ("user:<12 digits>", |i| format!("user:{i:012}")),
        ("hex at the front", |i| format!("{i:016x}-session-of-some-visitor")),
        ("path", |i| format!("/var/cache/tiles/{}/{}/{}.png", i % 7, i / 100, i)),
    ];
    for seed in [Seed(0), Seed(77)] {
        for (shape, key) in shapes {
            let hashes: Vec<u64> = (0..65_536).map(|i| hash_bytes(seed, key(i).as_bytes())).collect();
            assert_all_parts_even(shape, &hashes);
        }
    }
}

#[test]
fn both_hashes_together_spread_evenly() {
    for stride in [1, 1 << 20, 1000] {
        let pairs = (0..65_536u64).map(|k| {
            let first = mix64(Seed(3), k * stride);
            (reduce(first, 32) * 32 + reduce(second_hash(first), 32)) as usize
        });
        assert_even(&format!("pairs, stride {stride}"), 1024, pairs);
        let pairs = (0..65_536u64).map(|k| {
            let first = mix64(Seed(3), k * stride);
            (first % 32 * 32 + second_hash(first) % 32) as usize
        });
        assert_even(&format!("pairs of low bits, stride {stride}"), 1024, pairs);
    }
}

#[test]
fn keys_that_meet_under_one_seed_part_under_another() {
    // 65536 keys in one of 16 buckets under one seed; under the next seed they must be everywhere again.
    for (one, other) in [(0, 1), (1, 2), (0, 1 << 63), (7, 7 << 32)] {
        let together = (0..1_048_576u64).filter(|k| mix64(Seed(one), *k).is_multiple_of(16));
        let hashes: Vec<u64> = together.map(|k| mix64(Seed(other), k)).collect();
        assert_all_parts_even(&format!("seeds {one} and {other}"), &hashes);
    }
}

#[test]
fn a_seed_does_more_than_rename_keys() {
    // Were the seed only mixed into the key, these two would always be equal.
    for difference in [1, 1 << 31, 1 << 63, 0x1234_5678_9ABC_DEF0] {
        let hashes: Vec<u64> =
            (0..65_536).map(|key| mix64(Seed(0), key) ^ mix64(Seed(difference), key ^ difference)).collect();
        assert_all_parts_even(&format!("seeds that differ by {difference:x}"), &hashes);
    }
}

#[test]
fn similar_keys_never_meet() {
    let mut seen = HashSet::new();
    let mut keys = 0;
    let mut add = |key: &[u8]| {
        keys += 1;
        assert!(seen.insert(hash_bytes(Seed(0), key)), "the hash of {key:02x?} was there already");
    };
    for len in 0..600 {
        add(&vec![0; len]); // nothing but the length differs
    }
    for a in 0..=255 {
        for b in 0..=255 {
            if (a, b) != (0, 0) {
                add(&[a, b]);
                add(&[a, 0, b]);
                add(&[b"a fixed beginning of 32 bytes...", &[a, b][..], &[0; 14]].concat());
            }
        }
    }
    assert_eq!(seen.len(), keys);
}

proptest! {
    // The same cases in every run, and no files left behind.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn unmix_undoes_mix(seed: u64, key: u64) {
        let seed = Seed(seed);
        prop_assert_eq!(unmix64(seed, mix64(seed, key)), key);
        prop_assert_eq!(mix64(seed, unmix64(seed, key)), key);
    }

    #[test]
    fn an_extended_key_is_another_key(seed: u64, key in prop::collection::vec(any::<u8>(), 0..80), more: u8) {
        let longer: Vec<u8> = key.iter().copied().chain([more]).collect();
        prop_assert_ne!(hash_bytes(Seed(seed), &key), hash_bytes(Seed(seed), &longer));
    }

    #[test]
    fn reduce_stays_in_range(hash: u64, range in 1u64..) {
        prop_assert!(reduce(hash, range) < range);
    }

    #[test]
    fn derived_seeds_differ(seed: u64, part: u64, other: u64) {
        prop_assert_eq!(part == other, Seed(seed).derive(part) == Seed(seed).derive(other));
    }
}
