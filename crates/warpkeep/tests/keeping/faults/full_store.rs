//! A store whose log disk is full: a checkpoint frees space, the reserve lets it open, and reading needs no space.

use std::path::{Path, PathBuf};

use warpkeep::{
    CheckpointOptions, Durability, Error, KeySpec, Origin, Store, StoreOptions, TableOptions, ValueSpec,
};
use warpkeep_log::LogOptions;

use crate::common::{Mounted, assert_remedy};

const ROWS: u64 = 500;
const SEGMENT: u64 = 256 << 10;

/// A store whose log has a small file system of its own.
struct Rig {
    mounted: Mounted,
    elsewhere: tempfile::TempDir,
}

impl Rig {
    fn new(for_what: &str) -> Option<Rig> {
        let mounted = Mounted::tmpfs(4 << 20, for_what)?;
        Some(Rig { mounted, elsewhere: tempfile::tempdir().expect("a directory") })
    }

    fn image(&self) -> PathBuf {
        self.elsewhere.path().join("image")
    }

    fn open(&self, checkpoints: CheckpointOptions) -> Result<Store, Error> {
        let options = StoreOptions {
            image: Some(self.image()),
            log: LogOptions { segment_bytes: SEGMENT, ..LogOptions::default() },
            checkpoints,
            // Tests here lose the image on purpose.
            abandon_image: true,
            ..StoreOptions::default()
        };
        Store::open_with(self.mounted.path(), options)
    }

    /// Takes all that is free.
    fn fill(&self) -> Filler {
        let path = self.mounted.path().join("filler");
        // The system writes as much as fits, and then reports that there is no more space.
        let _ = std::fs::write(&path, vec![1; 8 << 20]);
        Filler(path)
    }
}

struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Space is set aside, but only requested checkpoints are taken.
const BY_HAND: CheckpointOptions =
    CheckpointOptions { automatic: false, min_log_bytes: u64::MAX, live_share: 1.0, reserve: true };

fn create(store: &Store) {
    let rows = TableOptions::new(KeySpec::U64, ValueSpec::fixed(100).expect("a length")).capacity(ROWS);
    store.create_table("rows", rows).expect("a table");
}

/// Updates rows until a write is refused; gives the last round that was written whole.
fn update_until_refused(store: &Store) -> (u64, Error) {
    let table = store.table("rows").expect("a table");
    let mut written = 0;
    for round in 1..100_000 {
        for row in 0..ROWS {
            if let Err(error) = table.put(row, &[round as u8; 100], Durability::Power) {
                return (written, error);
            }
        }
        written = round;
    }
    panic!("the disk is never full");
}

fn set_all(store: &Store, value: u8) {
    let table = store.table("rows").expect("a table");
    for row in 0..ROWS {
        table.put(row, &[value; 100], Durability::Power).expect("there is room");
    }
}

fn check(store: &Store, value: u8) {
    let table = store.table("rows").expect("a table");
    for row in 0..ROWS {
        assert_eq!(table.get(row).expect("read"), Some(vec![value; 100]), "row {row}");
    }
    let mut seen = 0;
    let each = |_: warpkeep::Item<'_>| {
        seen += 1;
        std::ops::ControlFlow::Continue(())
    };
    table.scan(each).expect("scanned");
    assert_eq!(seen, ROWS);
}

