//! The simulated disk behaves like a real one: its files, its faults, and the state after a failed sync.

use std::io::ErrorKind;

use warpkeep_crashlab::{Crash, DiskCall, Exploration, Explorer, Fault, LabDisk, Trace};
use warpkeep_log::{Disk, DiskFile};

fn read(file: &dyn DiskFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    let count = file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(count, bytes.len());
    bytes
}

#[test]
fn files_are_created_written_renamed_and_removed() {
    let disk = LabDisk::new(&Trace::new());
    let file = disk.create("a").unwrap();
    assert_eq!(disk.create("a").err().unwrap().kind(), ErrorKind::AlreadyExists);
    file.write_at(b"world", 6).unwrap();
    file.write_at(b"hello", 0).unwrap();
    assert_eq!(read(&*file), b"hello\0world");
    let mut end = [9; 4];
    assert_eq!(file.read_at(&mut end, 9).unwrap(), 2, "as many as there are");
    assert_eq!(file.read_at(&mut end, u64::MAX).unwrap(), 0);
    file.allocate(4).unwrap();
    assert_eq!(file.len().unwrap(), 11, "allocating never cuts");
    file.allocate(20).unwrap();
    assert_eq!(read(&*file), b"hello\0world\0\0\0\0\0\0\0\0\0");

    disk.create("b").unwrap();
    disk.rename("a", "b").unwrap();
    disk.rename("b", "b").unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert_eq!(read(&*disk.open("b").unwrap()).len(), 20);
    assert_eq!(disk.rename("a", "c").unwrap_err().kind(), ErrorKind::NotFound);
    disk.remove("b").unwrap();
    assert_eq!(disk.remove("b").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.open("b").err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(read(&*file).len(), 20, "an open file outlives its name");
    file.write_at(b"still", 0).unwrap();
}

#[test]
fn wild_offsets_are_refused() {
    let disk = LabDisk::new(&Trace::new());
    let file = disk.create("a").unwrap();
    for offset in [1 << 40, u64::MAX] {
        assert_eq!(file.write_at(b"x", offset).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.allocate(offset).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}

#[test]
fn faults_strike_the_calls_they_name() {
    let disk = LabDisk::new(&Trace::new());
    let file = disk.create("a").unwrap();
    disk.inject(Fault::nth(DiskCall::Sync, 2, libc::EIO));
    disk.inject(Fault::after(DiskCall::Write, 1, libc::ENOSPC));
    assert!(file.sync("s").is_ok());
    assert_eq!(file.sync("s").unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(file.sync("s").is_ok());
    file.write_at(&[1; 2048], 0).unwrap();
    for _ in 0..3 {
        assert_eq!(file.write_at(&[2; 2048], 0).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
    let bytes = read(&*file);
    assert!(bytes[..1024] == [2; 1024] && bytes[1024..] == [1; 1024], "half of it was written");
    disk.heal();
    file.write_at(&[3; 4], 0).unwrap();

    disk.inject(Fault::nth(DiskCall::SyncDir, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Rename, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Remove, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Open, 1, libc::EMFILE));
    disk.inject(Fault::nth(DiskCall::List, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Len, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Read, 1, libc::EIO));
    disk.inject(Fault::nth(DiskCall::Allocate, 1, libc::ENOSPC));
    assert!(disk.sync_dir("d").is_err() && disk.sync_dir("d").is_ok());
    assert!(disk.rename("a", "b").is_err() && disk.rename("a", "b").is_ok());
    assert!(disk.remove("b").is_err() && disk.list().is_err());
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert!(disk.open("b").is_err() && disk.open("b").is_ok());
    assert!(file.len().is_err() && file.len().is_ok());
    assert!(file.read_at(&mut [0], 0).is_err() && file.read_at(&mut [0], 0).is_ok());
    assert!(file.allocate(9000).is_err() && file.len().unwrap() == 2048);
}

/// Writes 1s, fails to sync them, does something, and claims to have them.
fn after_a_failed_sync(recover: impl Fn(&dyn DiskFile)) -> Exploration {
    let trace = Trace::new();
    let disk = LabDisk::new(&trace);
    let file = disk.create("file").unwrap();
    file.allocate(1024).unwrap();
    file.sync("made").unwrap();
    disk.sync_dir("made").unwrap();
    file.write_at(&[1; 512], 0).unwrap();
    disk.inject(Fault::nth(DiskCall::Sync, 1, libc::EIO));
    assert!(file.sync("ones").is_err());
    assert_eq!(read(&*file)[..512], [1; 512], "they can still be read");
    recover(&*file);
    trace.ack(1);
    Explorer::new([Crash::PowerVolatile]).explore(&trace, |reopen| {
        if reopen.acked().is_empty() {
            return Ok(());
        }
        let bytes = read(&*reopen.disk().open("file").map_err(|error| error.to_string())?);
        if bytes[..512] == [1; 512] { Ok(()) } else { Err("the ones are lost".into()) }
    })
}

#[test]
fn sync_after_a_failed_sync_promises_nothing() {
    after_a_failed_sync(|file| file.sync("ones").unwrap()).assert_caught();
    after_a_failed_sync(|file| {
        file.write_at(&[2; 512], 512).unwrap();
        file.sync("another sector").unwrap();
    })
    .assert_caught();
}

#[test]
fn what_is_written_again_after_a_failed_sync_can_be_synced() {
    after_a_failed_sync(|file| {
        file.write_at(&[1; 512], 0).unwrap();
        file.sync("ones").unwrap();
    })
    .assert_clean();
}

#[test]
fn length_that_failed_to_sync_may_be_missing() {
    let explore = |again: bool| {
        let trace = Trace::new();
        let disk = LabDisk::new(&trace);
        let file = disk.create("file").unwrap();
        disk.sync_dir("made").unwrap();
        disk.inject(Fault::nth(DiskCall::Sync, 1, libc::EIO));
        file.write_at(&[1; 700], 0).unwrap();
        assert!(file.sync("ones").is_err());
        if again {
            file.write_at(&[1; 700], 0).unwrap();
        }
        file.sync("ones").unwrap();
        trace.ack(1);
        Explorer::new([Crash::PowerVolatile]).explore(&trace, |reopen| {
            let disk = reopen.disk();
            match disk.open("file").map(|file| read(&*file)) {
                Ok(bytes) if bytes != [1; 700] && !reopen.acked().is_empty() => {
                    Err(format!("{} bytes", bytes.len()))
                }
                _ => Ok(()),
            }
        })
    };
    explore(false).assert_caught();
    explore(true).assert_clean();
}
