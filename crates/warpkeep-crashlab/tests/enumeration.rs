//! The explorer tries exactly the possible images: counts worked out by hand are compared with its own.

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::sync::Mutex;

use fastrand::Rng;
use warpkeep_crashlab::{Crash, Exploration, Explorer, LabDisk, LabMemory, MemoryModel, Reopen, Trace};
use warpkeep_image::{Backing, Persist};
use warpkeep_log::Disk;

const LINES: Crash = Crash::PowerPersistent(MemoryModel::X86Lines);
const WORDS: Crash = Crash::PowerPersistent(MemoryModel::Words);

type Image = (u8, Vec<u64>, Option<Vec<u64>>, BTreeMap<String, Vec<u8>>);

fn image(reopen: &Reopen<'_>) -> Image {
    let class = match reopen.crash() {
        Crash::Process => 0,
        Crash::PowerVolatile => 1,
        Crash::PowerPersistent(_) => 2,
    };
    let memory = reopen
        .memory()
        .map(|memory| (0..memory.len()).step_by(8).map(|offset| memory.load(offset)).collect());
    let disk = reopen.disk();
    let files = disk.list().unwrap().into_iter().map(|name| {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        (name, bytes)
    });
    (class, reopen.acked().to_vec(), memory, files.collect())
}

/// Explores without crashing the recovery, and makes sure that no image came twice.
fn count(trace: &Trace, explorer: Explorer) -> Exploration {
    let seen = Mutex::new(HashSet::new());
    let found = explorer.depth(1).explore(trace, |reopen| {
        if seen.lock().unwrap().insert(image(reopen)) { Ok(()) } else { Err("seen before".into()) }
    });
    found.assert_clean();
    assert_eq!(found.images, seen.lock().unwrap().len());
    found
}

fn images(crash: Crash, scenario: impl Fn(&Trace)) -> usize {
    let trace = Trace::new();
    scenario(&trace);
    count(&trace, Explorer::new([crash])).images
}

/// The state before anything was there counts as one image more, in all of these.
fn stores(trace: &Trace, places: &[(u64, u64)]) {
    let memory = LabMemory::new(trace, 256, 256);
    let recorder = memory.recorder();
    for &(offset, value) in places {
        recorder.store(memory.word(offset), value);
    }
}

#[test]
fn three_words_of_one_line() {
    let scenario = |trace: &Trace| stores(trace, &[(0, 1), (8, 1), (16, 1)]);
    assert_eq!(images(Crash::Process, scenario), 1 + 4);
    assert_eq!(images(LINES, scenario), 1 + 4, "prefixes");
    assert_eq!(images(WORDS, scenario), 1 + 8, "subsets");
    assert_eq!(images(Crash::PowerVolatile, scenario), 1, "nothing is left of any of it");
}

#[test]
fn three_words_of_three_lines() {
    let scenario = |trace: &Trace| stores(trace, &[(0, 1), (64, 1), (128, 1)]);
    assert_eq!(images(Crash::Process, scenario), 1 + 4);
    assert_eq!(images(LINES, scenario), 1 + 8);
    assert_eq!(images(WORDS, scenario), 1 + 8);
}

#[test]
fn one_word_stored_twice() {
    let scenario = |trace: &Trace| stores(trace, &[(0, 1), (8, 5), (0, 2)]);
    assert_eq!(images(LINES, scenario), 1 + 4);
    assert_eq!(images(WORDS, scenario), 1 + 3 * 2);
    let back = |trace: &Trace| stores(trace, &[(0, 1), (0, 0)]);
    assert_eq!(images(WORDS, back), 1 + 2, "back at the durable value");
    assert_eq!(images(LINES, back), 1 + 2);
    let nothing = |trace: &Trace| stores(trace, &[(0, 0)]);
    assert_eq!(images(WORDS, nothing), 1 + 1, "a store that changes nothing is no choice");
}

