//! No space left: an error, never a signal, and the image stays good.

use std::path::Path;

use warpkeep_image::{Access, Backing, HugePages, ImageError, MapOptions, MappedFile, Medium};

use super::places::{Mounted, load, store};
use super::{MIB, created_and_published, open};

/// Fills a file system of about 16 MiB, twice over.
fn fill(directory: &Path, options: &MapOptions) {
    let path = directory.join("image");
    let error = MappedFile::create(&path, 64 * MIB, options).expect_err("more than there is");
    assert!(matches!(error, ImageError::OutOfSpace { .. }), "{error}");
    eprintln!("at creation: {error}");
    assert_eq!(names(directory), Vec::<String>::new(), "nothing is left of it");

    let file = MappedFile::create(&path, 4 * MIB, options).expect("room");
    file.publish().expect("the name is free");
    (0..4 * MIB).step_by(512).for_each(|at| store(&file, at, 1));
    for wanted in [64 * MIB, 19 * MIB] {
        let error = file.grow(wanted).expect_err("more than there is");
        assert!(matches!(error, ImageError::OutOfSpace { .. }), "{error}");
        eprintln!("at growth: {error}");
        assert_eq!(file.len(), 4 * MIB);
        assert_eq!(path.metadata().expect("metadata").len(), 4 * MIB);
        assert!((0..4 * MIB).step_by(512).all(|at| load(&file, at) == 1));
        (0..4 * MIB).step_by(512).for_each(|at| store(&file, at, 1));
    }
    file.grow(6 * MIB).expect("what was refused was given back");

    // With other files filling up the rest, every byte of the image must still take stores.
    let mut filler = 0;
    while std::fs::write(directory.join(format!("filler-{filler}")), vec![1; MIB as usize]).is_ok() {
        filler += 1;
        assert!(filler < 64, "not as small as meant");
    }
    (0..6 * MIB).for_each(|at| store(&file, at, 2));
    let error = file.grow(6 * MIB + 4 * MIB).expect_err("full");
    assert!(matches!(error, ImageError::OutOfSpace { .. }), "{error}");
    file.sync("test").expect("synced");
    drop(file);
    let file = open(&path, Access::ReadWrite).expect("there");
    assert!((0..6 * MIB).all(|at| load(&file, at) == 2));
}

fn names(directory: &Path) -> Vec<String> {
    let names = directory.read_dir().expect("a directory");
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "lost+found").collect()
}

#[test]
fn a_full_tmpfs() {
    for huge_pages in [HugePages::Off, HugePages::Auto] {
        let Some(small) = Mounted::new("tmpfs", "size=16m") else { return };
        fill(small.path(), &MapOptions { huge_pages, ..MapOptions::default() });
    }
}

#[test]
fn a_full_ramfs_has_no_bound_but_files_take_their_space() {
    let Some(memory) = Mounted::new("ramfs", "") else { return };
    let file = created_and_published(&memory.path().join("image"), 3 * MIB);
    assert_eq!(file.placement().file_system, "ramfs");
    assert_eq!(file.placement().medium, Medium::Tmpfs);
    assert!(!file.placement().cuda_registrable);
    file.grow(5 * MIB).expect("memory");
    (0..5 * MIB).step_by(4096).for_each(|at| store(&file, at, 1));
}

#[test]
fn a_full_disk() {
    // An ordinary file system small enough to fill, in a file.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (disk, point) = (directory.path().join("disk"), directory.path().join("mounted"));
    std::fs::File::create(&disk).and_then(|file| file.set_len(20 * MIB)).expect("a file");
    std::fs::create_dir(&point).expect("a directory");
    let run = |program: &str, arguments: &[&Path]| {
        let done = std::process::Command::new(program).args(arguments).output();
        done.is_ok_and(|output| output.status.success())
    };
    let made = run("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), "-m".as_ref(), "0".as_ref(), &disk]);
    if !made || !run("mount", &["-o".as_ref(), "loop".as_ref(), &disk, &point]) {
        eprintln!("SKIPPED: cannot make and mount a small ext4");
        return;
    }
    let filled = std::panic::catch_unwind(|| fill(&point, &MapOptions::default()));
    // Lazily: a process that another test starts at this moment has our files open until it runs its own program.
    assert!(run("umount", &["-l".as_ref(), &point]), "left mounted: {}", point.display());
    if let Err(panic) = filled {
        std::panic::resume_unwind(panic);
    }
}

/// Huge pages set aside for one test.
struct HugePool {
    before: String,
}

impl HugePool {
    const COUNT: &str = "/proc/sys/vm/nr_hugepages";

    fn of(pages: u64) -> Option<Self> {
        let before = std::fs::read_to_string(Self::COUNT).ok()?;
        let pool = Self { before };
        if pool.before.trim() != "0" {
            eprintln!("SKIPPED: the pool of huge pages is in use");
            return None;
        }
        let set = std::fs::write(Self::COUNT, pages.to_string());
        let count = std::fs::read_to_string(Self::COUNT).unwrap_or_default();
        if set.is_err() || count.trim() != pages.to_string() {
            eprintln!("SKIPPED: cannot set {pages} huge pages aside ({set:?}, got {})", count.trim());
            return None;
        }
        Some(pool)
    }
}

impl Drop for HugePool {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::COUNT, &self.before);
    }
}

#[test]
fn hugetlbfs_has_what_was_set_aside() {
    let Some(_pool) = HugePool::of(6) else { return };
    let Some(huge) = Mounted::new("hugetlbfs", "pagesize=2M") else { return };
    let path = huge.path().join("image");
    let odd = MappedFile::create(&path, 3 * MIB, &MapOptions::default()).expect_err("not whole pages");
    assert!(odd.to_string().contains("multiple of 2 MiB"), "{odd}");
    let file = created_and_published(&path, 4 * MIB);
    let placement = file.placement().clone();
    assert_eq!((placement.medium, placement.page_size), (Medium::Hugetlbfs, 2 << 20));
    assert!(placement.cuda_registrable);
    (0..4 * MIB).step_by(4096).for_each(|at| store(&file, at, 1));
    file.grow(8 * MIB).expect("two more pages");
    let error = file.grow(64 * MIB).expect_err("more than was set aside");
    eprintln!("{error}");
    assert!(error.to_string().contains("vm.nr_hugepages"), "{error}");
    assert!(error.to_string().contains("4 MiB free"), "{error}");
    assert_eq!(path.metadata().expect("metadata").len(), 8 * MIB);
    (0..8 * MIB).step_by(4096).for_each(|at| store(&file, at, 2));
    file.grow(12 * MIB).expect("what was refused was given back");
    let report = file.page_report().expect("there is /proc");
    assert_eq!((report.huge_bytes, report.page_size), (12 * MIB, 2 << 20), "{report}");
    drop(file);
    let file = open(&path, Access::ReadWrite).expect("there");
    assert_eq!((load(&file, 0), load(&file, 11 * MIB)), (2, 0));
}
