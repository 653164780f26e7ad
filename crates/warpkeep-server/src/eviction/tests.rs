//! The policies compared on the same requests, without a store.

use super::clock::Clock;
use super::frequency::{Candidate, coldest};
use super::sketch::Sketch;
use warpkeep_core::{Seed, hash_bytes};

/// Keys of a trace: the more often, the smaller.
struct Zipf {
    /// The cumulative share of requests, up to each key.
    shares: Vec<f64>,
    random: fastrand::Rng,
}

impl Zipf {
    fn new(keys: usize, skew: f64) -> Zipf {
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-skew));
        let mut sum = 0.0;
        let mut shares: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        Zipf { shares, random: fastrand::Rng::with_seed(23) }
    }

    fn next(&mut self) -> u64 {
        let drawn = self.random.f64();
        self.shares.partition_point(|&share| share < drawn) as u64
    }
}

fn hash(key: u64) -> u64 {
    hash_bytes(Seed(3), &key.to_le_bytes())
}

/// A cache of a fixed number of items that stores each key it misses.
struct Cache {
    items: Vec<(u64, u64)>,
    places: std::collections::HashMap<u64, usize>,
    limit: usize,
    version: u64,
}

impl Cache {
    fn new(limit: usize) -> Cache {
        Cache { items: Vec::new(), places: std::collections::HashMap::new(), limit, version: 0 }
    }

    fn insert(&mut self, key: u64) {
        self.version += 1;
        self.places.insert(key, self.items.len());
        self.items.push((key, self.version));
    }

    fn remove(&mut self, key: u64) {
        let Some(place) = self.places.remove(&key) else { return };
        self.items.swap_remove(place);
        if let Some(&(moved, _)) = self.items.get(place) {
            self.places.insert(moved, place);
        }
    }
}

/// The share of hits of `requests` requests, after as many that warm the cache.
fn hits(requests: usize, mut ask: impl FnMut() -> bool) -> f64 {
    (0..requests).for_each(|_| {
        ask();
    });
    (0..requests).filter(|_| ask()).count() as f64 / requests as f64
}

const KEYS: usize = 200_000;
const ITEMS: usize = 20_000;
const REQUESTS: usize = 600_000;
/// The memory of a cache of such items of 500 bytes.
const BYTES: u64 = ITEMS as u64 * 640;

fn hits_by_frequency(skew: f64) -> f64 {
    let (sketch, mut zipf, mut cache) = (Sketch::new(BYTES), Zipf::new(KEYS, skew), Cache::new(ITEMS));
    let mut random = fastrand::Rng::with_seed(5);
    hits(REQUESTS, || {
        let key = zipf.next();
        sketch.note(hash(key));
        sketch.count(1);
        if cache.places.contains_key(&key) {
            return true;
        }
        sketch.note(hash(key));
        cache.insert(key);
        if cache.items.len() > cache.limit {
            sketch.age(cache.items.len() as u64);
            let mut candidates: Vec<_> = (0..128)
                .map(|_| {
                    let (key, version) = cache.items[random.usize(..cache.items.len())];
                    Candidate { key, frequency: sketch.estimate(hash(key)), version }
                })
                .collect();
            coldest(&mut candidates, 8);
            candidates.iter().for_each(|candidate| cache.remove(candidate.key));
        }
        false
    })
}

fn hits_by_clock(skew: f64) -> f64 {
    let (clock, mut zipf, mut cache) = (Clock::new(BYTES), Zipf::new(KEYS, skew), Cache::new(ITEMS));
    let mut hand = 0;
    hits(REQUESTS, || {
        let key = zipf.next();
        clock.note(hash(key));
        if cache.places.contains_key(&key) {
            return true;
        }
        cache.insert(key);
        while cache.items.len() > cache.limit {
            hand = (hand + 1) % cache.items.len();
            let (key, _) = cache.items[hand];
            if clock.goes(hash(key)) {
                cache.remove(key);
            }
        }
        false
    })
}

/// The same trace for both: no clock of the machine and no other thread has a part in it.
#[test]
fn frequency_hits_more_often_than_clock() {
    for (skew, gain) in [(0.7, 0.03), (0.9, 0.02), (0.99, 0.015)] {
        let (frequency, clock) = (hits_by_frequency(skew), hits_by_clock(skew));
        println!("Zipf {skew}: hits by frequency {frequency:.4}, by CLOCK {clock:.4}");
        assert!(frequency > clock + gain, "Zipf {skew}: {frequency} against {clock}");
    }
}

/// Items that were requested often long ago make way for those that are requested now.
#[test]
fn what_was_hot_long_ago_goes() {
    let (sketch, mut cache) = (Sketch::new(BYTES), Cache::new(1000));
    let mut random = fastrand::Rng::with_seed(9);
    let mut ask = |key: u64| {
        sketch.note(hash(key));
        sketch.count(1);
        if cache.places.contains_key(&key) {
            return true;
        }
        cache.insert(key);
        if cache.items.len() > cache.limit {
            sketch.age(cache.items.len() as u64);
            let mut candidates: Vec<_> = (0..128)
                .map(|_| {
                    let (key, version) = cache.items[random.usize(..cache.items.len())];
                    Candidate { key, frequency: sketch.estimate(hash(key)), version }
                })
                .collect();
            coldest(&mut candidates, 8);
            candidates.iter().for_each(|candidate| cache.remove(candidate.key));
        }
        false
    };
    for round in 0..20_000 {
        ask(round % 900);
    }
    // From now on other items are requested.
    let hits = (0..60_000).filter(|round| ask(10_000 + round % 900)).count();
    assert!(hits > 40_000, "{hits} of 60000");
}
