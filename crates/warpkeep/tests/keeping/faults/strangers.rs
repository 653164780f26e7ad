//! Files that do not match their names: of other programs, of newer versions, not files at all.

use std::os::unix::fs::symlink;
use std::path::Path;

use warpkeep::Error;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;

use super::log_bytes::{Count, examine};
use super::written::Written;
use crate::common::{Home, assert_holds, assert_remedy, files_in, reseal, restore, say};

/// Bytes that are no file of a store.
fn foreign_bytes() -> Vec<(&'static str, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(11);
    let program = std::fs::read(std::env::current_exe().expect("this program")).expect("it can be read");
    vec![
        ("nothing", Vec::new()),
        ("one byte", vec![b'W']),
        ("a text", b"Dear diary,\n".repeat(4000)),
        ("zeros", vec![0; 100_000]),
        ("random bytes", (0..150_000).map(|_| random.u8(..)).collect()),
        ("a program", program[..200_000].to_vec()),
    ]
}

/// Its name, and how it is made.
type Thing = (&'static str, fn(&Path));

/// Things that have a name but are no files.
fn foreign_things() -> [Thing; 4] {
    [
        ("a directory", |path| std::fs::create_dir(path).expect("made")),
        ("a loop of links", |path| symlink(path, path).expect("made")),
        ("a link to nothing", |path| symlink("no such file", path).expect("made")),
        ("a pipe", |path| {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        }),
    ]
}

fn remove(path: &Path) {
    let removed = if path.symlink_metadata().is_ok_and(|what| what.is_dir()) {
        std::fs::remove_dir(path)
    } else {
        std::fs::remove_file(path)
    };
    removed.expect("removed");
}

#[test]
fn foreign_files_are_no_images() {
    let written = Written::new(true);
    let home = &written.home;
    let aside = home.directory().join("aside");
    std::fs::rename(&home.image, &aside).expect("moved");
    let mut refused = 0;
    for (name, bytes) in foreign_bytes() {
        std::fs::write(&home.image, &bytes).expect("written");
        for error in [home.refuses(), home.refuses_without_log()] {
            assert!(matches!(error, Error::Image(ImageError::Foreign { .. })), "{name}: {error}");
            assert_remedy(&error, &["check the path, nothing was changed"]);
            assert_eq!(std::fs::read(&home.image).expect("there"), bytes, "{name}");
            refused += 1;
        }
        remove(&home.image);
    }
    for (name, make) in foreign_things() {
        make(&home.image);
        for error in [home.refuses(), home.refuses_without_log()] {
            assert!(matches!(error, Error::Image(_)), "{name}: {error}");
            assert!(error.to_string().contains("image"), "{name}: {error}");
            refused += 1;
        }
        assert!(home.image.symlink_metadata().is_ok(), "{name}: it was removed");
        remove(&home.image);
    }
    say(&format!("{refused} attempts to open what is no image: all refused"));
    std::fs::rename(&aside, &home.image).expect("moved back");
    let (store, _) = home.open().expect("mended");
    assert_holds(&store, written.last(), "mended");
}

/// A foreign file may be large and mostly holes; opening it must not fill them.
#[test]
fn a_foreign_file_with_holes_keeps_them() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::on_disk();
    let file = std::fs::File::create(&home.image).expect("a file");
    file.set_len(64 << 20).expect("a hole");
    let error = home.refuses_without_log();
    assert!(matches!(error, Error::Image(ImageError::Foreign { .. })), "{error}");
    let taken = file.metadata().expect("metadata").blocks() * 512;
    assert!(taken < 1 << 20, "{taken} bytes were taken for a file of another program");
}

