//! Recovery from every crash of the kernels that write.

use warpkeep_crashlab::explores_fully;
use warpkeep_suites::device::report;

use crate::crash::{Script, explore, record};

fn survives(script: Script, seeds: u64) {
    for &kind in script.kinds() {
        let images: u64 = (0..seeds)
            .map(|seed| {
                let explored = explore(&record(kind, script, seed), 16);
                explored.unwrap_or_else(|what| panic!("seed {seed}: {what}"))
            })
            .sum();
        report(&format!("crashes of the kernels of a table, {kind:?}, {script:?}: {images} images"));
    }
}

fn fused_seeds() -> u64 {
    if explores_fully() { 12 } else { 4 }
}

#[test]
fn every_crash_of_a_two_phase_write_is_survived() {
    survives(Script::TwoPhase, 4);
}

#[test]
fn every_crash_of_a_drain_is_survived() {
    survives(Script::Drain, 4);
}

#[test]
fn every_crash_of_a_fused_write_is_survived() {
    survives(Script::Fused, fused_seeds());
}

#[test]
fn every_crash_of_a_fused_write_in_chunks_is_survived() {
    survives(Script::FusedInChunks, fused_seeds());
}

#[test]
fn every_crash_of_a_fused_write_published_by_the_host_is_survived() {
    survives(Script::PublishedByHost, fused_seeds());
}

#[test]
fn every_crash_of_a_write_from_host_memory_is_survived() {
    survives(Script::FromHost, fused_seeds());
}
