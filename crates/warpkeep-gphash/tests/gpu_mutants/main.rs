//! Every step of the protocol that kernels follow is needed: left out, a crash or a schedule shows it.
//!
//! In a program of its own, and one test: what is left out is left out of all kernels of the process.

#![cfg(not(no_simulator))]

#[path = "../gpu/bench.rs"]
#[allow(dead_code, reason = "shared with the tests that leave nothing out")]
mod bench;
#[path = "../gpu/crash.rs"]
#[allow(dead_code, reason = "shared with the tests that leave nothing out")]
mod crash;
#[path = "../gpu/lost.rs"]
#[allow(dead_code, reason = "shared with the tests that leave nothing out")]
mod lost;
#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the CPU")]
mod rig;
#[path = "../gpu/snapshot.rs"]
#[allow(dead_code, reason = "shared with the tests that leave nothing out")]
mod snapshot;

use warpkeep_core::Op;
use warpkeep_device::{Device, Mode, fault};
use warpkeep_gphash::gpu::StraightRows;
use warpkeep_gphash::{Geometry, Table, TableError};

use bench::{Bench, batch_of, tell};
use crash::{Script, explore, record};
use rig::{Kind, get, heap};

/// What shows that a step is missing.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// A crash of this script.
    By(Script),
    /// A schedule.
    BySchedule,
    /// A schedule of a batch that is written straight through.
    ByStraightSchedule,
    /// A schedule of a batch that is staged, of keys of which two have the same hash, with a mirror.
    ByTwins,
    /// A device that is lost while it moves items.
    ByLoss,
    /// Nothing can: the end of the launch orders the same stores, and the host waits for it before it goes on.
    ByNothing,
}

/// Fault points, of `kernels/steps.h` and of the host; in which form of a batch, where there are several; and what shows that the step is missing.
const STEPS: [(&str, &str, Shown); 27] = [
    ("drain.copy_fence", "", Shown::By(Script::Drain)),
    ("drain.lane_sync", "", Shown::By(Script::Drain)),
    ("drain.new_before_old", "", Shown::By(Script::Drain)),
    ("two_phase.stage_end_fence", "", Shown::ByNothing),
    ("two_phase.publish_end_fence", "", Shown::ByNothing),
    ("drain.end_fence", "", Shown::ByNothing),
    ("slot.atomic_claim", "", Shown::BySchedule),
    ("batch.publish_after_stage", "", Shown::By(Script::Batches)),
    ("batch.publish_after_stage", "of a straight batch", Shown::By(Script::Straight)),
    ("slot.atomic_claim", "of a straight batch", Shown::ByStraightSchedule),
    ("write.record_fence", "", Shown::By(Script::Straight)),
    ("recover.finish_moves", "", Shown::ByLoss),
    ("write.words_a_step_later", "", Shown::By(Script::Parts)),
    ("write.words_a_step_later", "with words that the host stores", Shown::By(Script::Words)),
    ("write.step_end_fence", "", Shown::ByNothing),
    ("index.key_stored", "", Shown::ByTwins),
    ("host.tails_before_words", "", Shown::By(Script::Words)),
    ("host.tail_fence", "", Shown::By(Script::Words)),
    ("host.tails_stored", "", Shown::By(Script::Words)),
    ("host.tail_fence", "with values that the host stores", Shown::By(Script::Values)),
    ("host.values_before_words", "", Shown::By(Script::Values)),
    ("write.result_after_words", "", Shown::By(Script::Straight)),
    ("record.checksum", "", Shown::By(Script::Batches)),
    ("record.checksum", "of a straight batch", Shown::By(Script::Straight)),
    ("record.checksum", "in parts", Shown::By(Script::Parts)),
    ("host.checksum", "", Shown::By(Script::Words)),
    ("host.checksum", "with values that the host stores", Shown::By(Script::Values)),
];

/// Crashes a script, with so many seeds, until something is wrong: what.
fn crashes(script: Script, seeds: u64) -> Option<String> {
    (0..seeds).flat_map(|seed| script.kinds().iter().map(move |&kind| (kind, seed))).find_map(
        |(kind, seed)| {
            let recorded = record(kind, script, seed);
            explore(&recorded, 8).err()
        },
    )
}

/// Puts more keys than one warp has at a time into a table with hardly more slots, in many orders, until something is wrong.
fn schedules() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let heap = heap(24);
        let kind = Kind::ALL[(seed % 4) as usize];
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 60)).unwrap();
        let bench = Bench::over(&device, kind, table);
        let rows = bench.puts(0..64, 1);
        let batch = batch_of(&rows);
        let mut turn = bench.engine.turn();
        let mut stage = turn.stage(&bench.table, &batch, 1).unwrap();
        let placed: Vec<bool> = (0..rows.len()).map(|index| stage.change(index).is_some()).collect();
        stage.publish().unwrap();
        let lost =
            rows.iter().zip(placed).filter(|(row, placed)| *placed && get(&bench.table, &row.key).is_none());
        match lost.count() {
            0 => None,
            lost => Some(format!("seed {seed}: {lost} keys are lost")),
        }
    })
}