#[test]
fn foreign_files_are_no_part_of_a_log() {
    let written = Written::new(true);
    let log = &written.home.log;
    let aside = written.home.directory().join("aside");
    let mut count = Count::default();
    for name in files_in(log).into_keys().filter(|name| name != "LOCK") {
        let path = log.join(&name);
        std::fs::rename(&path, &aside).expect("moved");
        for (kind, bytes) in foreign_bytes() {
            std::fs::write(&path, &bytes).expect("written");
            examine(&written, &format!("{kind} as {name}"), &mut count);
            assert_eq!(std::fs::read(&path).expect("there"), bytes, "{kind} as {name}");
            remove(&path);
        }
        for (kind, make) in foreign_things() {
            make(&path);
            examine(&written, &format!("{kind} as {name}"), &mut count);
            assert!(path.symlink_metadata().is_ok(), "{kind} as {name}: it was removed");
            remove(&path);
        }
        examine(&written, &format!("{name} missing"), &mut count);
        std::fs::rename(&aside, &path).expect("moved back");
    }
    say(&format!(
        "{} foreign or missing files in a log: {} refused, {} not needed",
        count.all(),
        count.refused,
        count.unharmed
    ));
    assert_eq!(count.shorter, 0, "a log that was closed says where it ends");
    assert!(count.refused > 3 * count.unharmed, "{count:?}");
    let (store, _) = written.home.open().expect("mended");
    assert_holds(&store, written.last(), "mended");
}

#[test]
fn a_log_wants_a_directory_of_its_own() {
    let home = Home::on_disk();
    std::fs::write(&home.log, "a file").expect("written");
    let error = home.refuses();
    assert!(matches!(error, Error::Log(LogError::Io { .. })), "{error}");
    std::fs::remove_file(&home.log).expect("removed");
    std::fs::create_dir(&home.log).expect("made");
    std::fs::write(home.log.join("diary.txt"), "dear diary").expect("written");
    let error = home.refuses();
    assert!(matches!(error, Error::Log(LogError::ForeignFile { .. })), "{error}");
    assert_remedy(&error, &["Move it away"]);
    assert!(!home.image.exists(), "nothing is begun that cannot be finished");
    std::fs::remove_file(home.log.join("diary.txt")).expect("removed");
    home.open().expect("a new store").0.close().expect("closed");

    // In a log that is there, it is left alone and reported.
    std::fs::write(home.log.join("diary.txt"), "dear diary").expect("written");
    let (_store, report) = home.open().expect("clean");
    assert_eq!(report.log.expect("there is a log").foreign_files, ["diary.txt"]);
    assert_eq!(std::fs::read(home.log.join("diary.txt")).expect("there"), b"dear diary");
}

#[test]
fn newer_files_are_told_from_damage() {
    let written = Written::new(true);
    let home = &written.home;
    let with_version = |good: &[u8], version: u32| {
        let mut bytes = good.to_vec();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        reseal(&mut bytes);
        bytes
    };
    for version in [2, 77, u32::MAX] {
        let good = std::fs::read(&home.image).expect("an image");
        restore(&home.image, &with_version(&good, version));
        for error in [home.refuses(), home.refuses_without_log()] {
            let named =
                matches!(error, Error::Image(ImageError::NewerVersion { found, .. }) if found == version);
            assert!(named, "{error}");
            assert_remedy(&error, &["open it with a newer Warpkeep"]);
        }
        restore(&home.image, &good);
        for (name, good) in files_in(&home.log).iter().filter(|(name, _)| *name != "LOCK") {
            restore(&home.log.join(name), &with_version(good, version));
            match home.refuses() {
                Error::Log(error @ LogError::NewerVersion { version: found, .. }) if found == version => {
                    assert_remedy(&error, &["Use a newer program"]);
                }
                other => panic!("{name}: {other:?}"),
            }
            restore(&home.log.join(name), good);
        }
    }
    // An unknown feature is a reason, too.
    let good = std::fs::read(&home.image).expect("an image");
    let mut bytes = good.clone();
    bytes[56] = 4;
    reseal(&mut bytes);
    restore(&home.image, &bytes);
    assert_remedy(&home.refuses(), &["open it with a newer Warpkeep"]);
    restore(&home.image, &good);
    let (store, _) = home.open().expect("mended");
    assert_holds(&store, written.last(), "mended");
}
