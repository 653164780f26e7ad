//! The log of a store that is written to for long stays about as large as its items.

use std::path::Path;
use std::time::{Duration, Instant};

use warpkeep::engine::{ImageFile, LogPlace};
use warpkeep::{CheckpointOptions, Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_image::{Coherent, HeapOptions};
use warpkeep_log::{LogOptions, OsDisk};

const ROWS: u64 = 1000;
const SEGMENT: u64 = 128 << 10;
const CHECKPOINTS: CheckpointOptions =
    CheckpointOptions { automatic: true, min_log_bytes: 512 << 10, live_share: 1.0, reserve: true };

fn log_options(background: bool) -> LogOptions {
    LogOptions { segment_bytes: SEGMENT, background, ..LogOptions::default() }
}

/// Bytes of all files in a directory. Those that are removed meanwhile do not count.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// A store without threads.
fn open(directory: &Path) -> Store {
    // Tests here lose the image on purpose.
    let place = ImageFile { abandon: true, ..ImageFile::new(directory.join("image"), Coherent) };
    let log = LogPlace::new(OsDisk::open(directory.join("log")).expect("a log"), log_options(false));
    Store::open_in(&place, Some(log), HeapOptions::default()).expect("a store")
}

fn rows() -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(100).expect("a length")).capacity(ROWS)
}

/// Updates every row once.
fn update(store: &Store, round: u64) {
    let table = store.table("rows").expect("a table");
    let mut batch = table.batch();
    for row in 0..ROWS {
        batch.put(row, &[(row ^ round) as u8; 100]).expect("it fits");
    }
    assert_eq!(table.run(&batch, Durability::Process).expect("written").first_error(), None);
}

fn check(store: &Store, round: u64) {
    let table = store.table("rows").expect("a table");
    for row in 0..ROWS {
        assert_eq!(table.get(row).expect("read"), Some(vec![(row ^ round) as u8; 100]), "row {row}");
    }
}

#[test]
fn the_log_stays_as_large_as_the_policy_says() {
    for (checkpoints, bounded) in [(CHECKPOINTS, true), (CheckpointOptions::OFF, false)] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = open(directory.path());
        store.create_table("rows", rows()).expect("a table");
        let rounds = 100;
        // The tolerated log, the segment in use, the next one, the additions of one round; two checkpoints; the
        // reserve.
        let bound = CHECKPOINTS.min_log_bytes + 4 * SEGMENT + 2 * 200 * ROWS + (1 << 20);
        let mut largest = 0;
        for round in 0..rounds {
            update(&store, round);
            store.flush().expect("flushed");
            store.maintain(64, &checkpoints).expect("maintained");
            largest = largest.max(bytes_in(&directory.path().join("log")));
        }
        assert_eq!(largest <= bound, bounded, "{largest} of {bound} bytes");
        let status = store.status().log.expect("a log");
        assert_eq!(status.checkpoints > 10, bounded, "{status:?}");
        assert_eq!(status.since_checkpoint <= CHECKPOINTS.min_log_bytes + 200 * ROWS, bounded, "{status:?}");
        drop(store);
        std::fs::remove_file(directory.path().join("image")).expect("lost");
        check(&open(directory.path()), rounds - 1);
    }
}

/// How long the log is, is known again after opening.
#[test]
fn an_opening_counts_the_log_that_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let since = |store: &Store| store.status().log.expect("a log").since_checkpoint;
    let store = open(directory.path());
    store.create_table("rows", rows()).expect("a table");
    for round in 0..20 {
        update(&store, round);
        store.flush().expect("flushed");
    }
    let before = since(&store);
    assert!(before > 20 * 100 * ROWS, "{before} bytes");
    store.close().expect("closed");
    let store = open(directory.path());
    assert_eq!(since(&store), before);
    store.maintain(64, &CHECKPOINTS).expect("maintained");
    assert_eq!(since(&store), 0);
    update(&store, 20);
    store.flush().expect("flushed");
    let before = since(&store);
    store.close().expect("closed");
    // The segment begins before the checkpoint; earlier records do not count.
    assert_eq!(since(&open(directory.path())), before);
}

#[test]
fn a_store_takes_checkpoints_by_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = || StoreOptions {
        log: log_options(true),
        checkpoints: CHECKPOINTS,
        abandon_image: true,
        ..StoreOptions::default()
    };
    let store = Store::open_with(directory.path(), options()).expect("a store");
    store.create_table("rows", rows()).expect("a table");
    let begun = Instant::now();
    let mut round = 0;
    while store.status().log.expect("a log").checkpoints < 3 {
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", store.status());
        update(&store, round);
        round += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = store.status().log.expect("a log");
    assert_eq!((status.failed_checkpoints, status.checkpoint_error), (0, None));
    assert!(status.last_checkpoint.is_some());
    store.flush().expect("flushed");
    drop(store);
    std::fs::remove_file(directory.path().join("image")).expect("lost");
    check(&Store::open_with(directory.path(), options()).expect("rebuilt"), round - 1);
}

#[test]
fn a_checkpoint_that_fails_is_told_and_tried_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let options =
        StoreOptions { log: log_options(true), checkpoints: CHECKPOINTS, ..StoreOptions::default() };
    // A directory lies where the first checkpoint is to be written.
    let in_the_way = directory.path().join("log").join("ckpt-0000000000000001.wkc.tmp");
    std::fs::create_dir_all(&in_the_way).expect("a directory");
    let store = Store::open_with(directory.path(), options).expect("a store");
    store.create_table("rows", rows()).expect("a table");
    let begun = Instant::now();
    let wait = |until: &dyn Fn(&warpkeep::LogStatus) -> bool| {
        for round in 0.. {
            let status = store.status().log.expect("a log");
            if until(&status) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(300), "{status:?}");
            update(&store, round);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|status| status.failed_checkpoints > 0);
    let error = store.status().log.expect("a log").checkpoint_error.expect("it failed");
    assert!(error.contains("ckpt-0000000000000001.wkc.tmp"), "{error}");
    std::fs::remove_dir(&in_the_way).expect("removed");
    wait(&|status| status.checkpoints > 0 && status.checkpoint_error.is_none());
}
