//! Every fault point of the kernels' protocol is needed: a crash or a schedule fails without it.
//!
//! One test in a program of its own: an active fault point is active in all kernels of the process.

#![cfg(not(no_simulator))]

#[path = "../gpu/crash.rs"]
#[allow(dead_code, reason = "shared with the tests without faults")]
mod crash;
#[path = "../gpu/harness.rs"]
#[allow(dead_code, reason = "shared with the tests without faults")]
mod harness;
#[path = "../gpu/lost.rs"]
#[allow(dead_code, reason = "shared with the tests without faults")]
mod lost;
#[path = "../table/rig.rs"]
#[allow(dead_code, reason = "shared with the tests of the CPU")]
mod rig;
#[path = "../gpu/snapshot.rs"]
#[allow(dead_code, reason = "shared with the tests without faults")]
mod snapshot;

use warpkeep_core::Op;
use warpkeep_device::{Device, Mode, fault};
use warpkeep_gphash::gpu::FusedRows;
use warpkeep_gphash::{Geometry, Table, TableError};
use warpkeep_suites::device::{Gate, report};

use crash::{Script, explore, record};
use harness::{Harness, batch_of};
use rig::{Kind, get, heap};

/// Fault points of kernels and host, the form of the write where there are several, and the script of which a crash
/// notices the absence.
const CRASHES: [(&str, &str, Script); 19] = [
    ("drain.copy_fence", "", Script::Drain),
    ("drain.lane_sync", "", Script::Drain),
    ("drain.new_before_old", "", Script::Drain),
    ("batch.publish_after_stage", "two-phase write", Script::TwoPhase),
    ("batch.publish_after_stage", "fused write", Script::Fused),
    ("write.record_fence", "", Script::Fused),
    ("write.words_a_step_later", "published by the device", Script::FusedInChunks),
    ("write.words_a_step_later", "published by the host", Script::PublishedByHost),
    ("host.tails_before_words", "", Script::PublishedByHost),
    ("host.tail_fence", "published by the host", Script::PublishedByHost),
    ("host.tails_stored", "", Script::PublishedByHost),
    ("host.tail_fence", "from host memory", Script::FromHost),
    ("host.values_before_words", "", Script::FromHost),
    ("write.result_after_words", "", Script::Fused),
    ("record.checksum", "two-phase write", Script::TwoPhase),
    ("record.checksum", "fused write in one chunk", Script::Fused),
    ("record.checksum", "fused write in chunks", Script::FusedInChunks),
    ("host.checksum", "published by the host", Script::PublishedByHost),
    ("host.checksum", "from host memory", Script::FromHost),
];

/// Fault points whose absence cannot be noticed: the end of the launch orders the same stores, and the host waits for
/// it.
const REDUNDANT: [&str; 4] =
    ["two_phase.stage_end_fence", "two_phase.publish_end_fence", "drain.end_fence", "write.step_end_fence"];

/// Crashes a script, with this many seeds, until a check fails; returns the failure.
fn crashes(script: Script, seeds: u64) -> Option<String> {
    (0..seeds).flat_map(|seed| script.kinds().iter().map(move |&kind| (kind, seed))).find_map(
        |(kind, seed)| {
            let recorded = record(kind, script, seed);
            explore(&recorded, 8).err()
        },
    )
}

/// Puts more keys than one warp holds into a table with hardly more slots, in many schedules, until a key is lost.
fn schedules() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let heap = heap(24);
        let kind = Kind::ALL[(seed % 4) as usize];
        let table = Table::create(&heap, &kind.spec(Geometry::default(), 60)).unwrap();
        let harness = Harness::over(&device, kind, table);
        let rows = harness.puts(0..64, 1);
        let batch = batch_of(&rows);
        let mut lock = harness.engine.write_lock();
        let mut stage = lock.stage(&harness.table, &batch, 1).unwrap();
        let have_slots: Vec<bool> = (0..rows.len()).map(|index| stage.change(index).is_some()).collect();
        stage.publish().unwrap();
        let lost = rows
            .iter()
            .zip(have_slots)
            .filter(|(row, has_slot)| *has_slot && get(&harness.table, &row.key).is_none());
        match lost.count() {
            0 => None,
            lost => Some(format!("seed {seed}: {lost} keys are lost")),
        }
    })
}

