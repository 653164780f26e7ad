//! Damage to the image: every byte of its header area, bytes of records, and its length.

use std::path::Path;

use warpkeep::{Error, Origin};
use warpkeep_image::{Coherent, ImageError, MIN_CHUNK};

use super::written::Written;
use crate::common::{Home, Model, assert_no_leak, assert_remedy, check_holds, flip, restore, say, value_of};

/// An image that is opened without its log, over and over.
struct Patient {
    home: Home,
    model: Model,
    good: Vec<u8>,
}

/// The outcomes of opening damaged images.
#[derive(Default)]
struct Count {
    refused: u64,
    repaired: u64,
    unharmed: u64,
}

impl Patient {
    fn new(close: bool) -> Patient {
        let home = Home::in_memory();
        let (store, _) = home.open_without_log().expect("a new store");
        let mut model = Model::new();
        for cell in 0..40 {
            let value = value_of(cell, cell as usize * 11);
            store.put(cell, &value, warpkeep::Durability::Process).expect("there is room");
            model.insert(cell, value);
        }
        match close {
            true => store.close().expect("closed"),
            false => drop(store),
        }
        let good = std::fs::read(&home.image).expect("an image");
        Patient { home, model, good }
    }

    /// Opens the damaged image: it is refused, or has the expected contents.
    fn examine(&self, what: &str, count: &mut Count) {
        match self.home.open_without_log() {
            Ok((store, report)) => {
                if let Err(wrong) = check_holds(&store, &self.model) {
                    panic!("{what}: opened, but {wrong}");
                }
                match report.slot_repaired {
                    true => count.repaired += 1,
                    false => count.unharmed += 1,
                }
            }
            Err(error) => {
                assert_typed(&error, what);
                count.refused += 1;
            }
        }
    }
}

/// Damage must be called damage, and the way out be named.
fn assert_typed(error: &Error, what: &str) {
    match error {
        Error::Image(ImageError::Damaged { .. } | ImageError::Truncated { .. }) => {
            assert_remedy(error, &["open the store with its log directory to rebuild it"]);
        }
        Error::Image(ImageError::Foreign { .. }) => assert_remedy(error, &["check the path"]),
        Error::LogNeeded => assert_remedy(error, &["open it with its log directory"]),
        other => panic!("{what}: {other:?}"),
    }
}

fn flip_header(close: bool) -> Count {
    let patient = Patient::new(close);
    let mut count = Count::default();
    for at in 0..MIN_CHUNK as usize {
        flip(&patient.home.image, &patient.good, at, 1 << (at % 8));
        patient.examine(&format!("byte {at} of the header"), &mut count);
        restore(&patient.home.image, &patient.good);
    }
    patient.examine("nothing damaged", &mut count);
    assert_eq!(count.refused + count.repaired + count.unharmed, MIN_CHUNK + 1);
    // Two state slots of a page each can be repaired; descriptors of future chunks do not count.
    let chunks = patient.good.len() as u64 / MIN_CHUNK;
    assert_eq!((count.repaired, count.unharmed), (2 * 4096, MIN_CHUNK - 20480 - 8 * chunks + 1));
    count
}

#[test]
fn every_flipped_byte_of_the_header_is_found_or_mended() {
    std::thread::scope(|scope| {
        for (name, close) in [("closed", true), ("in use", false)] {
            scope.spawn(move || {
                let Count { refused, repaired, unharmed } = flip_header(close);
                say(&format!(
                    "{MIN_CHUNK} flips in the header of an image left {name}: {refused} refused, {repaired} repaired, \
                     {} in parts not in use",
                    unharmed - 1
                ));
            });
        }
    });
}

/// An unchecked byte comes into use when the image grows: it must do no harm then.
#[test]
fn flipped_bytes_of_descriptors_to_come_do_no_harm() {
    let patient = Patient::new(false);
    let chunks = patient.good.len() as u64 / MIN_CHUNK;
    for chunk in chunks..chunks + 24 {
        flip(&patient.home.image, &patient.good, 20480 + 8 * chunk as usize + chunk as usize % 8, 0x13);
        let (store, _) = patient.home.open_without_log().expect("not in use yet");
        let mut model = patient.model.clone();
        for cell in 40..64 {
            let value = value_of(cell, 40_000);
            store.put(cell, &value, warpkeep::Durability::Process).expect("there is room");
            model.insert(cell, value);
        }
        assert!(store.image().chunks() > chunk, "it has not grown enough");
        drop(store);
        let (store, _) = patient.home.open_without_log().expect("in use, and good");
        crate::common::assert_holds(&store, &model, "grown");
        assert_no_leak(&store, &model, "grown");
        drop(store);
        restore(&patient.home.image, &patient.good);
    }
}

