//! Mapped files on the media this machine has: a disk and `/dev/shm`, and more where mounting is allowed.

#[path = "mapping/full.rs"]
mod full;
#[path = "mapping/places.rs"]
mod places;
#[path = "mapping/processes.rs"]
mod processes;

use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use places::{each_place, load, names_holder, shm, store};
use warpkeep_image::{Access, Backing, HugePages, ImageError, MapOptions, MappedFile, Medium};

const MIB: u64 = 1 << 20;

fn create(path: &Path, len: u64) -> MappedFile {
    MappedFile::create(path, len, &MapOptions::default()).expect("room for a small image")
}

fn created_and_published(path: &Path, len: u64) -> MappedFile {
    let file = create(path, len);
    file.publish().expect("the name is free");
    file
}

fn open(path: &Path, access: Access) -> Result<MappedFile, ImageError> {
    MappedFile::open(path, access, &MapOptions::default())
}

#[test]
fn created_published_and_found_again() {
    each_place(|directory| {
        let path = directory.join("image");
        let file = create(&path, 3 * MIB);
        assert!(!path.exists(), "unpublished, it has another name");
        assert!(directory.join(".image.creating").exists());
        assert_eq!(file.len(), 3 * MIB);
        assert_eq!(file.base().addr() % (2 << 20), 0, "aligned to a huge page");
        assert!((0..3 * MIB).step_by(4096).all(|at| load(&file, at) == 0));
        store(&file, 0, 11);
        store(&file, 3 * MIB - 1, 22);
        file.publish().expect("the name is free");
        file.publish().expect("a second time does nothing");
        assert!(path.exists());
        assert!(!directory.join(".image.creating").exists());

        let metadata = path.metadata().expect("metadata");
        assert!(metadata.blocks() * 512 >= 3 * MIB, "no holes: {} blocks", metadata.blocks());
        assert_eq!((file.identity().device, file.identity().inode), (metadata.dev(), metadata.ino()));
        file.sync("test").expect("synced");
        let (identity, real) = (file.identity(), file.path().to_path_buf());
        drop(file);

        let file = open(&path, Access::ReadWrite).expect("there");
        assert_eq!((load(&file, 0), load(&file, 3 * MIB - 1)), (11, 22));
        assert_eq!((file.identity(), file.path()), (identity, real.as_path()));
        assert_eq!(file.placement().path, real);
    });
}

#[test]
fn dropped_before_publishing_nothing_is_left() {
    each_place(|directory| {
        drop(create(&directory.join("image"), MIB));
        assert_eq!(directory.read_dir().expect("a directory").count(), 0);
    });
}

#[test]
fn nothing_is_ever_replaced() {
    each_place(|directory| {
        let path = directory.join("image");
        let file = create(&path, MIB);
        // Another process takes the name in the meantime.
        std::fs::write(&path, "precious").expect("a file");
        assert!(matches!(file.publish(), Err(ImageError::Exists { .. })));
        drop(file);
        let error = MappedFile::create(&path, MIB, &MapOptions::default()).expect_err("the name is taken");
        assert!(error.to_string().contains("already exists; open it"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("still there"), "precious");
        assert_eq!(directory.read_dir().expect("a directory").count(), 1);

        // A dangling link counts as existing, too.
        std::os::unix::fs::symlink("nowhere", directory.join("link")).expect("a link");
        let error = MappedFile::create(&directory.join("link"), MIB, &MapOptions::default());
        assert!(matches!(error, Err(ImageError::Exists { .. })), "{error:?}");
    });
}

#[test]
fn what_a_crash_left_of_a_creation_is_removed() {
    each_place(|directory| {
        let left = directory.join(".image.creating");
        std::fs::write(&left, "half an image").expect("a file");
        let file = created_and_published(&directory.join("image"), MIB);
        assert_eq!(load(&file, 0), 0, "nothing of it shows through");
        assert!(!left.exists());
    });
}

#[test]
fn a_creation_going_on_is_respected() {
    each_place(|directory| {
        let path = directory.join("image");
        let first = create(&path, MIB);
        let second = MappedFile::create(&path, MIB, &MapOptions::default());
        assert!(matches!(second, Err(ImageError::Held { .. })), "{second:?}");
        first.publish().expect("unharmed");
    });
}

#[test]
fn of_many_creators_one_wins() {
    each_place(|directory| {
        let path = directory.join("image");
        std::fs::write(directory.join(".image.creating"), "stale").expect("a file");
        let attempt = || match MappedFile::create(&path, MIB, &MapOptions::default()) {
            Ok(file) => file.publish().is_ok(),
            Err(ImageError::Held { .. } | ImageError::Exists { .. }) => false,
            Err(error) => panic!("{error}"),
        };
        let wins = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(attempt)).collect();
            threads.into_iter().filter_map(|thread| thread.join().expect("no panic").then_some(())).count()
        });
        assert_eq!(wins, 1);
        assert_eq!(directory.read_dir().expect("a directory").count(), 1);
    });
}

