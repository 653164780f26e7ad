//! The two copies of the manifest, and rebuilding a manifest.

use std::path::Path;
use std::sync::Arc;

use warpkeep_core::Durability;
use warpkeep_log::{ImageNote, Log, LogError, RepairedManifest, repair_manifest};

use crate::history::{History, MANIFESTS, STORE, create, recover, scan};
use crate::mem_disk::{Dice, MemDisk};

/// A log with a checkpoint and records after it, closed or left.
fn written(clean: bool) -> (MemDisk, History) {
    let disk = MemDisk::default();
    let log = create(&disk);
    let (mut history, mut dice) = (History::default(), Dice::new(11));
    for number in 0..12 {
        if number == 5 {
            log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
        }
        let lsn = history.append(&log, &mut dice, 1500, Durability::Power).unwrap();
        log.wait_durable(lsn).unwrap();
        history.acknowledged = lsn;
    }
    if clean {
        log.close().unwrap();
    }
    (disk, history)
}

fn flip(disk: &MemDisk, name: &str, at: usize) {
    let mut bytes = disk.bytes(name);
    bytes[at] ^= 1 << (at % 8);
    disk.set_bytes(name, bytes);
}

fn repair(disk: &MemDisk) -> Result<Option<RepairedManifest>, LogError> {
    repair_manifest(Arc::new(disk.clone()), None, None)
}

#[test]
fn one_damaged_copy_is_told_and_made_anew() {
    for clean in [false, true] {
        let (disk, history) = written(clean);
        for name in MANIFESTS {
            for at in (0..4096).step_by(61) {
                let disk = disk.fork();
                flip(&disk, name, at);
                let recovery = recover(&disk).unwrap();
                history.clone().check(&recovery).unwrap();
                assert_eq!(recovery.closed_cleanly(), clean);
                let told = recovery.report().damaged_manifest.clone().unwrap();
                assert!(told.contains(&format!("of {name}, ")), "{told}");
                drop(recovery.start(2, false).unwrap());
                assert_eq!(disk.bytes(MANIFESTS[0]), disk.bytes(MANIFESTS[1]), "both are whole again");
                assert_eq!(recover(&disk).unwrap().report().damaged_manifest, None);
            }
        }
    }
}

/// An older program writes the first copy only, and a log of its own has only that.
#[test]
fn the_newer_copy_counts() {
    let (disk, history) = written(false);
    let old = disk.bytes("MANIFEST.2");
    drop(recover(&disk).unwrap().start(2, false).unwrap());
    disk.set_bytes("MANIFEST.2", old);
    let recovery = recover(&disk).unwrap();
    assert_eq!((recovery.epoch(), &recovery.report().damaged_manifest), (2, &None));
    history.clone().check(&recovery).unwrap();
    disk.delete("MANIFEST.2");
    let recovery = recover(&disk).unwrap();
    assert_eq!(recovery.epoch(), 2);
    assert!(recovery.report().foreign_files.is_empty());
    drop(recovery.start(3, false).unwrap());
    assert_eq!(disk.bytes(MANIFESTS[0]), disk.bytes(MANIFESTS[1]));
}

#[test]
fn a_note_of_the_image_stays_until_another_is_made() {
    let disk = MemDisk::default();
    drop(create(&disk));
    let shared: Arc<MemDisk> = Arc::new(disk.clone());
    assert_eq!(Log::image(shared.clone()).unwrap(), None);
    let note = ImageNote::new(Path::new("/dev/shm/image"), [5; 16], false).unwrap();
    let mut recovery = recover(&disk).unwrap();
    recovery.note_image(Some(note.clone()));
    let log = recovery.start(2, false).unwrap();
    log.checkpoint(|_| Ok::<(), LogError>(())).unwrap();
    let copy = MemDisk::default();
    log.copy_to(Arc::new(copy.clone()), &mut |_, _| ()).unwrap();
    log.close().unwrap();
    assert_eq!(Log::image(shared).unwrap(), Some(note.clone()));
    assert_eq!(recover(&disk).unwrap().image(), Some(&note));
    assert_eq!(recover(&copy).unwrap().image(), None, "a copy has no image");
    drop(recover(&disk).unwrap().start(3, false).unwrap());
    assert_eq!(recover(&disk).unwrap().image(), Some(&note));
}