#[test]
fn flipped_bytes_of_records_are_found() {
    let patient = Patient::new(true);
    let mut count = Count::default();
    for (cell, value) in &patient.model {
        // Records of a header of 16 bytes and the value: found by the value, which is unique.
        let Some(at) = (value.len() >= 24).then(|| find(&patient.good, value)).flatten() else { continue };
        for place in (at - 16..at + value.len()).step_by(7) {
            flip(&patient.home.image, &patient.good, place, 0x20);
            patient.examine(&format!("byte {place}, in the record of cell {cell}"), &mut count);
            restore(&patient.home.image, &patient.good);
        }
    }
    say(&format!("{} flips in records: all refused", count.refused));
    assert!(count.refused > 1000, "{} flips", count.refused);
    assert_eq!((count.repaired, count.unharmed), (0, 0));
}

fn find(bytes: &[u8], value: &[u8]) -> Option<usize> {
    (MIN_CHUNK as usize..bytes.len() - value.len()).step_by(8).find(|&at| bytes[at..].starts_with(value))
}

#[test]
fn an_image_cut_anywhere_is_refused() {
    for close in [true, false] {
        let patient = Patient::new(close);
        let mut count = Count::default();
        for len in (0..patient.good.len()).step_by(512) {
            let file = std::fs::OpenOptions::new().write(true).open(&patient.home.image).expect("an image");
            file.set_len(len as u64).expect("cut");
            patient.examine(&format!("cut to {len} bytes"), &mut count);
            restore(&patient.home.image, &patient.good);
        }
        say(&format!("an image cut at {} places: all refused", count.refused));
        assert_eq!((count.repaired, count.unharmed), (0, 0));
        // Longer is no harm: a growth that was never published.
        let file = std::fs::OpenOptions::new().write(true).open(&patient.home.image).expect("an image");
        file.set_len(patient.good.len() as u64 + 12345).expect("lengthened");
        patient.examine("lengthened", &mut count);
        assert_eq!(count.unharmed, 1);
    }
}

#[test]
fn a_damaged_image_is_not_thrown_away_unasked_and_can_be_rebuilt() {
    let written = Written::new(false);
    let home = &written.home;
    let good = std::fs::read(&home.image).expect("an image");
    let log = home.directory().join("log-kept");
    crate::common::copy_directory(&home.log, &log);
    let value = written.last().values().find(|value| value.len() > 100).expect("a record");
    let record = find(&good, value).expect("it is in the image");
    // Magic, static header, roots, pending commits, directory, cells, a record.
    let places = [0, 20, 4091, 12288, 16384, 20480, 20488, 32768, 32776, 32783, record - 9, record];
    let mut refused = 0;
    for at in places {
        flip(&home.image, &good, at, 0x41);
        let damaged = std::fs::read(&home.image).expect("an image");
        let error = home.refuses();
        assert_typed_with_log(&error, at);
        assert_eq!(std::fs::read(&home.image).expect("still there"), damaged, "byte {at}: it was changed");
        refused += 1;

        // As the message advises: moved away, and opened with the log.
        std::fs::rename(&home.image, home.directory().join("moved away")).expect("moved");
        let (store, report) = home.open().expect("rebuilt");
        assert_eq!(report.origin, Origin::Rebuilt);
        crate::common::assert_holds(&store, written.last(), "rebuilt");
        assert_no_leak(&store, written.last(), "rebuilt");
        drop(store);
        // Back to where it was, the same file under the same name.
        std::fs::rename(home.directory().join("moved away"), &home.image).expect("moved back");
        restore(&home.image, &good);
        replace_directory(&log, &home.log);
    }
    let (store, report) = home.open().expect("mended");
    assert_eq!((report.origin, refused), (Origin::Reattached, places.len()));
    crate::common::assert_holds(&store, written.last(), "mended");
}

fn assert_typed_with_log(error: &Error, at: usize) {
    match error {
        // The root of the cells, and their own first words, are the index's to judge.
        Error::Invalid(text) => assert!(text.contains("holds no cells"), "byte {at}: {text}"),
        other => assert_typed(other, &format!("byte {at}")),
    }
}

fn replace_directory(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).expect("removed");
    crate::common::copy_directory(from, to);
}

#[test]
fn looking_read_only_at_a_damaged_image_changes_nothing() {
    let patient = Patient::new(true);
    for at in [4096, 8192, 12288, 16385] {
        flip(&patient.home.image, &patient.good, at, 0xff);
        let damaged = std::fs::read(&patient.home.image).expect("an image");
        let access = warpkeep_image::Access::ReadOnly;
        let opened =
            warpkeep_image::Image::open(&patient.home.image, Coherent, access, &patient.home.place().open);
        assert!(opened.is_err() || opened.is_ok_and(|attached| attached.slot_repaired));
        assert_eq!(std::fs::read(&patient.home.image).expect("an image"), damaged, "byte {at}");
        restore(&patient.home.image, &patient.good);
    }
}
