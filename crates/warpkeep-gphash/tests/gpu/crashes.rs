//! Every crash is survived.

use warpkeep_crashlab::explores_fully;

use crate::bench::tell;
use crate::crash::{Script, explore, record};

fn survived(script: Script, seeds: u64) {
    for &kind in script.kinds() {
        let images: u64 = (0..seeds)
            .map(|seed| {
                let explored = explore(&record(kind, script, seed), 16);
                explored.unwrap_or_else(|what| panic!("seed {seed}: {what}"))
            })
            .sum();
        tell(&format!("crashed the kernels of a table, {kind:?}, {script:?}: {images} images"));
    }
}

fn straight_seeds() -> u64 {
    if explores_fully() { 12 } else { 4 }
}

#[test]
fn every_crash_of_a_batch_is_survived() {
    survived(Script::Batches, 4);
}

#[test]
fn every_crash_of_a_drain_is_survived() {
    survived(Script::Drain, 4);
}

#[test]
fn every_crash_of_a_straight_batch_is_survived() {
    survived(Script::Straight, straight_seeds());
}

#[test]
fn every_crash_of_a_straight_batch_in_parts_is_survived() {
    survived(Script::Parts, straight_seeds());
}

#[test]
fn every_crash_of_a_batch_whose_words_the_host_stores_is_survived() {
    survived(Script::Words, straight_seeds());
}

#[test]
fn every_crash_of_a_batch_whose_values_the_host_stores_is_survived() {
    survived(Script::Values, straight_seeds());
}