#[test]
fn one_writer_and_any_number_of_onlookers() {
    each_place(|directory| {
        let path = directory.join("image");
        let writer = created_and_published(&path, MIB);
        let error = open(&path, Access::ReadWrite).expect_err("a second writer");
        names_holder(&error, directory, "this very process");

        let onlooker = open(&path, Access::ReadOnly).expect("no lock in the way");
        store(&writer, 4097, 5);
        assert_eq!(load(&onlooker, 4097), 5);
        assert!(matches!(onlooker.grow(2 * MIB), Err(ImageError::ReadOnly)));
        assert!(matches!(onlooker.truncate_to(4096), Err(ImageError::ReadOnly)));
        assert_eq!(protection_of(&onlooker), "r--s");
        drop(writer);
        let writer = open(&path, Access::ReadWrite).expect("an onlooker does not keep a writer out");
        assert_eq!(protection_of(&writer), "rw-s");
    });
}

fn protection_of(file: &MappedFile) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("there is /proc");
    let start = format!("{:x}-", file.base().addr());
    let line = maps.lines().find(|line| line.starts_with(&start)).expect("mapped");
    line.split(' ').nth(1).expect("a protection").to_owned()
}

#[test]
fn grows_under_the_feet_of_readers() {
    each_place(|directory| {
        let file = created_and_published(&directory.join("image"), MIB);
        let base = file.base();
        let (stop, reading) = (AtomicBool::new(false), Barrier::new(4));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        reading.wait();
                        loop {
                            // Read first, so that the last pass covers the final length.
                            let last = stop.load(Ordering::Acquire);
                            let len = file.len();
                            for at in (0..len).step_by(4096) {
                                assert!(matches!(load(&file, at), 0 | 7));
                            }
                            if last {
                                return len;
                            }
                        }
                    })
                })
                .collect();
            reading.wait();
            // Steps that are no multiple of a huge page, nor of each other.
            for step in 1..=40 {
                let (old, new) = (file.len(), MIB + step * 160 * 1024);
                file.grow(new).expect("room");
                assert_eq!(file.len(), new);
                for at in (old..new).step_by(4096) {
                    assert_eq!(load(&file, at), 0, "zero at {at}");
                    store(&file, at, 7);
                }
            }
            stop.store(true, Ordering::Release);
            for reader in readers {
                assert_eq!(reader.join().expect("no reader saw anything odd"), file.len());
            }
        });
        assert_eq!(file.base(), base);
        file.grow(MIB).expect("already longer: nothing to do");
        assert_eq!(file.len(), MIB + 40 * 160 * 1024);
        let metadata = file.path().metadata().expect("metadata");
        assert_eq!(metadata.len(), file.len());
        assert!(metadata.blocks() * 512 >= file.len(), "no holes");
    });
}

#[test]
fn grows_no_further_than_agreed() {
    each_place(|directory| {
        let options = MapOptions { max_len: Some(4 * MIB), ..MapOptions::default() };
        let file = MappedFile::create(&directory.join("image"), MIB, &options).expect("room");
        assert_eq!(file.max_len(), 4 * MIB);
        file.grow(4 * MIB).expect("agreed");
        let error = file.grow(4 * MIB + 1).expect_err("more than agreed");
        assert!(error.to_string().contains("larger maximum length"), "{error}");
        store(&file, 4 * MIB - 1, 1);
        assert_eq!(file.len(), 4 * MIB);
    });
}

#[test]
fn an_unpublished_growth_can_be_cut() {
    each_place(|directory| {
        let path = directory.join("image");
        let file = created_and_published(&path, 6 * MIB);
        for at in (0..6 * MIB).step_by(1024) {
            store(&file, at, 9);
        }
        drop(file);
        let file = open(&path, Access::ReadWrite).expect("there");
        file.truncate_to(2 * MIB + 4096).expect("cut");
        assert_eq!(file.len(), 2 * MIB + 4096);
        assert_eq!(path.metadata().expect("metadata").len(), 2 * MIB + 4096);
        assert_eq!(load(&file, 2 * MIB), 9);
        file.grow(6 * MIB).expect("room");
        assert!(
            (2 * MIB + 4096..6 * MIB).step_by(1024).all(|at| load(&file, at) == 0),
            "zeros, not old bytes"
        );
        assert!(matches!(file.truncate_to(7 * MIB), Err(ImageError::Truncated { .. })));
        assert!(matches!(file.truncate_to(0), Err(ImageError::Invalid(_))));
        assert_eq!(file.len(), 6 * MIB);
    });
}

#[test]
fn holes_are_filled_when_opening_for_writing() {
    each_place(|directory| {
        let path = directory.join("image");
        let sparse = std::fs::File::create(&path).expect("a file");
        sparse.set_len(8 * MIB).expect("a hole");
        sparse.write_all_at(b"kept", 5 * MIB).expect("a write");
        drop(open(&path, Access::ReadOnly).expect("there"));
        assert!(path.metadata().expect("metadata").blocks() * 512 < 8 * MIB, "looking changes nothing");
        let file = open(&path, Access::ReadWrite).expect("there");
        assert!(path.metadata().expect("metadata").blocks() * 512 >= 8 * MIB);
        assert_eq!(load(&file, 5 * MIB), b'k');
        assert_eq!(load(&file, 4 * MIB), 0);
    });
}