#[test]
fn a_manifest_is_made_again_from_what_is_there() {
    for clean in [false, true] {
        for remove in [false, true] {
            let (disk, mut history) = written(clean);
            for name in MANIFESTS {
                if remove { disk.delete(name) } else { flip(&disk, name, 50) }
            }
            let error = recover(&disk).unwrap_err().to_string();
            assert!(error.contains("warpkeep repair STORE --manifest"), "{error}");
            let repaired = repair(&disk).unwrap().expect("it was needed");
            let recovery = recover(&disk).unwrap();
            history.check(&recovery).unwrap();
            assert_eq!((repaired.epoch, repaired.last_lsn), (1, history.last()));
            assert_eq!(repaired.checkpoint, recovery.checkpoint());
            assert!(!recovery.closed_cleanly(), "how it ended is not known");
            assert_eq!(recovery.store_id(), STORE);
            // A valid one is left unchanged.
            let bytes = disk.bytes("MANIFEST");
            assert_eq!(repair(&disk).unwrap(), None);
            assert_eq!(disk.bytes("MANIFEST"), bytes);
            // The log goes on from there.
            let log = recovery.start(2, false).unwrap();
            let lsn = history.append(&log, &mut Dice::new(1), 100, Durability::Power).unwrap();
            log.wait_durable(lsn).unwrap();
            history.acknowledged = lsn;
            drop(log);
            history.check(&recover(&disk).unwrap()).unwrap();
        }
    }
}

/// Frames that wait for a checkpoint do not count without it, but their epoch is not used again.
#[test]
fn frames_that_do_not_count_are_not_made_to_count() {
    let (disk, history) = written(false);
    let log = recover(&disk).unwrap().start(7, true).unwrap();
    let lsn = history.clone().append(&log, &mut Dice::new(1), 100, Durability::Process).unwrap();
    log.wait_durable(lsn).unwrap();
    drop(log);
    MANIFESTS.into_iter().for_each(|name| disk.delete(name));
    let repaired = repair(&disk).unwrap().expect("it was needed");
    assert_eq!((repaired.epoch, repaired.last_lsn), (7, history.last()));
    history.clone().check(&recover(&disk).unwrap()).unwrap();
}

/// With any file missing or damaged, either a complete manifest is made or none. Only the loss of the last segment
/// cannot be detected: the rest is a prefix, as after a crash.
#[test]
fn a_manifest_is_not_made_from_half_a_log() {
    let (disk, history) = written(false);
    let log = recover(&disk).unwrap().start(2, false).unwrap();
    drop(log);
    MANIFESTS.into_iter().for_each(|name| disk.delete(name));
    let has_frames =
        |name: &&String| disk.bytes(name).get(4096..).is_some_and(|bytes| bytes.starts_with(b"WKFR"));
    let names = disk.names();
    let last = names.iter().filter(has_frames).max().expect("a segment with frames").clone();
    let (mut refused, mut made) = (0, 0);
    let mut check = |disk: &MemDisk, what: String| match repair(disk) {
        Err(_) => refused += 1,
        Ok(None) => panic!("{what}: it is needed"),
        Ok(Some(repaired)) => {
            let recovery = recover(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            let torn = recovery.report().torn_tail.is_some() || what.ends_with(&format!("without {last}"));
            assert!(torn || repaired.last_lsn == history.last(), "{what}: lost in silence");
            let mut prefix = history.clone();
            if torn {
                prefix.acknowledged = warpkeep_core::Lsn::ZERO;
            }
            prefix.check(&recovery).unwrap_or_else(|error| panic!("{what}: {error}"));
            made += 1;
        }
    };
    for name in names.clone() {
        let fork = disk.fork();
        fork.delete(&name);
        check(&fork, format!("without {name}"));
        for at in (0..disk.bytes(&name).len()).step_by(131) {
            let fork = disk.fork();
            flip(&fork, &name, at);
            check(&fork, format!("byte {at} of {name}"));
        }
    }
    use std::io::Write as _;
    let _ = writeln!(
        std::io::stdout().lock(),
        "manifests made again beside {} damages: {refused} refused, {made} made",
        refused + made
    );
    assert!(refused > 100 && made > 10, "{refused} refused, {made} made");
    assert!(
        matches!(repair(&MemDisk::default()), Ok(None)),
        "where there is no log there is nothing to make"
    );
    let stray = MemDisk::default();
    stray.set_bytes("MANIFEST", vec![0; 4096]);
    assert!(repair(&stray).is_err(), "nothing says what the store had");
}