#[test]
fn fenced_stores_are_no_choice_and_later_ones_are() {
    let scenario = |flushed: &'static [u64]| {
        move |trace: &Trace| {
            let memory = LabMemory::new(trace, 256, 256);
            let recorder = memory.recorder();
            trace.pause();
            trace.resume();
            recorder.store(memory.word(0), 1);
            recorder.store(memory.word(64), 1);
            for &offset in flushed {
                recorder.flush("some", memory.word(offset).as_ptr().cast(), 1);
            }
            recorder.store(memory.word(8), 1);
            recorder.fence("some");
            trace.ack(1);
        }
    };
    // Before the ack: {} {0} {0,8} times {} {64} = 6, and the empty world. After it:
    assert_eq!(images(LINES, scenario(&[])), 7 + 6);
    assert_eq!(images(LINES, scenario(&[0])), 7 + 2 * 2, "0 is there, 8 or not, 64 or not");
    assert_eq!(images(LINES, scenario(&[0, 64])), 7 + 2);
}

#[test]
fn growth_may_be_missing_with_what_was_stored_there() {
    let scenario = |trace: &Trace| {
        let memory = LabMemory::new(trace, 64, 256);
        memory.grow(128).unwrap();
        memory.recorder().store(memory.word(64), 1);
    };
    assert_eq!(images(LINES, scenario), 1 + 3, "short; long and empty; long and stored");
    assert_eq!(images(Crash::Process, scenario), 1 + 3);
}

#[test]
fn two_sectors_of_a_new_file() {
    let scenario = |trace: &Trace| {
        let disk = LabDisk::new(trace);
        disk.create("file").unwrap().write_at(&[7; 1024], 0).unwrap();
    };
    assert_eq!(images(Crash::PowerVolatile, scenario), 6, "no file; empty; each sector zeros or not");
    assert_eq!(images(Crash::Process, scenario), 4, "no file; empty; half; whole");
}

#[test]
fn sectors_written_twice_and_cut_by_the_length() {
    let scenario = |trace: &Trace| {
        let disk = LabDisk::new(trace);
        trace.pause();
        let file = disk.create("file").unwrap();
        file.write_at(&[1; 100], 0).unwrap();
        trace.resume();
        file.write_at(&[2; 100], 0).unwrap();
        file.write_at(&[3; 100], 50).unwrap();
    };
    // Nothing at all; length 100: 1s, 2s, 2s and 3s; length 150: the same three, and zeros to the end.
    assert_eq!(images(Crash::PowerVolatile, scenario), 1 + 3 + 3);
}

#[test]
fn names() {
    let setting = |trace: &Trace| {
        let disk = LabDisk::new(trace);
        trace.pause();
        for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            disk.create(name).unwrap().write_at(&[byte], 0).unwrap();
        }
        trace.resume();
        disk
    };
    let rename = |trace: &Trace| setting(trace).rename("a", "b").unwrap();
    assert_eq!(images(Crash::PowerVolatile, rename), 1 + 2);
    let apart = |trace: &Trace| {
        let disk = setting(trace);
        disk.rename("a", "b").unwrap();
        disk.remove("c").unwrap();
    };
    assert_eq!(images(Crash::PowerVolatile, apart), 1 + 4, "independent of each other");
    let chain = |trace: &Trace| {
        let disk = setting(trace);
        disk.rename("a", "b").unwrap();
        disk.rename("b", "c").unwrap();
    };
    assert_eq!(images(Crash::PowerVolatile, chain), 1 + 3, "the second is nothing without the first");
    let synced = |trace: &Trace| {
        let disk = setting(trace);
        disk.rename("a", "b").unwrap();
        disk.sync_dir("names").unwrap();
        trace.ack(1);
        disk.remove("b").unwrap();
    };
    assert_eq!(images(Crash::PowerVolatile, synced), 1 + 2 + 2);
}

