//! Allocate and free on a persistent medium. The roots are the index: each names a block or an extent that begins
//! with a stamp.

use std::path::Path;
use std::sync::Arc;

use warpkeep_crashlab::{
    Crash, Exploration, Explorer, Gate, LabMemory, MemoryModel, Recorder, Reopen, Trace, mutation_gate_of,
};
use warpkeep_image::{Heap, HeapOptions, Image, ImageError, MIN_CHUNK};

use crate::Dropped;
use crate::lab_place::{format, surroundings};

const CHUNKS: u64 = 20;
const ROOTS: usize = 12;
/// Roots from this one on name extents.
const EXTENTS: usize = 8;

/// A step: the next target of a root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A block or extent of this many bytes.
    Name(usize, u64),
    /// Nothing.
    Clear(usize),
    /// A block of this many bytes, allocated by one thread while another is about to publish one of the same slab.
    Share(usize, u64),
}
use Step::{Clear, Name, Share};

/// Blocks of several sizes, one that spans chunks (40000), extents, and space that goes from one to the other.
const STEPS: [Step; 23] = [
    Name(0, 16),
    Name(1, 1000),
    Name(0, 16),
    Name(2, 40_000),
    Name(3, 40_000),
    Name(8, 2 * MIN_CHUNK),
    Clear(2),
    Clear(3),
    Name(9, 3 * MIN_CHUNK),
    Name(4, 5000),
    Clear(8),
    Name(5, 20_000),
    Name(6, 20_000),
    Clear(9),
    Name(2, 3000),
    Name(1, 1000),
    Name(7, 40_000),
    Clear(5),
    Clear(6),
    Name(10, MIN_CHUNK),
    Clear(0),
    Name(3, 16),
    Share(4, 300),
];

/// Space that was one long run and is reused from behind its first chunk. A descriptor of the old run that came
/// back would hide the chunks allocated since. The lengths are such that no later flush of a neighbour compensates
/// for it.
const RELEASE: [Step; 8] = [
    Name(8, 6 * MIN_CHUNK),
    Name(9, MIN_CHUNK),
    Name(10, 9 * MIN_CHUNK),
    Clear(9),
    Clear(10),
    Name(9, 9 * MIN_CHUNK),
    Name(10, MIN_CHUNK),
    Clear(9),
];

pub(crate) fn explorer() -> Explorer {
    Explorer::new([
        Crash::Process,
        Crash::PowerPersistent(MemoryModel::X86Lines),
        Crash::PowerPersistent(MemoryModel::Words),
    ])
    .per_boundary(256)
    .per_recovery(60)
}

fn stamp(step: usize) -> u64 {
    0xbeef_0000 + step as u64
}

/// Takes step number `number`; each is taken by another thread than the one before.
pub(crate) fn take(
    heap: &Heap<Recorder>,
    trace: &Trace,
    number: usize,
    step: Step,
) -> Result<(), ImageError> {
    let image = heap.image();
    trace.as_thread(number as u32 % 3, || {
        let (root, new) = match step {
            Name(root, bytes) if root < EXTENTS => {
                let mut block = heap.allocate(bytes)?;
                block.write(0, &stamp(number).to_le_bytes())?;
                (root, Some(block.persist("test.stamp", 8)))
            }
            Name(root, bytes) => {
                let offset = heap.allocate_extent(bytes)?;
                image.store(offset, stamp(number));
                image.flush("test.stamp", offset, 8);
                image.fence("test.stamp");
                (root, Some(offset))
            }
            Clear(root) => (root, None),
            Share(root, bytes) => {
                // The slab is made for the first block, by a thread that never issues a fence of its own.
                let first = trace.as_thread(9, || heap.allocate(bytes))?;
                let mut block = heap.allocate(bytes)?;
                block.write(0, &stamp(number).to_le_bytes())?;
                let offset = block.persist("test.stamp", 8);
                drop(first);
                (root, Some(offset))
            }
        };
        let old = image.root(root)?;
        image.set_root(root, new)?;
        match old {
            Some(offset) if root < EXTENTS => heap.free(offset),
            Some(offset) => heap.free_extent(offset),
            None => Ok(()),
        }
    })
}

/// The target of each root after `count` steps, as the number of the step.
fn expected(steps: &[Step], count: usize) -> [Option<usize>; ROOTS] {
    let mut roots = [None; ROOTS];
    for (number, &step) in steps.iter().enumerate().take(count) {
        match step {
            Name(root, _) | Share(root, _) => roots[root] = Some(number),
            Clear(root) => roots[root] = None,
        }
    }
    roots
}