/// Waits until the background thread has set the wanted space aside.
fn wait_for_reserve(store: &Store) {
    for _ in 0..6000 {
        let log = store.status().log.expect("a log");
        if log.reserve >= log.reserve_wanted && log.reserve > log.checkpoint_bytes {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{:?}", store.status());
}

fn has_reserve(log: &Path) -> bool {
    let names = std::fs::read_dir(log)
        .expect("a directory")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().any(|name| name.starts_with("reserve-"))
}

#[test]
fn a_full_disk_is_left_by_a_checkpoint() {
    let Some(rig) = Rig::new("a full log disk is left by a checkpoint") else { return };
    let store = rig.open(BY_HAND).expect("a new store");
    create(&store);
    set_all(&store, 0);
    wait_for_reserve(&store);
    for _ in 0..3 {
        let (_, error) = update_until_refused(&store);
        assert!(error.is_log_full(), "{error}");
        assert!(store.status().refuses_writes.is_some_and(|why| why.contains("checkpoint")));
        let filler = rig.fill();
        store.checkpoint().expect("the reserve is for this");
        assert_eq!(store.status().refuses_writes, None);
        set_all(&store, 7);
        drop(filler);
    }
    check(&store, 7);
    store.close().expect("closed");
}

/// Without a request: the store recovers from the full disk by itself.
#[test]
fn a_full_disk_is_left_without_being_asked() {
    let Some(rig) = Rig::new("a full log disk is left by itself") else { return };
    let automatic = CheckpointOptions { automatic: true, ..BY_HAND };
    let store = rig.open(automatic).expect("a new store");
    create(&store);
    let table = store.table("rows").expect("a table");
    let mut written = 0;
    // Many times as much as fits.
    for round in 0..400_u64 {
        for row in 0..ROWS / 10 {
            let put = table.put(row, &[round as u8; 100], Durability::Power);
            written += u64::from(put.is_ok());
            if let Err(error) = put {
                assert!(error.is_log_full(), "{error}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    assert!(written * 4096 > 8 << 20, "{written} writes, {:?}", store.status());
    assert!(store.status().log.expect("a log").checkpoints > 0);
}

#[test]
fn a_full_disk_is_opened_from_the_reserve() {
    let Some(rig) = Rig::new("a full log disk is opened from the reserve") else { return };
    let store = rig.open(BY_HAND).expect("a new store");
    create(&store);
    set_all(&store, 1);
    wait_for_reserve(&store);
    update_until_refused(&store);
    store.checkpoint().expect("from the reserve");
    set_all(&store, 2);
    wait_for_reserve(&store);
    let _filler = rig.fill();
    // Once left as by a crash, with the image still there; once with the image lost; once closed.
    drop(store);
    for turn in 0..3 {
        if turn == 1 {
            std::fs::remove_file(rig.image()).expect("lost");
        }
        let store = rig.open(BY_HAND).expect("opened");
        let report = store.report();
        assert_eq!(report.only_reads, None, "turn {turn}");
        assert_eq!(report.origin, [Origin::Reattached, Origin::Rebuilt, Origin::Clean][turn]);
        check(&store, 2);
        // In the first round the owed checkpoint comes first, from the reserve.
        store.table("rows").expect("a table").put(0, &[2; 100], Durability::Power).expect("a small segment");
        if turn == 0 {
            drop(store);
        } else {
            // The reserve is for one opening; a checkpoint makes room for the next.
            store.checkpoint().expect("from the reserve");
            store.close().expect("closed");
        }
    }
}

#[test]
fn without_any_space_a_store_is_read() {
    let Some(rig) = Rig::new("a store without any space is read") else { return };
    let store = rig.open(CheckpointOptions::OFF).expect("a new store");
    create(&store);
    set_all(&store, 3);
    drop(store);
    assert!(!has_reserve(&rig.mounted.path().join("log")));
    let filler = rig.fill();
    for turn in 0..3 {
        let store = rig.open(BY_HAND).expect("opened to be read");
        let why = store.report().only_reads.clone().expect("there is no space");
        assert_remedy(&why, &["Free some space"]);
        check(&store, 3);
        let table = store.table("rows").expect("a table");
        for durability in [Durability::Process, Durability::Power] {
            for refused in [
                table.put(1, &[9; 100], durability).map(drop),
                table.delete(1, durability).map(drop),
                store.flush(),
                store.checkpoint(),
                store.drop_table("rows"),
                store.backup(&rig.elsewhere.path().join("backup"), &mut |_, _| ()).map(drop),
            ] {
                let error = refused.expect_err("it cannot be logged");
                assert!(matches!(error, Error::OnlyReads { .. }) && error.is_log_full(), "{error}");
                assert_remedy(&error, &["then open the store again"]);
            }
        }
        assert!(store.status().refuses_writes.is_some_and(|why| why.contains("Free space")));
        check(&store, 3);
        drop(table);
        if turn == 0 { drop(store) } else { store.close().expect("closed") }
    }
    drop(filler);
    let store = rig.open(BY_HAND).expect("there is room again");
    assert_eq!(store.report().only_reads, None);
    check(&store, 3);
    set_all(&store, 4);
    drop(store);
    std::fs::remove_file(rig.image()).expect("lost");
    check(&rig.open(BY_HAND).expect("rebuilt"), 4);
}

/// The image has no room to grow: writes are refused with that reason, and continue when there is room.
#[test]
fn an_image_that_cannot_grow_is_told() {
    let Some(mounted) = Mounted::tmpfs(16 << 20, "an image that cannot grow") else { return };
    let elsewhere = tempfile::tempdir().expect("a directory");
    let options = StoreOptions {
        image: Some(mounted.path().join("image")),
        create: warpkeep_image::CreateOptions { len: 4 << 20, ..Default::default() },
        ..StoreOptions::default()
    };
    let store = Store::open_with(elsewhere.path(), options).expect("a new store");
    let rows = TableOptions::new(KeySpec::U64, ValueSpec::fixed(1000).expect("a length")).capacity(20_000);
    let table = store.create_table("rows", rows).expect("a table");
    let refused = (0..100_000).find_map(|row| table.put(row, &[1; 1000], Durability::Process).err());
    let error = refused.expect("it is small");
    assert!(matches!(error, Error::Image(warpkeep_image::ImageError::OutOfSpace { .. })), "{error}");
    assert!(store.image_full().is_some_and(|why| why.contains("cannot grow")), "{:?}", store.status());
    assert_eq!(store.status().refuses_writes, store.image_full());
    rustix::mount::mount_remount(mounted.path(), rustix::mount::MountFlags::empty(), c"size=64m")
        .expect("ours");
    for _ in 0..6000 {
        if store.image_full().is_none() {
            table.put(100_001, &[2; 1000], Durability::Process).expect("there is room");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{:?}", store.status());
}