#[test]
fn what_is_no_file_is_refused_with_a_reason() {
    each_place(|directory| {
        let empty = directory.join("empty");
        std::fs::write(&empty, "").expect("a file");
        for (path, reason) in [
            (empty.as_path(), "an empty file"),
            (directory, "a directory"),
            (Path::new("/dev/null"), "not persistent memory"),
        ] {
            let error = open(path, Access::ReadWrite).expect_err("no image");
            assert!(matches!(error, ImageError::Foreign { .. }), "{error}");
            assert!(error.to_string().contains(reason), "{error}");
        }
        let error = open(&directory.join("missing"), Access::ReadWrite).expect_err("nothing there");
        assert!(matches!(error, ImageError::Io { .. }), "{error}");
        let error = MappedFile::create(&directory.join("no/where"), MIB, &MapOptions::default());
        assert!(error.expect_err("no directory").to_string().contains("find the directory"));
        let error = MappedFile::create(&directory.join("image"), 0, &MapOptions::default());
        assert!(matches!(error, Err(ImageError::Invalid(_))));
    });
}

#[test]
fn a_link_leads_to_the_file() {
    each_place(|directory| {
        let path = directory.join("image");
        let identity = created_and_published(&path, MIB).identity();
        std::os::unix::fs::symlink("image", directory.join("link")).expect("a link");
        let file = open(&directory.join("link"), Access::ReadWrite).expect("there");
        assert_eq!(file.identity(), identity);
        assert!(file.path().ends_with("image"));
    });
}

#[test]
fn pages_are_reported() {
    each_place(|directory| {
        for huge_pages in [HugePages::Off, HugePages::Auto] {
            let options = MapOptions { huge_pages, ..MapOptions::default() };
            let file = MappedFile::create(&directory.join("image"), 7 * MIB, &options).expect("room");
            (0..7 * MIB).step_by(4096).for_each(|at| store(&file, at, 3));
            let report = file.page_report().expect("there is /proc");
            eprintln!("{} {huge_pages:?}: {report}", file.placement().file_system);
            assert_eq!(report.mapped_bytes, 7 * MIB);
            assert!(report.huge_bytes <= report.mapped_bytes, "{report:?}");
            assert!(report.page_size >= 4096);
            assert_eq!(report.huge_bytes % (2 << 20), 0);
            let json = serde_json::to_value(&report).expect("serialisable");
            assert_eq!(json["mapped_bytes"], 7 * MIB);
        }
    });
}

#[test]
fn small_pages_of_tmpfs_are_collapsed_at_opening() {
    let Some(directory) = shm() else { return };
    let path = directory.path().join("image");
    let off = MapOptions { huge_pages: HugePages::Off, ..MapOptions::default() };
    let file = MappedFile::create(&path, 8 * MIB, &off).expect("room");
    file.publish().expect("the name is free");
    (0..8 * MIB).for_each(|at| store(&file, at, (at % 251) as u8));
    let before = file.page_report().expect("there is /proc").huge_bytes;
    drop(file);
    let file = open(&path, Access::ReadWrite).expect("there");
    assert_eq!(file.placement().medium, Medium::Tmpfs);
    let after = file.page_report().expect("there is /proc").huge_bytes;
    eprintln!("huge pages: {before} bytes before, {after} after collapsing");
    assert!(after >= before);
    assert!((0..8 * MIB).all(|at| load(&file, at) == (at % 251) as u8), "collapsing changes no byte");
}

/// Large enough that several threads share the work, while other threads write to the old part.
#[test]
fn a_large_growth_has_huge_pages_and_changes_no_byte() {
    let Some(directory) = shm() else { return };
    let (old, new) = (5 * MIB + 4096, 205 * MIB + 8192);
    let options = MapOptions { max_len: Some(256 * MIB), ..MapOptions::default() };
    let file = MappedFile::create(&directory.path().join("image"), old, &options).expect("room");
    let grown = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0_u8;
            while !grown.load(Ordering::Acquire) || round < 2 {
                round = round.wrapping_add(1).max(2);
                for at in (0..old).step_by(512) {
                    store(&file, at, round);
                    assert_eq!(load(&file, at), round, "at {at}");
                }
            }
        });
        file.grow(new).expect("room");
        grown.store(true, Ordering::Release);
        writer.join().expect("no other writer has written there");
    });
    assert_eq!(file.len(), new);
    assert!((old..new).step_by(4096).all(|at| load(&file, at) == 0), "what is new is zero");
    let report = file.page_report().expect("there is /proc");
    if report.huge_bytes == 0 {
        eprintln!("SKIPPED: how many pages are huge: {report}");
        return;
    }
    // All but the ends, and pages that the kernel could not collapse at that moment.
    assert!(report.huge_bytes >= (new - old) * 9 / 10, "{report}");
}