/// Opens the heap of an image and returns the targets of the roots; nothing may be left over.
fn recover(image: &Arc<Image<Recorder>>) -> Result<(Heap<Recorder>, [Option<usize>; ROOTS]), String> {
    let mut named = [None; ROOTS];
    let (mut blocks, mut extents) = (0, 0);
    let heap = Heap::recover::<ImageError>(image, HeapOptions::default(), |marker| {
        for (root, named) in named.iter_mut().enumerate() {
            let Some(offset) = image.root(root)? else { continue };
            let first_time = match root < EXTENTS {
                true => marker.block(offset, 8)?,
                false => marker.extent(offset, 8)?,
            };
            assert!(first_time, "two roots name {offset}");
            if root < EXTENTS {
                blocks += 1;
            } else {
                extents += 1;
            }
            *named = Some((image.load(offset) as usize).wrapping_sub(stamp(0) as usize));
        }
        Ok(())
    });
    let heap = heap.map_err(|error| error.to_string())?;
    let usage = heap.usage();
    if usage.used_blocks() != blocks || usage.extents != extents {
        return Err(format!("{blocks} blocks and {extents} extents are named, but in use are {usage}"));
    }
    Ok((heap, named))
}

/// The data that a scenario passes to its check.
pub(crate) struct Scene {
    pub(crate) steps: &'static [Step],
}

pub(crate) fn run(trace: &Trace, steps: &'static [Step], chunks: u64, max_chunks: u64) -> Scene {
    // Formatting is another scenario's business.
    trace.pause();
    let memory = LabMemory::new(trace, chunks * MIN_CHUNK, max_chunks * MIN_CHUNK);
    let recorder = memory.recorder();
    let image =
        Image::format(Arc::new(memory), recorder, Path::new("lab"), &format(), surroundings(true)).unwrap();
    image.begin(1).unwrap();
    trace.resume();
    let (heap, _) = recover(&Arc::new(image)).unwrap();
    for (number, &step) in steps.iter().enumerate() {
        take(&heap, trace, number, step).unwrap();
        trace.ack(number as u64);
    }
    Scene { steps }
}

pub(crate) fn check(scene: &Scene, reopen: &Reopen<'_>) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let attached = Image::attach(Arc::new(memory), recorder, Path::new("lab"), surroundings(true), true);
    let image = Arc::new(attached.map_err(|error| error.to_string())?.image);
    let (heap, named) = recover(&image)?;
    let done = reopen.acked().len();
    let ways = [done, (done + 1).min(scene.steps.len())];
    let Some(&count) = ways.iter().find(|&&count| expected(scene.steps, count) == named) else {
        return Err(format!("{named:?} after {done} steps, not {:?}", expected(scene.steps, done)));
    };
    // Recovering again changes nothing.
    drop(heap);
    let (heap, again) = recover(&image)?;
    if again != named {
        return Err(format!("{named:?} became {again:?} by recovering again"));
    }
    // Work continues where it stopped, and is crashed in its turn.
    for number in done..count {
        reopen.ack(number as u64);
    }
    for (number, &step) in scene.steps.iter().enumerate().skip(count).take(2) {
        take(&heap, reopen.trace(), number, step).map_err(|error| error.to_string())?;
        reopen.ack(number as u64);
    }
    // Everything that is not named can be had.
    fill(&heap)
}

/// Takes every free chunk, and frees it again.
fn fill(heap: &Heap<Recorder>) -> Result<(), String> {
    let free = heap.usage().free_chunks;
    let fixed = HeapOptions { max_bytes: heap.image().len(), ..HeapOptions::default() };
    let named: Vec<(usize, u64)> =
        (0..ROOTS).filter_map(|root| Some((root, heap.image().root(root).ok()??))).collect();
    let again = Heap::recover::<ImageError>(heap.image(), fixed, |marker| {
        named.iter().try_for_each(|&(root, offset)| match root < EXTENTS {
            true => marker.block(offset, 8).map(|_| ()),
            false => marker.extent(offset, 8).map(|_| ()),
        })
    })
    .map_err(|error| error.to_string())?;
    let taken = std::iter::from_fn(|| again.allocate_extent(1).ok()).count() as u64;
    match taken >= free {
        true => Ok(()),
        false => Err(format!("{free} chunks are free but only {taken} can be had")),
    }
}

fn scenario(trace: &Trace) -> Scene {
    run(trace, &STEPS, CHUNKS, CHUNKS)
}

fn release(trace: &Trace) -> Scene {
    run(trace, &RELEASE, CHUNKS, CHUNKS)
}

pub(crate) fn explore() -> Exploration {
    explore_scene(scenario)
}

pub(crate) fn explore_release() -> Exploration {
    explore_scene(release)
}

fn explore_scene(scenario: fn(&Trace) -> Scene) -> Exploration {
    let trace = Trace::new();
    let scene = scenario(&trace);
    explorer().explore(&trace, |reopen| check(&scene, reopen))
}

pub(crate) fn gate(drop: &Dropped) -> Gate {
    mutation_gate_of(&drop.sampled(explorer()), |site| drop.has(site), scenario, check)
}

pub(crate) fn gate_release(drop: &Dropped) -> Gate {
    mutation_gate_of(&drop.sampled(explorer()), |site| drop.has(site), release, check)
}
