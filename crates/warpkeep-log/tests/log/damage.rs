//! Bytes that no crash would leave, and bytes that one would: an error or a reported cut, never a panic and never
//! data that was not written.

use std::sync::Arc;

use warpkeep_core::Durability;
use warpkeep_log::{Log, LogError};

use crate::history::{History, MANIFESTS, STORE, create, options, recover, scan};
use crate::mem_disk::{Dice, MemDisk};

const PAGE: usize = 4096;

/// A disk with a checkpoint and several segments after it, and its history.
fn written(clean: bool) -> (MemDisk, History) {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(4);
    let mut commit = |history: &mut History, count, most| {
        for _ in 0..count {
            let lsn = history.append(&log, &mut dice, most, Durability::Power).unwrap();
            log.wait_durable(lsn).unwrap();
            history.acknowledged = lsn;
        }
    };
    commit(&mut history, 5, 1500);
    log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
    commit(&mut history, 6, 1500);
    commit(&mut history, 1, 5000);
    if clean {
        log.close().unwrap();
    }
    (disk, history)
}

fn segments(disk: &MemDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.starts_with("seg-")).collect()
}

/// The last segment with a frame, and where its last frame begins and ends.
fn last_frame(disk: &MemDisk) -> (String, usize, usize) {
    let magic = |bytes: &[u8], at: usize| bytes[at..].starts_with(b"WKFR");
    let name = segments(disk).into_iter().rfind(|name| magic(&disk.bytes(name), PAGE)).unwrap();
    let bytes = disk.bytes(&name);
    let at = (PAGE..bytes.len()).step_by(PAGE).rfind(|&at| magic(&bytes, at)).unwrap();
    let len = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap()) as usize;
    (name, at, (at + 64 + len).next_multiple_of(PAGE))
}

