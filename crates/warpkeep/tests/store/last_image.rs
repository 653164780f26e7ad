//! The image that a store was last used with, when it is gone or lies elsewhere: no acknowledged write is lost
//! silently, and without doubt the image is rebuilt without a request.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use warpkeep::{Durability, Error, Origin, PeekSource, Result, Store, StoreOptions, peek, repair_manifest};
use warpkeep_image::{CreateOptions, MIN_CHUNK};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn options(&self, image: &str) -> StoreOptions {
        let create = CreateOptions { len: 8 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() };
        StoreOptions { create, image: Some(self.at(image)), ..StoreOptions::default() }
    }

    fn open(&self, image: &str) -> Result<Store> {
        Store::open_with(self.store(), self.options(image))
    }

    fn open_without(&self, image: &str) -> Store {
        let options = StoreOptions { abandon_image: true, ..self.options(image) };
        Store::open_with(self.store(), options).unwrap()
    }

    /// A store with its image at `image`, to which one item was written.
    fn filled(image: &str) -> (Home, Store) {
        Home::filled_in("store", image)
    }

    /// The same with a directory made before.
    fn filled_in(directory: &str, image: &str) -> (Home, Store) {
        let home = Home::new();
        fs::create_dir_all(home.at(directory)).unwrap();
        let store = home.open(image).unwrap();
        store.create_typed::<u64, u64>("t", 10).unwrap().put(&1, &11, Durability::Power).unwrap();
        (home, store)
    }

    /// Changes the first bytes of the manifest, with a new checksum.
    fn change_manifest(&self, change: impl Fn(&mut [u8])) {
        for entry in fs::read_dir(self.store().join("log")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().as_bytes().starts_with(b"MANIFEST") {
                let mut page = fs::read(&path).unwrap();
                change(&mut page[..]);
                let crc = crc32c::crc32c(&page[..4092]);
                page[4092..].copy_from_slice(&crc.to_le_bytes());
                fs::write(&path, page).unwrap();
            }
        }
    }
}

fn value(store: &Store) -> Option<u64> {
    store.typed::<u64, u64>("t").unwrap().get(&1).unwrap()
}

#[track_caller]
fn assert_lost(opened: Result<Store>, image: &Path) {
    match opened.map(|_| ()) {
        Err(error @ Error::ImageLost { .. }) => {
            let text = error.to_string();
            for word in [image.to_str().unwrap(), "Process", "--image", "--abandon-image"] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert!(!image.exists(), "nothing was made");
}

#[track_caller]
fn assert_elsewhere<T: std::fmt::Debug>(opened: Result<T>, path: &Path, last: &Path) {
    match opened {
        Err(Error::ImageElsewhere { path: given, last: found }) => {
            assert_eq!((given.as_path(), found.as_path()), (path, last));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_image_that_vanished_since_the_boot_is_rebuilt_only_when_asked() {
    let (home, store) = Home::filled("image");
    drop(store);
    fs::remove_file(home.at("image")).unwrap();
    assert_lost(home.open("image"), &home.at("image"));
    // Nor at another place: the writes are as lost.
    match home.open("other").map(|_| ()) {
        Err(Error::ImageLost { path }) => assert_eq!(path, home.at("image")),
        other => panic!("{other:?}"),
    }
    assert!(!home.at("other").exists(), "nothing was made");
    // Inspection reports what an opening would restore.
    assert_eq!(peek(&home.store(), &home.options("image")).unwrap().source, PeekSource::Log);
    let store = home.open_without("image");
    assert_eq!((store.report().origin, value(&store)), (Origin::Rebuilt, Some(11)));
    store.close().unwrap();
    assert_eq!(home.open("image").unwrap().report().origin, Origin::Clean);
}

#[test]
fn an_image_that_went_with_the_machine_is_rebuilt() {
    // A directory in memory is lost with it.
    let (home, store) = Home::filled_in("memory", "memory/image");
    drop(store);
    fs::remove_dir_all(home.at("memory")).unwrap();
    home.change_manifest(|page| page[96] ^= 1);
    assert!(home.open("other memory/image").is_err(), "only what was there is made again");
    let store = home.open("memory/image").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Rebuilt, Some(11)));
}

#[test]
fn an_image_on_a_medium_that_survives_the_machine_is_missed_in_any_boot() {
    let (home, store) = Home::filled("image");
    drop(store);
    fs::remove_file(home.at("image")).unwrap();
    home.change_manifest(|page| (page[96], page[116]) = (page[96] ^ 1, 1));
    assert_lost(home.open("image"), &home.at("image"));
}

#[test]
fn an_image_that_was_closed_is_rebuilt_from_a_log_that_has_everything() {
    let (home, store) = Home::filled("image");
    store.typed::<u64, u64>("t").unwrap().put(&1, &12, Durability::Process).unwrap();
    store.close().unwrap();
    fs::remove_file(home.at("image")).unwrap();
    let store = home.open("other").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Rebuilt, Some(12)));
}

/// A copy taken in use, or an older copy, in the place of the image is no better than none.
#[test]
fn what_replaced_the_image_does_not_stand_for_it() {
    let (home, store) = Home::filled("image");
    fs::copy(home.at("image"), home.at("in use")).unwrap();
    store.close().unwrap();
    fs::copy(home.at("image"), home.at("older")).unwrap();
    for replacement in ["in use", "older"] {
        let store = home.open_without("image");
        drop(store);
        fs::remove_file(home.at("image")).unwrap();
        fs::copy(home.at(replacement), home.at("image")).unwrap();
        let options = home.options("image");
        let mut adopting = options.clone();
        adopting.open.adopt = true;
        let error = Store::open_with(home.store(), adopting).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ImageLost { .. }), "{replacement}: {error}");
        fs::remove_file(home.at("image")).unwrap();
    }
}

