//! Images that are copies, older than their logs, or of another store.

use std::path::Path;

use warpkeep::{Durability, Error, Origin};
use warpkeep_image::ImageError;

use super::written::Written;
use crate::common::{Home, assert_holds, assert_no_leak, assert_remedy, content, copy_directory, say};

/// Replaces a file by a copy of itself: the same bytes, but another file.
fn become_a_copy(path: &Path) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).expect("copied");
    std::fs::rename(&copy, path).expect("moved");
}

#[test]
fn a_copy_of_a_closed_image_is_adopted_when_asked() {
    for logged in [true, false] {
        let mut written = Written::new(true);
        become_a_copy(&written.home.image);
        let before = std::fs::read(&written.home.image).expect("an image");
        let error = if logged { written.home.refuses() } else { written.home.refuses_without_log() };
        assert!(matches!(error, Error::Image(ImageError::Copied { .. })), "{error}");
        assert_remedy(&error, &["option to adopt copies"]);
        assert_eq!(std::fs::read(&written.home.image).expect("an image"), before);

        written.home.adopt = true;
        let home = &written.home;
        let (store, report) = if logged { home.open() } else { home.open_without_log() }.expect("adopted");
        assert_eq!((report.origin, report.owes_checkpoint), (Origin::Clean, false));
        assert_holds(&store, written.last(), "adopted");
        assert_no_leak(&store, written.last(), "adopted");
        store.close().expect("closed");
        // From now on it is the original.
        written.home.adopt = false;
        written.home.open_without_log().expect("its own file");
    }
}

#[test]
fn a_copy_of_an_image_in_use_is_not_trusted() {
    let written = Written::new(false);
    let home = &written.home;
    let (store, _) = home.open().expect("re-attached");
    store.put(50, b"power", Durability::Power).expect("there is room");
    store.put(51, b"process", Durability::Process).expect("there is room");
    let mut with_power = content(&store);
    let with_both = with_power.clone();
    with_power.remove(&51);
    // Copied under the feet of its holder.
    let copied = home.image.with_extension("copy");
    std::fs::copy(&home.image, &copied).expect("copied");
    drop(store);
    std::fs::rename(&copied, &home.image).expect("moved");

    for adopt in [false, true] {
        let home = Home { adopt, log_options: home.log_options.clone(), ..Home::at(home.directory()) };
        let error = home.refuses_without_log();
        assert!(matches!(error, Error::Image(ImageError::NotIntact { .. })), "{error}");
        assert_remedy(&error, &["rebuild it from the log directory"]);
        assert!(error.to_string().contains("copy"), "{error}");
    }
    // An empty log has no replacement for it.
    let elsewhere = Home { log: home.directory().join("new log"), ..Home::at(home.directory()) };
    let error = elsewhere.refuses();
    assert!(matches!(error, Error::Image(ImageError::NotIntact { .. })), "{error}");

    let (store, report) = home.open().expect("rebuilt");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert!(report.why_rebuilt.is_some_and(|why| why.contains("copy")));
    let found = content(&store);
    assert!(found == with_power || found == with_both, "what was acknowledged with Power is lost");
    assert_no_leak(&store, &found, "rebuilt");
}

/// An image restored from a copy taken while it was in use, with the inode number of the file that it replaces.
#[test]
fn a_copy_with_the_number_of_the_original_is_still_a_copy() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::on_disk();
    let (store, _) = home.open().expect("a new store");
    store.put(1, b"old", Durability::Power).expect("there is room");
    let backup = home.directory().join("backup");
    std::fs::copy(&home.image, &backup).expect("copied");
    store.put(1, b"new", Durability::Power).expect("there is room");
    let model = content(&store);
    drop(store);
    let number = home.image.metadata().expect("metadata").ino();
    home.lose_image();
    // Other tests make files meanwhile, so finding the number may take several attempts.
    let restored = (0..64).map(|turn| home.directory().join(format!("restored-{turn}"))).find(|copy| {
        std::fs::copy(&backup, copy).expect("copied");
        copy.metadata().expect("metadata").ino() == number
    });
    let Some(restored) = restored else {
        say("SKIPPED: a copy with the number of the original: this file system gave it to none");
        return;
    };
    std::fs::rename(restored, &home.image).expect("moved");
    let error = home.refuses_without_log();
    assert!(matches!(error, Error::Image(ImageError::NotIntact { .. })), "{error}");
    let (store, report) = home.open().expect("rebuilt");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert_holds(&store, &model, "what was committed after the copy");
}

#[test]
fn an_image_older_than_its_log_is_rebuilt() {
    let mut written = Written::new(true);
    written.home.adopt = true;
    let home = &written.home;
    let old = home.directory().join("old");
    std::fs::copy(&home.image, &old).expect("copied");
    let (store, _) = home.open().expect("clean");
    store.put(60, b"newer", Durability::Power).expect("there is room");
    let model = content(&store);
    drop(store);
    std::fs::copy(&old, &home.image).expect("put back");
    let (store, report) = home.open().expect("rebuilt");
    assert_eq!(report.origin, Origin::Rebuilt);
    assert!(report.why_rebuilt.is_some_and(|why| why.contains("older than the log")));
    assert_holds(&store, &model, "rebuilt");
    assert_no_leak(&store, &model, "rebuilt");
}

#[test]
fn image_and_log_of_different_stores_do_not_mix() {
    let (one, other) = (Written::new(true), Written::new(false));
    let kept = one.home.directory().join("kept");
    copy_directory(&other.home.log, &kept);
    let mixed = Home {
        log: other.home.log.clone(),
        log_options: one.home.log_options.clone(),
        ..Home::at(one.home.directory())
    };
    let image = std::fs::read(&one.home.image).expect("an image");
    let error = mixed.refuses();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    assert_remedy(&error, &["give the pair that belongs together"]);
    assert_eq!(std::fs::read(&one.home.image).expect("an image"), image);
    let without_lock = |path: &Path| {
        let mut files = crate::common::files_in(path);
        files.remove("LOCK");
        files
    };
    assert_eq!(without_lock(&kept), without_lock(&other.home.log), "nothing was changed");
    for written in [&one, &other] {
        let (store, _) = written.home.open().expect("the pair that belongs together");
        assert_holds(&store, written.last(), "unmixed");
    }
}