/// Opens a damaged disk. Returns whether the damage went unnoticed because nothing was lost.
fn open_damaged(disk: &MemDisk, history: &History, what: &str) -> bool {
    let recovery = match recover(disk) {
        Ok(recovery) => recovery,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    if recovery.report().damaged_manifest.is_some() {
        // The other copy is complete.
        history.clone().check(&recovery).unwrap();
        return false;
    }
    let lost = recovery.last_lsn() < history.acknowledged;
    assert!(!lost || recovery.report().torn_tail.is_some(), "{what}: something was lost in silence");
    let mut prefix = history.clone();
    prefix.acknowledged = warpkeep_core::Lsn::ZERO;
    match prefix.check(&recovery) {
        Ok(()) => !lost,
        // Inside a checkpoint damage shows when it is read.
        Err(why) => {
            assert!(why.contains("ckpt-") && why.contains("damaged"), "{what}: {why}");
            false
        }
    }
}

#[test]
fn flipped_bits_are_noticed() {
    for clean in [false, true] {
        let (disk, history) = written(clean);
        assert!(open_damaged(&disk, &history, "nothing"), "the disk is good to begin with");
        for name in disk.names() {
            let good = disk.bytes(&name);
            let mut unnoticed = 0;
            let mut flips = 0;
            for at in (0..good.len()).step_by(37) {
                let mut bytes = good.clone();
                bytes[at] ^= 1 << (at % 8);
                disk.set_bytes(&name, bytes);
                unnoticed += u64::from(open_damaged(&disk, &history, &format!("{name} byte {at}")));
                flips += 1;
            }
            disk.set_bytes(&name, good);
            // Unused bytes, and bytes after the end of a frame, may change without loss; first pages may not.
            assert!(!name.starts_with("MANIFEST") || unnoticed == 0, "{name}: {unnoticed} of {flips}");
            assert!(!name.starts_with("ckpt") || unnoticed <= 2, "{name}: {unnoticed} of {flips}");
            assert!(unnoticed < flips, "{name}");
        }
    }
}

#[test]
fn cut_files_are_noticed() {
    for clean in [false, true] {
        let (disk, history) = written(clean);
        for name in disk.names() {
            let good = disk.bytes(&name);
            for len in (0..good.len()).step_by(512) {
                disk.set_bytes(&name, good[..len].to_vec());
                let unnoticed = open_damaged(&disk, &history, &format!("{name} cut to {len}"));
                assert!(!unnoticed || name.starts_with("seg-"), "{name} cut to {len} went unnoticed");
            }
            disk.set_bytes(&name, good);
        }
    }
}

#[test]
fn missing_files_are_noticed() {
    let (disk, history) = written(true);
    for name in disk.names() {
        let fork = disk.fork();
        fork.delete(&name);
        let spare = segments(&disk).last() == Some(&name) || MANIFESTS.contains(&name.as_str());
        assert!(spare || !open_damaged(&fork, &history, &name), "{name} is not missed");
    }
    let fork = disk.fork();
    MANIFESTS.into_iter().for_each(|copy| fork.delete(copy));
    assert!(matches!(recover(&fork), Err(LogError::ManifestMissing { .. })));
    let middle = &segments(&disk)[1];
    let fork = disk.fork();
    fork.delete(middle);
    assert!(matches!(recover(&fork), Err(LogError::Corrupt { .. })));
    let fork = disk.fork();
    fork.delete(&segments(&disk)[0]);
    assert!(matches!(recover(&fork), Err(LogError::SegmentMissing { .. })));
}

#[test]
fn a_torn_tail_is_cut_wherever_it_is_torn() {
    let (disk, history) = written(false);
    let (name, begin, end) = last_frame(&disk);
    let good = disk.bytes(&name);
    let before_last = history.lsns()[history.lsns().len() - 2];
    assert!(end - begin > PAGE, "the frame must be worth tearing");
    let sectors: Vec<usize> = (begin..end).step_by(512).collect();
    let mut dice = Dice::new(8);
    for round in 0..sectors.len() * 3 {
        let mut bytes = good.clone();
        let lost: Vec<usize> = match round / sectors.len() {
            // A prefix reached the disk; a suffix; some.
            0 => sectors[round..].to_vec(),
            1 => sectors[..=round - sectors.len()].to_vec(),
            _ => sectors.iter().copied().filter(|_| dice.coin()).collect(),
        };
        lost.iter().for_each(|&at| bytes[at..at + 512].fill(0));
        let whole = bytes == good;
        disk.set_bytes(&name, bytes.clone());
        let recovery = recover(&disk).unwrap();
        let mut found = history.clone();
        found.acknowledged = if whole { history.acknowledged } else { before_last };
        found.check(&recovery).unwrap();
        if whole {
            continue;
        }
        assert_eq!(recovery.last_lsn(), before_last);
        let all_zero = bytes[begin..end].iter().all(|&byte| byte == 0);
        assert_eq!(recovery.report().torn_tail.map(|torn| torn.offset), (!all_zero).then_some(begin as u64));

        // The next opening writes elsewhere, and the one after sees an old cut and goes on.
        let next = disk.fork();
        let log = recover(&next).unwrap().start(2, false).unwrap();
        let lsn = found.append(&log, &mut dice, 50, Durability::Power).unwrap();
        log.wait_durable(lsn).unwrap();
        found.acknowledged = lsn;
        drop(log);
        let recovery = recover(&next).unwrap();
        assert_eq!(recovery.report().torn_tail, None);
        assert_eq!(recovery.report().old_torn_tails, u64::from(!all_zero));
        found.check(&recovery).unwrap();
    }
}

#[test]
fn damage_before_good_frames_is_corruption() {
    let (disk, history) = written(false);
    let all = segments(&disk);
    let first = &all[0];
    let mut bytes = disk.bytes(first);
    let frame = (PAGE..bytes.len()).step_by(PAGE).rfind(|&at| bytes[at..].starts_with(b"WKFR")).unwrap();
    bytes[frame + 100] ^= 1;
    disk.set_bytes(first, bytes);
    match recover(&disk) {
        Err(LogError::Corrupt { file, offset, after, .. }) => {
            assert_eq!((&file, offset), (first, frame as u64));
            assert!(history.lsns().contains(&after));
        }
        other => panic!("expected corruption, got {other:?}"),
    }
}

/// A value may look like anything, a frame included.
#[test]
fn a_value_that_looks_like_a_frame_is_only_a_value() {
    let (disk, history) = written(false);
    let (name, begin, end) = last_frame(&disk);
    assert!(begin + 2 * PAGE <= end, "the frame must be worth tearing");
    // Frames that would fit into this segment and come later than everything here.
    let fake = |store| {
        let other = MemDisk::default();
        let log = Log::create(Arc::new(other.clone()), store, 5, options()).unwrap();
        let mut dice = Dice::new(1);
        while !segments(&other).contains(&name) || !other.bytes(&name)[PAGE..].starts_with(b"WKFR") {
            let lsn = History::default().append(&log, &mut dice, 50, Durability::Power).unwrap();
            log.wait_durable(lsn).unwrap();
        }
        other.bytes(&name)[PAGE..2 * PAGE].to_vec()
    };
    // The torn remains of a frame: its first page is gone, the page after it is the fake.
    let torn = |fake: Vec<u8>| {
        let fork = disk.fork();
        let mut bytes = disk.bytes(&name);
        bytes[begin..begin + PAGE].fill(0);
        bytes[begin + PAGE..begin + 2 * PAGE].copy_from_slice(&fake);
        fork.set_bytes(&name, bytes);
        fork
    };
    let recovery = recover(&torn(fake([9; 16]))).unwrap();
    assert!(recovery.report().torn_tail.is_some());
    let mut prefix = history.clone();
    prefix.acknowledged = warpkeep_core::Lsn::ZERO;
    prefix.check(&recovery).unwrap();
    // The same bytes with this store's id are a valid frame: making one requires the id.
    assert!(matches!(recover(&torn(fake(STORE))), Err(LogError::Corrupt { .. })));
}

/// Puts a new checksum on a first page that was changed on purpose.
fn reseal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[..PAGE - 4]);
    bytes[PAGE - 4..PAGE].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn newer_formats_and_other_stores_are_told_apart_from_damage() {
    let (disk, _) = written(true);
    for name in disk.names() {
        let good = disk.bytes(&name);
        let mut newer = good.clone();
        newer[8] = 2;
        reseal(&mut newer);
        disk.set_bytes(&name, newer);
        let error = recover(&disk).unwrap_err();
        assert!(matches!(&error, LogError::NewerVersion { file, version: 2 } if *file == name), "{error}");

        let mut foreign = good.clone();
        foreign[16..32].copy_from_slice(&[8; 16]);
        reseal(&mut foreign);
        disk.set_bytes(&name, foreign);
        let error = recover(&disk).unwrap_err();
        assert!(matches!(error, LogError::ForeignStore { .. }), "{error}");

        disk.set_bytes(&name, b"something else altogether".repeat(400));
        if MANIFESTS.contains(&name.as_str()) {
            assert!(recover(&disk).unwrap().report().damaged_manifest.is_some());
            disk.set_bytes(&name, good);
            continue;
        }
        let error = recover(&disk).unwrap_err();
        let typed = matches!(
            error,
            LogError::ForeignFile { .. }
                | LogError::ManifestDamaged { .. }
                | LogError::CheckpointDamaged { .. }
        );
        assert!(typed, "{error}");
        disk.set_bytes(&name, good);
    }
    let names = segments(&disk);
    let fork = disk.fork();
    fork.set_bytes(&names[0], disk.bytes(&names[1]));
    assert!(matches!(recover(&fork), Err(LogError::ForeignFile { .. })));
}