/// What a power cut left of an image that had grown: less than its state records. A copy taken in use is as lost.
#[test]
fn a_lost_image_that_is_too_short_is_rebuilt() {
    let (home, store) = Home::filled("image");
    drop(store);
    let (image, aside) = (home.at("image"), home.at("aside"));
    fs::rename(&image, &aside).unwrap();
    fs::copy(&aside, &image).unwrap();
    fs::OpenOptions::new().write(true).open(&image).unwrap().set_len(4 * MIN_CHUNK).unwrap();
    let store = home.open_without("image");
    assert_eq!((store.report().origin, value(&store)), (Origin::Rebuilt, Some(11)));
}

/// A manifest without an image note is opened as by the program that wrote it.
#[test]
fn a_manifest_that_notes_no_image_is_as_good_as_ever() {
    let (home, store) = Home::filled("image");
    drop(store);
    home.change_manifest(|page| page[96..4092].fill(0));
    let store = home.open("other").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Rebuilt, Some(11)));
    drop(store);
    assert_elsewhere(home.open("image").map(|_| ()), &home.at("image"), &home.at("other"));
}

/// A manifest that was made anew notes the image, too.
#[test]
fn a_repaired_manifest_does_not_leave_the_image_behind() {
    let (home, store) = Home::filled("image");
    store.typed::<u64, u64>("t").unwrap().put(&1, &12, Durability::Process).unwrap();
    drop(store);
    let (image, other) = (home.at("image"), home.at("other"));
    let copies = ["MANIFEST", "MANIFEST.2"].map(|name| home.store().join("log").join(name));
    for copy in &copies {
        fs::write(copy, b"no manifest").unwrap();
    }
    // An image that cannot be read has an unknown epoch, and may have writes that the log lacks.
    let good = fs::read(&image).unwrap();
    fs::write(&image, b"not an image").unwrap();
    let error = repair_manifest(&home.store(), &home.options("image")).unwrap_err();
    assert!(matches!(error, Error::Image(_)), "{error}");
    assert!(copies.iter().all(|copy| fs::read(copy).unwrap() == b"no manifest"), "nothing was changed");
    fs::write(&image, good).unwrap();

    assert!(repair_manifest(&home.store(), &home.options("image")).unwrap().is_some());
    assert_elsewhere(home.open("other").map(|_| ()), &other, &image);
    assert!(!other.exists(), "nothing was made");
    let store = home.open("image").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Reattached, Some(12)));
}

#[test]
fn another_path_than_the_last_one_does_not_leave_the_image_behind() {
    let (home, store) = Home::filled("image");
    // The log gets it behind, so a rebuild would not have it for sure.
    store.typed::<u64, u64>("t").unwrap().put(&1, &12, Durability::Process).unwrap();
    drop(store);
    let (image, other) = (home.at("image"), home.at("other"));
    assert_elsewhere(home.open("other").map(|_| ()), &other, &image);
    assert!(!other.exists(), "nothing was made");
    assert_elsewhere(peek(&home.store(), &home.options("other")).map(|_| ()), &other, &image);
    let no_path = StoreOptions { image: None, ..home.options("image") };
    let inside = home.at("store").join("image");
    assert_elsewhere(Store::open_with(home.store(), no_path).map(|_| ()), &inside, &image);

    // The same file by another name is the same image.
    std::os::unix::fs::symlink(&image, home.at("link")).unwrap();
    let store = home.open("link").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Reattached, Some(12)));
    drop(store);
    // So it is when it was moved.
    fs::rename(&image, &other).unwrap();
    let store = home.open("other").unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Reattached, Some(12)));
    drop(store);
    // An unrelated file with its name is not an obstacle.
    fs::write(&image, b"something else").unwrap();
    drop(home.open("other").unwrap());

    let store = home.open_without("third");
    assert_eq!(store.report().origin, Origin::Rebuilt);
    drop(store);
    assert_elsewhere(home.open("other").map(|_| ()), &other, &home.at("third"));
    assert!(home.open("third").is_ok());
}

/// A copy of a store beside the original is opened when it is adopted, and is a store of its own from then on.
#[test]
fn a_copied_store_is_adopted_when_asked() {
    let (home, store) = Home::filled("store/image");
    store.close().unwrap();
    let copy = home.at("copy");
    fs::create_dir_all(copy.join("log")).unwrap();
    fs::copy(home.at("store/image"), copy.join("image")).unwrap();
    for entry in fs::read_dir(home.store().join("log")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join("log").join(entry.file_name())).unwrap();
    }
    let options = StoreOptions { image: None, ..home.options("") };
    let error = Store::open_with(&copy, options.clone()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("--adopt-copy"), "{error}");
    let mut adopting = options.clone();
    adopting.open.adopt = true;
    let store = Store::open_with(&copy, adopting).unwrap();
    assert_eq!((store.report().origin, value(&store)), (Origin::Clean, Some(11)));
    store.close().unwrap();
    assert_eq!(Store::open_with(&copy, options).unwrap().report().origin, Origin::Clean);
    assert_eq!(home.open("store/image").unwrap().report().origin, Origin::Clean);
}