/// The same with fused writes.
fn fused_schedules() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let heap = heap(24);
        let table = Table::create(&heap, &Kind::Packed.spec(Geometry::default(), 60)).unwrap();
        let harness = Harness::over(&device, Kind::Packed, table);
        harness.engine.build_index(&harness.table).unwrap();
        let keys: Vec<u64> = (0..64).collect();
        let values: Vec<u64> = (0..128).collect();
        let columns = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
        let (statuses, stream) = (device.allocate_zeroed(64).unwrap(), device.stream().unwrap());
        let rows = FusedRows {
            op: Op::Put,
            count: 64,
            keys: columns.0.ptr(),
            values: columns.1.ptr(),
            statuses: statuses.ptr(),
        };
        // SAFETY: the columns have 64 rows and are used by this call only.
        let written = unsafe { harness.engine.write_lock().write_fused(&harness.table, &rows, 1, &stream) };
        assert!(written.unwrap().is_some());
        let lost = keys.iter().filter(|key| get(&harness.table, &key.to_le_bytes()).is_none()).count();
        (lost > 0).then(|| format!("seed {seed}: {lost} keys are lost"))
    })
}

/// Puts pairs of keys with equal hashes, in many schedules, and looks them up through the device index, until a get
/// fails.
fn equal_hashes() -> Option<String> {
    (0..40).find_map(|seed| {
        let device = Device::simulated(Mode::seeded(seed)).unwrap();
        let table = Table::create(&heap(24), &Kind::EqualHashes.spec(Geometry::default(), 200)).unwrap();
        let harness = Harness::over(&device, Kind::EqualHashes, table);
        harness.engine.build_index(&harness.table).unwrap();
        let rows = harness.puts((0..32).step_by(2).chain((1..32).step_by(2)), 1);
        let mut wrong = None;
        let mut work = || {
            // Two keys with equal hashes in one batch would both fall back to the CPU.
            for rows in [&rows[..16], &rows[16..]] {
                harness.engine.write_lock().stage(&harness.table, &batch_of(rows), 1)?.publish()?;
            }
            harness.engine.get_many(&harness.table, rows.iter().map(|row| &row.key[..]), |index, found| {
                if found.map(|(_, value)| value) != Some(&rows[index].value[..]) {
                    wrong = Some(format!("key {index} has {found:?}"));
                }
            })
        };
        let done: Result<(), TableError> = work();
        done.err().map(|error| error.to_string()).or(wrong).map(|what| format!("seed {seed}: {what}"))
    })
}

/// Loses a device after each store of a drain, until a check fails; returns the failure.
fn losses() -> Option<String> {
    // The failure is returned, not printed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = std::panic::catch_unwind(|| lost::losses(lost::During::Drain));
    std::panic::set_hook(hook);
    let wrong = outcome.err()?;
    Some(wrong.downcast_ref::<String>().map_or_else(|| "a check failed".to_owned(), Clone::clone))
}

#[test]
fn the_absence_of_every_fault_point_is_noticed() {
    use Script::{Drain, FromHost, Fused, FusedInChunks, PublishedByHost, TwoPhase};
    assert_eq!(schedules(), None);
    assert_eq!(fused_schedules(), None);
    assert_eq!(equal_hashes(), None);
    for script in [TwoPhase, Drain, Fused, FusedInChunks, PublishedByHost, FromHost] {
        assert_eq!(crashes(script, 2), None, "{script:?}, with all fault points");
    }
    for point in REDUNDANT {
        let fault = fault::activate(point);
        // A failure means that a script notices the absence: then list the point in `CRASHES`.
        for script in [TwoPhase, Drain, Fused, FusedInChunks] {
            assert_eq!(crashes(script, 1), None, "without {point}");
        }
        assert!(fault.reached() > 0, "no kernel reaches {point}");
    }
    report(&format!("without {}: nothing, the end of a launch orders as much", REDUNDANT.join(", ")));
    let attempts = CRASHES.map(|(point, form, script)| (point, form, move || crashes(script, 4)));
    let gate = attempts
        .iter()
        .fold(Gate::new("the kernels"), |gate, (point, form, attempt)| gate.with(point, form, attempt));
    gate.with("slot.atomic_claim", "two-phase write", &schedules)
        .with("slot.atomic_claim", "fused write", &fused_schedules)
        .with("index.key_stored", "", &equal_hashes)
        .with("recover.finish_moves", "", &losses)
        .run();
}