#[test]
fn an_old_manifest_does_not_pass() {
    let disk = MemDisk::default();
    let log = create(&disk);
    let mut history = History::default();
    let mut dice = Dice::new(1);
    history.append(&log, &mut dice, 100, Durability::Process).unwrap();
    log.close().unwrap();
    let closed = MANIFESTS.map(|copy| disk.bytes(copy));
    let log = recover(&disk).unwrap().start(2, false).unwrap();
    history.append(&log, &mut dice, 100, Durability::Process).unwrap();
    log.flush().unwrap();
    drop(log);
    MANIFESTS.into_iter().zip(closed).for_each(|(copy, bytes)| disk.set_bytes(copy, bytes));
    let error = recover(&disk).unwrap_err();
    assert!(matches!(error, LogError::ManifestDamaged { .. }), "{error}");
}

#[test]
fn a_damaged_length_is_not_believed() {
    let (disk, history) = written(true);
    for name in disk.names() {
        let good = disk.bytes(&name);
        for at in (PAGE..good.len()).step_by(64) {
            if !good[at..].starts_with(b"WK") {
                continue;
            }
            for len in [u64::MAX, u64::MAX - 63, 1 << 40, good.len() as u64, 0] {
                let mut bytes = good.clone();
                bytes[at + 8..at + 16].copy_from_slice(&len.to_le_bytes());
                if bytes == good {
                    continue;
                }
                disk.set_bytes(&name, bytes);
                assert!(!open_damaged(&disk, &history, &format!("{name} {at} {len}")));
            }
        }
        disk.set_bytes(&name, good);
    }
}
