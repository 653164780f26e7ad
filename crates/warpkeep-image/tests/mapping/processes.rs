//! Tests that need a process of their own: limits, a killed writer.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use warpkeep_image::{Access, Backing, Holder, ImageError, MapOptions, MappedFile, wait_until_gone};

use super::places::{each_place, load, names_holder, store};
use super::{MIB, create, created_and_published, open};

const ROLE: &str = "WARPKEEP_TEST_ROLE";
const PLACE: &str = "WARPKEEP_TEST_PLACE";

/// Starts this program once more, in another role.
fn child(role: &str, place: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "processes::child_process", "--nocapture"])
        .env(ROLE, role)
        .env(PLACE, place)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// Not a test of its own: the code of the other process.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(PLACE).expect("a place"));
    match role.as_str() {
        "hold" => hold(&place),
        "memlock" => short_of_locked_memory(&place),
        "addresses" => short_of_addresses(&place),
        "length" => short_of_file_length(&place),
        role => panic!("no role {role}"),
    }
}

fn runs_well(role: &str) {
    each_place(|directory| {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).expect("ours");
        let output = child(role, directory).wait_with_output().expect("a process");
        assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stdout));
    });
}

/// Lowers a limit of this process.
fn limit(resource: Resource, bytes: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(bytes), maximum }).expect("limits can be lowered");
}

#[test]
fn the_limit_of_locked_memory_is_named() {
    runs_well("memlock");
}

fn short_of_locked_memory(directory: &Path) {
    let options = MapOptions { lock_memory: true, ..MapOptions::default() };
    // Enough for a small image, and privilege must not help.
    limit(Resource::Memlock, 2 * MIB);
    // SAFETY: changes the user of this process only, which has no other task.
    if rustix::process::getuid().is_root() && unsafe { libc::setresuid(65534, 65534, 65534) } != 0 {
        eprintln!("SKIPPED: cannot give up privilege");
        return;
    }
    let error = MappedFile::create(&directory.join("large"), 8 * MIB, &options).expect_err("too much");
    assert!(matches!(error, ImageError::Limit { .. }), "{error}");
    let text = error.to_string();
    for part in ["RLIMIT_MEMLOCK", "the limit is 2 MiB", "ulimit -l", "LimitMEMLOCK", "--ulimit memlock=-1"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let file = MappedFile::create(&directory.join("small"), MIB, &options).expect("within the limit");
    let error = file.grow(8 * MIB).expect_err("beyond it");
    assert!(matches!(error, ImageError::Limit { .. }), "{error}");
    assert_eq!(file.len(), MIB);
    assert_eq!(directory.join(".small.creating").metadata().expect("metadata").len(), MIB);
    store(&file, MIB - 1, 1);
    file.grow(MIB + MIB / 2).expect("within the limit");
    let locked = std::fs::read_to_string("/proc/self/status").expect("there is /proc");
    let locked = locked.lines().find(|line| line.starts_with("VmLck")).expect("a line");
    assert!(locked.contains(" 1536 kB"), "{locked}");
}

#[test]
fn the_limit_of_addresses_is_named() {
    runs_well("addresses");
}

fn short_of_addresses(directory: &Path) {
    let used = std::fs::read_to_string("/proc/self/statm").expect("there is /proc");
    let used: u64 = used.split(' ').next().expect("a field").parse().expect("a number");
    limit(Resource::As, used * 4096 + 256 * MIB);
    let file = create(&directory.join("small"), MIB);
    let reserved = file.max_len();
    assert!((64 * MIB..=128 * MIB).contains(&reserved), "half of what is left: {reserved}");
    drop(vec![1_u8; 64 << 20]);
    let error = MappedFile::create(&directory.join("large"), 512 * MIB, &MapOptions::default());
    let error = error.expect_err("too much");
    assert!(matches!(error, ImageError::Limit { .. }), "{error}");
    assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
    assert!(!directory.join(".large.creating").exists());
}

#[test]
fn the_limit_of_file_length_is_an_error_and_not_a_signal() {
    runs_well("length");
}

fn short_of_file_length(directory: &Path) {
    limit(Resource::Fsize, 2 * MIB);
    let file = create(&directory.join("image"), MIB);
    let error = file.grow(3 * MIB).expect_err("too long");
    assert!(matches!(error, ImageError::Limit { .. }), "{error}");
    assert!(error.to_string().contains("RLIMIT_FSIZE"), "{error}");
    file.grow(2 * MIB).expect("within the limit");
}

/// Opens the image, stores something, reports it and stays.
fn hold(path: &Path) {
    let file = open(path, Access::ReadWrite).expect("free");
    store(&file, 12345, 99);
    println!("\nholding");
    std::thread::sleep(Duration::from_secs(60));
    panic!("no process came");
}

#[test]
fn a_killed_writer_is_named_waited_for_and_loses_nothing() {
    each_place(|directory| {
        let path = directory.join("image");
        drop(created_and_published(&path, MIB));
        let mut writer = child("hold", &path);
        let lines = BufReader::new(writer.stdout.take().expect("piped")).lines();
        let said = lines.map_while(Result::ok).any(|line| line == "holding");
        assert!(said, "the writer never opened the image");

        let error = open(&path, Access::ReadWrite).expect_err("held");
        names_holder(&error, directory, &format!("process {}", writer.id()));
        let holder = Holder { pid: u64::from(writer.id()), start_time: start_time(writer.id()) };
        assert!(holder.is_alive().expect("an answer"));
        assert!(holder.to_string().contains(&holder.command().expect("a name")));
        let begun = Instant::now();
        assert!(!wait_until_gone(&holder, Duration::from_millis(50)).expect("an answer"));
        assert!(begun.elapsed() >= Duration::from_millis(50));

        writer.kill().expect("killed");
        // It is not reaped yet: a zombie counts as ended.
        assert!(wait_until_gone(&holder, Duration::from_secs(20)).expect("an answer"), "still there");
        assert!(!holder.is_alive().expect("an answer"));
        let file = open(&path, Access::ReadWrite).expect("free again");
        assert_eq!(load(&file, 12345), 99, "what it stored is kept");
        writer.wait().expect("collected");
        assert!(!holder.is_alive().expect("an answer"));
        assert_eq!(holder.to_string(), format!("process {}", holder.pid));
    });
}

fn start_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after_name = stat.rsplit_once(')').expect("a name").1;
    after_name.split_whitespace().nth(19).expect("field 22").parse().expect("a number")
}

#[test]
fn a_number_used_again_is_another_process() {
    let me = Holder::current().expect("there is /proc");
    assert_eq!(me.pid, u64::from(std::process::id()));
    assert!(me.is_alive().expect("an answer"));
    assert!(me.command().is_some());
    let earlier = Holder { start_time: me.start_time - 1, ..me };
    assert!(!earlier.is_alive().expect("an answer"));
    assert_eq!(earlier.command(), None);
    for pid in [0, u64::from(u32::MAX), u64::MAX, 4_194_304] {
        assert!(!Holder { pid, start_time: 1 }.is_alive().expect("an answer"), "{pid}");
    }
}

#[test]
fn the_boot_has_a_name() {
    let id = warpkeep_image::boot_id().expect("there is /proc");
    assert_eq!(id, warpkeep_image::boot_id().expect("there is /proc"));
    assert_ne!(id, [0; 16]);
}
