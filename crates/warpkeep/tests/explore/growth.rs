//! Growth while in use: the same steps in an image that is too small for them.

use std::path::Path;
use std::sync::Arc;

use warpkeep_crashlab::{Exploration, Gate, LabMemory, Reopen, Trace, mutation_gate_of};
use warpkeep_image::{Heap, HeapOptions, Image, ImageError, MIN_CHUNK};

use crate::Dropped;
use crate::heap::{Scene, Step, check, explorer, run};
use crate::lab_place::{format, surroundings};

const STEPS: [Step; 8] = [
    Step::Name(0, 16),
    Step::Name(1, 30_000),
    Step::Name(8, 2 * MIN_CHUNK),
    Step::Name(2, 40_000),
    Step::Clear(8),
    Step::Name(9, 6 * MIN_CHUNK),
    Step::Name(1, 30_000),
    Step::Name(3, 16),
];

fn scenario(trace: &Trace) -> Scene {
    run(trace, &STEPS, 2, 40)
}

pub(crate) fn explore() -> Exploration {
    let trace = Trace::new();
    let scene = scenario(&trace);
    explorer().explore(&trace, |reopen| check(&scene, reopen))
}

/// Chunks whose descriptors fit chunk 0; the next one holds descriptors itself.
const IN_FIRST: u64 = (MIN_CHUNK - 20480) / 8;

/// Grows by the one chunk that is a directory, and one more.
fn across(trace: &Trace) {
    trace.pause();
    let memory = LabMemory::new(trace, IN_FIRST * MIN_CHUNK, (IN_FIRST + 2) * MIN_CHUNK);
    let recorder = memory.recorder();
    let image =
        Image::format(Arc::new(memory), recorder, Path::new("lab"), &format(), surroundings(true)).unwrap();
    image.begin(1).unwrap();
    trace.resume();
    image.grow(IN_FIRST + 2).unwrap();
    trace.ack(1);
}

fn check_across((): &(), reopen: &Reopen<'_>) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let attached = Image::attach(Arc::new(memory), recorder, Path::new("lab"), surroundings(true), true);
    let image = Arc::new(attached.map_err(|error| error.to_string())?.image);
    let heap = Heap::recover::<ImageError>(&image, HeapOptions::default(), |_| Ok(()));
    let usage = heap.map_err(|error| error.to_string())?.usage();
    let grown = (usage.chunks, usage.directory_chunks) == (IN_FIRST + 2, 2);
    let as_before = (usage.chunks, usage.directory_chunks) == (IN_FIRST, 1);
    match grown || (as_before && reopen.acked().is_empty()) {
        true => Ok(()),
        false => Err(format!("{usage}")),
    }
}

pub(crate) fn explore_directory() -> Exploration {
    let trace = Trace::new();
    across(&trace);
    // An image of 48 MiB is slow to rebuild, so few are.
    explorer().per_boundary(4).depth(1).explore(&trace, |reopen| check_across(&(), reopen))
}

pub(crate) fn gate(drop: &Dropped) -> Gate {
    let small = mutation_gate_of(&drop.sampled(explorer()), |site| drop.has(site), scenario, check);
    let mut large = mutation_gate_of(
        &drop.sampled(explorer().per_boundary(12).depth(1)),
        |site| drop.has(site),
        across,
        check_across,
    );
    large.baseline.assert_clean();
    large.caught.extend(small.caught);
    large.missed.extend(small.missed);
    Gate { baseline: small.baseline, ..large }
}