/// A scenario of everything, drawn from a seed.
fn anything(trace: &Trace, seed: u64, steps: usize) {
    let mut rng = Rng::with_seed(seed);
    let memory = LabMemory::new(trace, 256, 1024);
    let recorder = memory.recorder();
    let disk = LabDisk::new(trace);
    for step in 0..steps {
        let offset = rng.u64(..memory.len() / 8) * 8;
        let name = ["a", "b", "c"][rng.usize(..3)];
        let file = disk.open(name).or_else(|_| disk.create(name)).unwrap();
        trace.as_thread(rng.u32(..2), || match rng.u32(..16) {
            0..=2 => recorder.store(memory.word(offset), rng.u64(..3)),
            3 => {
                let bytes = vec![rng.u8(..3); rng.usize(..20).min((memory.len() - offset) as usize)];
                // SAFETY: inside the memory, from one thread.
                unsafe { recorder.write(memory.base().add(offset as usize), &bytes) };
            }
            4 => recorder.flush("flush", memory.word(offset).as_ptr().cast(), 8),
            5 => recorder.fence("fence"),
            6 if memory.len() < 1024 => memory.grow(memory.len() + 64).unwrap(),
            7 => memory.sync("memory").unwrap(),
            8..=9 => file.write_at(&vec![rng.u8(1..4); rng.usize(..1200)], rng.u64(..700)).unwrap(),
            10 => file.allocate(rng.u64(..2000)).unwrap(),
            11 => file.sync("file").unwrap(),
            12 => disk.rename(name, ["a", "b", "c"][rng.usize(..3)]).unwrap(),
            13 => disk.remove(name).unwrap(),
            14 => disk.sync_dir("names").unwrap(),
            _ => trace.ack(step as u64),
        });
    }
}

#[test]
fn every_image_of_any_scenario_is_tried_once() {
    for seed in 0..30 {
        let trace = Trace::new();
        anything(&trace, seed, 60);
        let explorer = Explorer::new([Crash::Process, Crash::PowerVolatile, LINES, WORDS]).per_boundary(24);
        assert!(count(&trace, explorer.seed(seed)).images > 100);
    }
}

#[test]
fn sampling_always_takes_nothing_everything_and_each_alone() {
    let trace = Trace::new();
    let memory = LabMemory::new(&trace, 2048, 2048);
    let recorder = memory.recorder();
    trace.pause();
    trace.resume();
    for line in 0..32 {
        recorder.store(memory.word(line * 64), 1);
    }
    trace.ack(1);
    let seen = Mutex::new(HashSet::new());
    let found = Explorer::new([LINES]).per_boundary(40).depth(1).explore(&trace, |reopen| {
        if let (Some(memory), [1]) = (reopen.memory(), reopen.acked()) {
            let survived = (0..32).fold(0u32, |bits, line| bits | (memory.load(line * 64) as u32) << line);
            seen.lock().unwrap().insert(survived);
        }
        Ok(())
    });
    found.assert_clean();
    let seen = seen.into_inner().unwrap();
    assert!(seen.contains(&0) && seen.contains(&u32::MAX));
    assert!((0..32).all(|line| seen.contains(&(1 << line)) && seen.contains(&!(1 << line))));
    assert!(seen.len() > 66, "and random ones: {}", seen.len());
}

/// A check that finds fault with some images, works on, and so keeps the explorer busy at every depth.
fn fussy(reopen: &Reopen<'_>, fault: bool) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let recorder = memory.recorder();
    let sum =
        (0..memory.len()).step_by(8).fold(0u64, |sum, at| sum.wrapping_mul(31).wrapping_add(memory.load(at)));
    recorder.store(memory.word(8), sum % 3);
    recorder.store(memory.word(72), sum % 5);
    if fault && sum % 41 == 7 { Err(format!("sum {sum}")) } else { Ok(()) }
}

#[test]
fn findings_do_not_depend_on_the_number_of_threads() {
    let trace = Trace::new();
    anything(&trace, 3, 80);
    for (fault, depth) in [(false, 2), (true, 2), (false, 3), (true, 3)] {
        let explore = |threads, seed| {
            let explorer = Explorer::new([Crash::Process, LINES, WORDS]).per_boundary(16).per_recovery(6);
            let explorer = explorer.depth(depth).threads(threads).seed(seed);
            explorer.explore(&trace, |reopen| fussy(reopen, fault))
        };
        let alone = explore(1, 9);
        assert_eq!(alone.is_clean(), !fault, "{alone}");
        assert!(alone.images > 100 && alone.recoveries_crashed > 50, "{alone}");
        for threads in [2, 5] {
            assert_eq!(explore(threads, 9), alone, "with {threads} threads");
        }
        assert_ne!(explore(2, 10).images, 0);
    }
}
