//! The mutation gate on a tiny protocol: it catches every needed site, and flags redundant ones.

use warpkeep_crashlab::{
    Crash, Explorer, LabDisk, LabMemory, MemoryModel, Recorder, Reopen, Site, SiteKind, Trace, mutation_gate,
};
use warpkeep_image::Persist;
use warpkeep_log::{Disk, DiskFile};

const VALUE: u64 = 0x40;
const VERSION: u64 = 0x80;

/// A value and its version, in two lines: the value first.
fn put(memory: &LabMemory, recorder: &Recorder, version: u64, redundant: bool) {
    let flush = |site, offset| recorder.flush(site, memory.word(offset).as_ptr().cast(), 8);
    let slot = VALUE + version % 2 * 256;
    recorder.store(memory.word(slot), version * 10);
    flush("value", slot);
    recorder.fence("value");
    recorder.store(memory.word(VERSION), version);
    flush("version", VERSION);
    if redundant {
        flush("version again", VERSION);
    }
    recorder.fence("version");
}

fn verify(memory: &LabMemory, acked: &[u64]) -> Result<u64, String> {
    let version = memory.load(VERSION);
    let value = memory.load(VALUE + version % 2 * 256);
    match acked.last() {
        Some(&last) if version < last => Err(format!("version {last} is lost, {version} is there")),
        _ if value != version * 10 => Err(format!("version {version} has value {value}")),
        _ => Ok(version),
    }
}

fn scenario(redundant: bool) -> impl Fn(&Trace) -> LabMemory {
    move |trace| {
        let memory = LabMemory::new(trace, 4096, 4096);
        for version in 1..=3 {
            put(&memory, &memory.recorder(), version, redundant);
            trace.ack(version);
        }
        memory
    }
}

fn explorer() -> Explorer {
    Explorer::new([Crash::Process, Crash::PowerPersistent(MemoryModel::X86Lines)])
}

fn check(_: &LabMemory, reopen: &Reopen<'_>) -> Result<(), String> {
    reopen.memory().map_or(Ok(()), |memory| verify(&memory, reopen.acked()).map(|_| ()))
}

#[test]
fn every_site_of_a_tight_protocol_is_caught() {
    let gate = mutation_gate(&explorer(), scenario(false), check);
    gate.assert_all_caught();
    assert_eq!(gate.to_string(), "4 of 4 sites caught");
}

#[test]
fn redundant_site_is_named() {
    let gate = mutation_gate(&explorer(), scenario(true), check);
    // Either flush of the version alone is enough, so both are reported: one of them can go.
    let site = |name| Site { name, kind: SiteKind::Flush };
    assert_eq!(gate.missed, [site("version"), site("version again")]);
    assert_eq!(gate.to_string(), "3 of 5 sites caught; not caught: flush `version`, flush `version again`");
    assert!(std::panic::catch_unwind(|| gate.assert_all_caught()).is_err());
}

#[test]
fn broken_protocol_is_reported_as_such() {
    let gate = mutation_gate(&explorer(), scenario(false), |_, reopen| match reopen.acked() {
        [] => Ok(()),
        _ => Err("always".into()),
    });
    assert!(gate.to_string().starts_with("nothing was dropped, and still"), "{gate}");
    assert!(std::panic::catch_unwind(|| gate.assert_all_caught()).is_err());
}

/// Rolls forward: copies the log's newest record into a fresh or an old memory, then works on, with the log
/// emptied. If it emptied the log before the memory is durable, the records are lost.
fn recover_and_work_on(reopen: &Reopen<'_>) -> Result<(), String> {
    let Some(memory) = reopen.memory() else { return Ok(()) };
    let (recorder, disk) = (memory.recorder(), reopen.disk());
    let Ok(file) = disk.open("log") else {
        return if reopen.acked().is_empty() { Ok(()) } else { Err("the log is gone".into()) };
    };
    // The file is there; whether its name is durable only the dead process knew.
    disk.sync_dir("found").map_err(|error| error.to_string())?;
    let logged = read(&*file);
    if logged > memory.load(VALUE) {
        recorder.store(memory.word(VALUE), logged);
        recorder.flush("redo", memory.word(VALUE).as_ptr().cast(), 8);
        recorder.fence("redo");
    }
    let wanted = reopen.acked().last().copied().unwrap_or(0);
    if memory.load(VALUE) < wanted {
        return Err(format!("{wanted} is lost, {} is there", memory.load(VALUE)));
    }
    file.write_at(&[0; 8], 0).map_err(|error| error.to_string())?;
    file.sync("log emptied").map_err(|error| error.to_string())?;
    let next = memory.load(VALUE) + 1;
    if next < 6 {
        file.write_at(&next.to_le_bytes(), 512).map_err(|error| error.to_string())?;
        file.sync("record after recovery").map_err(|error| error.to_string())?;
        reopen.ack(next);
    }
    Ok(())
}

/// The newest record of two sectors.
fn read(file: &dyn DiskFile) -> u64 {
    let mut newest = 0;
    for offset in [0, 512] {
        let mut word = [0; 8];
        if file.read_at(&mut word, offset).is_ok_and(|count| count == 8) {
            newest = newest.max(u64::from_le_bytes(word));
        }
    }
    newest
}

#[test]
fn sites_of_recovery_are_caught_by_crashing_what_comes_after_it() {
    let gate = mutation_gate(
        &explorer().per_recovery(64),
        |trace| {
            let (memory, disk) = (LabMemory::new(trace, 4096, 4096), LabDisk::new(trace));
            let file = disk.create("log").unwrap();
            file.allocate(1024).unwrap();
            file.sync("made").unwrap();
            disk.sync_dir("made").unwrap();
            for value in 1..=3u64 {
                file.write_at(&value.to_le_bytes(), 0).unwrap();
                file.sync("record").unwrap();
                trace.ack(value);
            }
            memory
        },
        |_, reopen| recover_and_work_on(reopen),
    );
    gate.baseline.assert_clean();
    let caught = |name, kind| gate.caught.contains(&Site { name, kind });
    assert!(caught("redo", SiteKind::Flush) && caught("redo", SiteKind::Fence), "{gate}");
    assert!(caught("record", SiteKind::FileSync) && caught("made", SiteKind::DirSync), "{gate}");
    assert!(caught("record after recovery", SiteKind::FileSync), "{gate}");
    assert!(caught("found", SiteKind::DirSync), "{gate}");
    // Zeros that are missing leave an old record, which redo passes over: truly redundant here. So is the sync of
    // the empty file, which the first record's sync covers.
    let missed = |name| Site { name, kind: SiteKind::FileSync };
    assert_eq!(gate.missed, [missed("log emptied"), missed("made")], "{gate}");
}
