//! Placements of this machine. Media it lacks (persistent memory) are tested beside the code, on prepared text.

use std::path::Path;

use warpkeep_image::{Domain, ImageError, Medium, Placement, Survival};

fn of(path: &Path) -> Placement {
    Placement::of(path).expect("a placement")
}

#[test]
fn a_file_and_a_file_to_be_are_placed_alike() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("image");
    let before = of(&path);
    std::fs::write(&path, "x").expect("a file");
    let after = of(&path);
    assert_eq!(before.path, path.canonicalize().expect("there"));
    assert_eq!(before.path, after.path);
    assert_eq!((before.medium, &before.file_system), (after.medium, &after.file_system));
    assert_eq!(before.mount_point, after.mount_point);
    assert!(path.canonicalize().expect("there").starts_with(&before.mount_point));
    assert!(before.survives_process);
    assert!(before.can_grow);
    assert_eq!(before.page_size, rustix::param::page_size() as u64);
    assert!(before.free_bytes > 0 && before.free_bytes <= before.total_bytes);
}

#[test]
fn the_disk() {
    let placement = of(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("image"));
    if placement.medium != Medium::Disk {
        eprintln!("SKIPPED: the build directory is on {}", placement.file_system);
        return;
    }
    assert_eq!(placement.survives_machine, Survival::AfterSync);
    assert!(!placement.cuda_registrable);
    assert_eq!(placement.domain(), Domain::Coherent);
}

#[test]
fn shared_memory() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: no directory in /dev/shm");
        return;
    };
    let placement = of(&directory.path().join("image"));
    assert_eq!((placement.medium, placement.file_system.as_str()), (Medium::Tmpfs, "tmpfs"));
    assert_eq!(placement.survives_machine, Survival::Never);
    assert!(placement.cuda_registrable);
    assert_eq!(placement.domain(), Domain::Coherent);
    let container = placement.total_bytes == 64 << 20;
    assert_eq!(container, placement.warnings.iter().any(|warning| warning.contains("--shm-size")));

    let told = placement.to_string();
    assert!((4..8).contains(&told.lines().count()), "{told}");
    for part in
        ["tmpfs at /dev/shm", "the process dies: everything", "the machine goes down: the image is gone"]
    {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
}

#[test]
fn links_are_followed() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: no directory in /dev/shm");
        return;
    };
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    std::os::unix::fs::symlink(memory.path(), disk.path().join("link")).expect("a link");
    let placement = of(&disk.path().join("link/image"));
    assert_eq!(placement.medium, Medium::Tmpfs);
    assert_eq!(placement.path, memory.path().canonicalize().expect("there").join("image"));
}

#[test]
fn what_holds_no_image_is_refused() {
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for path in [disk.path(), Path::new("/dev/null"), Path::new("/")] {
        let error = Placement::of(path).expect_err("no place for an image");
        assert!(matches!(error, ImageError::Foreign { .. }), "{error}");
    }
    let error = Placement::of(&disk.path().join("no/image")).expect_err("no directory");
    assert!(matches!(error, ImageError::Io { .. }), "{error}");
    let error = Placement::of(Path::new("")).expect_err("no name");
    assert!(matches!(error, ImageError::Invalid(_)), "{error}");
}

#[test]
fn told_to_programs() {
    let json = serde_json::to_value(of(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("image")));
    let json = json.expect("serialisable");
    for field in ["path", "mount_point", "free_bytes", "survives_process", "warnings", "page_size"] {
        assert!(!json[field].is_null(), "{field} is missing: {json}");
    }
    let word = |value: serde_json::Value| value.as_str().expect("a word").to_owned();
    assert_eq!(word(serde_json::to_value(Medium::DevDax).expect("serialisable")), "devdax");
    assert_eq!(word(serde_json::to_value(Survival::AfterSync).expect("serialisable")), "after-sync");
    assert_eq!(word(serde_json::to_value(Domain::WriteBack).expect("serialisable")), "write-back");
}
