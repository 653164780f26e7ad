//! That every fault point of the hash map is needed. Alone in its program: a fault point is left out of the whole process.

#![cfg(not(no_simulator))]

#[path = "hash_map/calls.rs"]
mod calls;
#[path = "hash_map/container.rs"]
mod container;
#[path = "hash_map/crowded.rs"]
mod crowded;
#[path = "hash_map/insertions.rs"]
mod insertions;
#[path = "hash_map/keys.rs"]
mod keys;
#[path = "hash_map/model.rs"]
mod model;
#[path = "hash_map/rest.rs"]
mod rest;

use warpkeep_suites::device::{Gate, wrong_schedule};

#[test]
fn every_fault_point_is_noticed() {
    let pairs = || wrong_schedule::<container::Pairs>(60);
    let crowded = || wrong_schedule::<crowded::Crowded>(60);
    let calls = || wrong_schedule::<calls::Calls>(60);
    // Values that are apart from their slots.
    let crowded_apart = || wrong_schedule::<crowded::Crowded<u64, [u64; 2]>>(60);
    let calls_apart = || wrong_schedule::<calls::Calls<u32, [u64; 2]>>(60);
    let insertions = || wrong_schedule::<insertions::Insertions>(60);
    let insertions_apart = || wrong_schedule::<insertions::Insertions<u64, [u64; 2]>>(60);
    let rest = || rest::wrong_rest::<u64, u64>(60);
    assert_eq!(rest(), None);
    assert_eq!((pairs(), crowded(), calls()), (None, None, None));
    assert_eq!((insertions(), insertions_apart()), (None, None));
    assert_eq!((crowded_apart(), calls_apart()), (None, None));
    Gate::new("the hash map")
        .with("hash_map.claim", "in any buckets", &pairs)
        .with("hash_map.claim", "in few buckets", &crowded)
        .with("hash_map.claim", "values apart", &crowded_apart)
        .with("hash_map.fresh_claim", "", &insertions)
        .with("hash_map.fresh_claim", "values apart", &insertions_apart)
        .with("hash_map.mark", "", &crowded)
        .with("hash_map.mark", "values apart", &crowded_apart)
        .with("hash_map.publish", "", &calls_apart)
        .with("hash_map.rest_place", "", &rest)
        .with("hash_map.shared_claim", "", &calls)
        .with("hash_map.shared_claim", "values apart", &calls_apart)
        .run();
}
