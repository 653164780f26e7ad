//! A directory of the real operating system.

use std::sync::Arc;

use warpkeep_core::Durability;
use warpkeep_log::{Log, LogError, LogOptions, OsDisk, Recovery};

use crate::history::{History, STORE, scan};
use crate::mem_disk::Dice;

#[test]
fn one_opener_at_a_time() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a/new/place");
    let disk = OsDisk::open(&path).unwrap();
    match OsDisk::open(&path) {
        Err(LogError::Held { pid, directory }) => {
            assert_eq!(pid, Some(std::process::id()));
            assert_eq!(directory, path.display().to_string());
        }
        other => panic!("expected to be held off, got {other:?}"),
    }
    drop(disk);
    OsDisk::open(&path).unwrap();
}

#[test]
fn a_log_with_its_own_thread_goes_round() {
    let scratch = tempfile::tempdir().unwrap();
    let open = || Arc::new(OsDisk::open(scratch.path()).unwrap());
    let options = LogOptions { segment_bytes: 64 << 10, ..LogOptions::default() };
    let mut history = History::default();
    let mut dice = Dice::new(1);
    let mut log = Log::create(open(), STORE, 1, options.clone()).unwrap();
    for epoch in 2..5 {
        for round in 0..60 {
            log.back_pressure().unwrap();
            let lsn = history.append(&log, &mut dice, 4000, Durability::Process).unwrap();
            if round == 30 {
                log.checkpoint(|writer| scan(&history.items, writer)).unwrap();
                assert!(log.durable_lsn() >= lsn);
            }
        }
        // No caller waits for these: the log's thread writes them all the same.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while log.durable_lsn() < history.last() {
            assert!(std::time::Instant::now() < deadline, "nothing is written behind");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        history.acknowledged = history.last();
        if epoch == 3 {
            log.close().unwrap();
        } else {
            drop(log);
        }
        let recovery = Recovery::open(open(), options.clone()).unwrap();
        assert_eq!(recovery.closed_cleanly(), epoch == 3);
        history.check(&recovery).unwrap();
        log = recovery.start(epoch, false).unwrap();
    }
}

#[test]
fn a_path_that_is_a_file_is_an_error() {
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let error = OsDisk::open(scratch.path()).unwrap_err();
    assert!(matches!(error, LogError::Io { .. }), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("closed");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere; then there is nothing to test here.
    if std::fs::write(path.join("probe"), b"").is_err() {
        let error = OsDisk::open(&path).unwrap_err();
        assert!(matches!(error, LogError::NotWritable { .. }), "{error}");
        assert!(error.to_string().contains("writable"), "{error}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
