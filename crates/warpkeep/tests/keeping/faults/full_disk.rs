//! Real file systems that fill up: an error and never a signal, and the store continues when there is room.

use warpkeep::{Durability, Error};
use warpkeep_image::{HugePages, ImageError};
use warpkeep_log::LogError;

use crate::common::{
    Home, Model, Mounted, Store, assert_holds, assert_no_leak, assert_remedy, content, say, value_of,
};

/// Puts until a put is refused.
fn fill(store: &Store, model: &mut Model, durability: Durability, from: u64) -> Option<Error> {
    (from..store.items().count()).find_map(|cell| {
        let value = value_of(cell, 2000 + (cell * 131 % 3000) as usize);
        match store.put(cell, &value, durability) {
            Ok(()) => {
                model.insert(cell, value);
                None
            }
            Err(error) => Some(error),
        }
    })
}

#[test]
fn an_image_on_a_full_file_system() {
    for huge_pages in [HugePages::Off, HugePages::Auto] {
        for durability in [Durability::Process, Durability::Power] {
            let Some(mounted) = Mounted::tmpfs(4 << 20, "an image on a full file system") else { return };
            let elsewhere = Home::on_disk();
            let home =
                Home { log: elsewhere.log.clone(), cells: 4096, huge_pages, ..Home::at(mounted.path()) };
            let (store, _) = home.open().expect("a new store");
            let mut model = Model::new();
            let error = fill(&store, &mut model, durability, 0).expect("it is small");
            assert!(matches!(error, Error::Image(ImageError::OutOfSpace { .. })), "{error}");
            assert_remedy(&error, &["remount it larger", "put the image elsewhere"]);
            assert!(model.len() > 500, "{} records", model.len());
            assert_holds(&store, &model, "when full");
            assert_no_leak(&store, &model, "when full");
            // Other files take the remaining space, to the last byte; stores to the image must still be possible.
            let filler = mounted.path().join("filler");
            let _ = std::fs::write(&filler, vec![1; 4 << 20]);
            for cell in 0..200 {
                store.delete(cell, durability).expect("deleting needs no space");
                model.remove(&cell);
            }
            for cell in 0..50 {
                let value = value_of(cell + 9000, 2500);
                store.put(cell, &value, durability).expect("what was freed is used again");
                model.insert(cell, value);
            }
            assert_holds(&store, &model, "after deletes");
            drop(store);
            let (store, _) = home.open().expect("it opens on a full file system");
            assert_holds(&store, &model, "reopened");
            assert_no_leak(&store, &model, "reopened");
            std::fs::remove_file(&filler).expect("removed");
            store.put(4000, b"room", Durability::Power).expect("there is room again");
            model.insert(4000, b"room".to_vec());
            drop(store);
            home.lose_image();
            let (store, _) = home.open().expect("rebuilt");
            assert_holds(&store, &model, "rebuilt");
            say(&format!("an image on a full file system: {} records, {durability:?}", model.len()));
        }
    }
}

#[test]
fn a_log_on_a_full_file_system() {
    for (background, durability) in [
        (false, Durability::Process),
        (false, Durability::Power),
        (true, Durability::Process),
        (true, Durability::Power),
    ] {
        let Some(mounted) = Mounted::tmpfs(2 << 20, "a log on a full file system") else { return };
        let elsewhere = Home::on_disk();
        let mut home = Home { image: elsewhere.image.clone(), cells: 4096, ..Home::at(mounted.path()) };
        home.log_options.background = background;
        home.log_options.backlog_bytes = 16 << 10;
        let (mut store, _) = home.open().expect("a new store");
        let filler = mounted.path().join("filler");
        std::fs::write(&filler, vec![1; 1 << 20]).expect("room");
        let mut model = Model::new();
        let mut stopped = 0;
        // Again and again: it stays refused, and readable.
        for _ in 0..5 {
            let from = model.len() as u64;
            let error = fill(&store, &mut model, durability, from).expect("it is small");
            stopped += u64::from(assert_full(&error));
            if background {
                settle(&store, &mut model);
            }
            assert!(model.len() > 50, "{} records", model.len());
            if stopped == 0 {
                assert_holds(&store, &model, "when full");
            }
        }
        std::fs::remove_file(&filler).expect("removed");
        if stopped > 0 {
            // The disk was full before the log had the next segment in reserve; it must be opened again.
            assert!(background, "the segment in reserve is made at once");
            drop(store);
            store = home.open().expect("there is room again").0;
            settle(&store, &mut model);
            assert_holds(&store, &model, "with room again");
        }
        let first = model.len() as u64;
        store.put(first, b"room", durability).expect("there is room again");
        model.insert(first, b"room".to_vec());
        assert_holds(&store, &model, "with room again");
        store.checkpoint().expect("a checkpoint");
        store.put(first + 1, b"more", Durability::Power).expect("there is room again");
        model.insert(first + 1, b"more".to_vec());
        drop(store);
        let (store, _) = home.open().expect("re-attached");
        assert_holds(&store, &model, "re-attached");
        store.flush().expect("flushed");
        drop(store);
        home.lose_image();
        let (store, _) = home.open().expect("rebuilt");
        assert_eq!(content(&store), model, "rebuilt");
        let how = if stopped > 0 { "the log stopped" } else { "writes were refused" };
        say(&format!("a log on a full file system: {} records, {durability:?}, {how}", model.len()));
    }
}

/// Finds out about the write that failed last: the log may have stopped in the middle of it.
fn settle(store: &Store, model: &mut Model) {
    let last = model.len() as u64;
    if let Some(value) = store.get(last).expect("a cell") {
        model.insert(last, value);
    }
}

/// Checks that the error speaks of a full disk; whether the log has stopped over it.
#[track_caller]
fn assert_full(error: &Error) -> bool {
    let Error::Log(error) = error else { panic!("{error:?}") };
    assert!(error.is_disk_full(), "{error}");
    match error {
        LogError::NoSegment { .. } => assert_remedy(error, &["Free some space"]),
        LogError::Poisoned { .. } => assert_remedy(error, &["open the store again"]),
        other => panic!("{other:?}"),
    }
    matches!(error, LogError::Poisoned { .. })
}

/// There is not even room to begin.
#[test]
fn no_room_for_a_new_store() {
    let Some(mounted) = Mounted::tmpfs(96 << 10, "a new store on a full file system") else { return };
    let home = Home::at(mounted.path());
    let error = home.refuses_without_log();
    assert!(matches!(error, Error::Image(ImageError::OutOfSpace { .. })), "{error}");
    let filler = mounted.path().join("filler");
    std::fs::write(&filler, vec![1; 64 << 10]).expect("room");
    let error = home.refuses();
    assert!(matches!(&error, Error::Log(error) if error.is_disk_full()), "{error}");
    assert_remedy(&error, &["Free some space"]);
    assert!(!home.image.exists());
    std::fs::remove_file(&filler).expect("removed");
    let small = Home { image_bytes: 1, ..Home::at(mounted.path()) };
    small.open_without_log().expect("room for little");
}