/// The same, straight through.
fn straight_schedules() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let heap = heap(24);
        let table = Table::create(&heap, &Kind::Packed.spec(Geometry::default(), 60)).unwrap();
        let bench = Bench::over(&device, Kind::Packed, table);
        bench.engine.load_mirror(&bench.table).unwrap();
        let keys: Vec<u64> = (0..64).collect();
        let values: Vec<u64> = (0..128).collect();
        let columns = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (statuses, stream) = (device.allocate_zeroed(64).unwrap(), device.stream().unwrap());
        let rows = StraightRows {
            op: Op::Put,
            count: 64,
            keys: columns.0.ptr(),
            values: columns.1.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns are as long as the rows say, and nobody else has them.
        let wrote = unsafe { bench.engine.turn().write_straight(&bench.table, &rows, 1, &stream) };
        assert!(wrote.unwrap().is_some());
        let lost = keys.iter().filter(|key| get(&bench.table, &key.to_le_bytes()).is_none()).count();
        (lost > 0).then(|| format!("seed {seed}: {lost} keys are lost"))
    })
}

/// Puts keys of which two have the same hash, in many orders, and looks them up in the mirror, until something is wrong.
fn twins() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let table = Table::create(&heap(24), &Kind::Twins.spec(Geometry::default(), 200)).unwrap();
        let bench = Bench::over(&device, Kind::Twins, table);
        bench.engine.load_mirror(&bench.table).unwrap();
        let rows = bench.puts((0..32).step_by(2).chain((1..32).step_by(2)), 1);
        let mut wrong = None;
        let mut work = || {
            // Of two with one hash in one batch, both would be left to the CPU.
            for rows in [&rows[..16], &rows[16..]] {
                bench.engine.turn().stage(&bench.table, &batch_of(rows), 1)?.publish()?;
            }
            bench.engine.get_many(&bench.table, rows.iter().map(|row| &row.key[..]), |index, found| {
                if found.map(|(_, value)| value) != Some(&rows[index].value[..]) {
                    wrong = Some(format!("key {index} has {found:?}"));
                }
            })
        };
        let done: Result<(), TableError> = work();
        done.err().map(|error| error.to_string()).or(wrong).map(|what| format!("seed {seed}: {what}"))
    })
}

/// Loses a device wherever it can be lost while it moves items, until something is wrong: what.
fn losses() -> Option<String> {
    // What is wrong is told below.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let gone_through = std::panic::catch_unwind(|| lost::losses(lost::During::Drain));
    std::panic::set_hook(hook);
    let wrong = gone_through.err()?;
    Some(wrong.downcast_ref::<String>().map_or_else(|| "a check failed".to_owned(), Clone::clone))
}

#[test]
fn every_step_that_is_left_out_is_missed() {
    assert_eq!(schedules(), None);
    assert_eq!(straight_schedules(), None);
    assert_eq!(twins(), None);
    use Script::{Batches, Drain, Parts, Straight, Values, Words};
    for script in [Batches, Drain, Straight, Parts, Words, Values] {
        assert_eq!(crashes(script, 2), None, "{script:?}, with nothing left out");
    }
    let (mut caught, mut of, mut kept) = (0, 0, Vec::new());
    for (point, form, shown) in STEPS {
        let name = if form.is_empty() { point.to_owned() } else { format!("{point}, {form}") };
        let fault = fault::activate(point);
        let wrong = match shown {
            Shown::By(script) => crashes(script, 4),
            Shown::BySchedule => schedules(),
            Shown::ByTwins => twins(),
            Shown::ByLoss => losses(),
            Shown::ByStraightSchedule => straight_schedules(),
            Shown::ByNothing => [Script::Batches, Script::Drain, Script::Straight, Script::Parts]
                .into_iter()
                .find_map(|script| crashes(script, 1)),
        };
        assert!(fault.reached() > 0, "nothing comes to {point}");
        drop(fault);
        if let Shown::ByNothing = shown {
            // If this fails the step can be shown after all: then say by what.
            assert_eq!(wrong, None, "{name} is missed");
            kept.push(name);
            continue;
        }
        of += 1;
        caught += u32::from(wrong.is_some());
        tell(&format!("without {name}: {}", wrong.as_deref().unwrap_or("NOT NOTICED")));
    }
    tell(&format!(
        "mutation gate of the kernels: {caught} of {of} caught; at the end of a launch, which orders as much: {}",
        kept.join(", ")
    ));
    assert_eq!(caught, of);
}
