//! A full disk: clients, the log and monitoring report it, and reads continue.

use std::ffi::CString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;
use warpkeep::{CheckpointOptions, Store, StoreOptions};
use warpkeep_image::{CreateOptions, HeapOptions};
use warpkeep_log::LogOptions;
use warpkeep_server::Settings;

use crate::harness::{Client, Running, settings};

/// A small tmpfs, mounted for one test.
struct Mounted(TempDir);

impl Mounted {
    /// `None`, and a word about it, where that is not allowed.
    fn new(bytes: u64) -> Option<Mounted> {
        let directory = tempfile::tempdir().unwrap();
        let options = CString::new(format!("size={bytes}")).unwrap();
        match mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), &*options) {
            Ok(()) => Some(Mounted(directory)),
            Err(error) => {
                writeln!(
                    std::io::stdout().lock(),
                    "SKIPPED: a server on a full disk: cannot mount a tmpfs ({error})"
                )
                .unwrap();
                None
            }
        }
    }

    /// Takes all that is free.
    fn fill(&self) -> PathBuf {
        let filler = self.0.path().join("filler");
        // It writes as much as fits.
        let _ = std::fs::write(&filler, vec![1; 32 << 20]);
        filler
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

fn get(server: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(server.http.unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn wait_for(what: &str, mut until: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !until() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stores values until one is refused; gives the answer.
fn set_until_refused(client: &mut Client) -> String {
    let value = "v".repeat(1000);
    for number in 0..100_000 {
        let said = client.call(&["SET", &format!("key-{number}"), &value]);
        if said != "+OK\r\n" {
            return said;
        }
    }
    panic!("the disk is never full");
}

fn watched() -> Settings {
    Settings { http: Some(([127, 0, 0, 1], 0).into()), ..settings() }
}

/// No reserve and no checkpoints: the disk stays full.
fn options() -> StoreOptions {
    StoreOptions {
        log: LogOptions { segment_bytes: 256 << 10, backlog_bytes: 64 << 10, ..LogOptions::default() },
        create: CreateOptions { len: 4 << 20, ..CreateOptions::default() },
        checkpoints: CheckpointOptions::OFF,
        ..StoreOptions::default()
    }
}

/// What clients and monitoring see while writes are refused; `first` is a key that can be read.
fn check_told(server: &Running, first: &str) {
    wait_for("/readyz says that writes are refused", || {
        let answer = get(server, "/readyz");
        answer.starts_with("HTTP/1.1 503") && answer.contains("writes are refused")
    });
    assert!(server.resp().call(&["GET", first]).starts_with('$'));
    assert_ne!(server.resp().call(&["GET", first]), "$-1\r\n");
    // The rest of a segment may be enough for some.
    let (mut client, value, mut number) = (server.memcached(), "w".repeat(100_000), 0);
    wait_for("a large value is refused", || {
        number += 1;
        let said = client.say(&format!("set large-{number} 0 0 {}\r\n{value}\r\n", value.len()));
        assert!(said == "STORED\r\n" || said.starts_with("SERVER_ERROR disk full"), "{said}");
        said != "STORED\r\n"
    });
    let metrics = get(server, "/metrics");
    assert!(metrics.contains("warpkeep_server_refuses_writes 1"), "{metrics}");
    assert!(!metrics.contains("warpkeep_server_disk_full_total 0"), "{metrics}");
    let (stats, info) = (server.memcached().say("stats\r\n"), server.resp().call(&["INFO"]));
    assert!(
        stats.contains("STAT refuses_writes 1\r\n") && !stats.contains("disk_full_refusals 0\r"),
        "{stats}"
    );
    assert!(info.contains("refuses_writes:1\r\n") && !info.contains("disk_full_refusals:0\r"), "{info}");
    assert!(get(server, "/healthz").starts_with("HTTP/1.1 200"));
}

fn check_space_again(server: &Running) {
    wait_for("writes go on", || server.resp().call(&["SET", "again", "x"]) == "+OK\r\n");
    wait_for("/readyz says that it is ready", || get(server, "/readyz").starts_with("HTTP/1.1 200"));
}

#[test]
fn a_full_log_disk_is_told() {
    let Some(mounted) = Mounted::new(4 << 20) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let options = StoreOptions { image: Some(elsewhere.path().join("image")), ..options() };
    let server = Running::start_in(mounted.0.path(), watched(), options);
    let mut client = server.resp();
    client.call(&["SET", "first", "1"]);
    let filler = mounted.fill();
    let said = set_until_refused(&mut client);
    assert!(said.starts_with("-MISCONF disk full"), "{said}");
    check_told(&server, "first");
    std::fs::remove_file(filler).unwrap();
    check_space_again(&server);
}

#[test]
fn an_image_on_a_full_disk_is_no_want_of_memory() {
    let Some(mounted) = Mounted::new(16 << 20) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let options = StoreOptions { image: Some(mounted.0.path().join("image")), ..options() };
    let server = Running::start_in(elsewhere.path(), watched(), options);
    let mut client = server.resp();
    client.call(&["SET", "first", "1"]);
    let said = set_until_refused(&mut client);
    assert!(said.starts_with("-MISCONF disk full"), "{said}");
    check_told(&server, "first");
    rustix::mount::mount_remount(mounted.0.path(), MountFlags::empty(), c"size=64m").unwrap();
    check_space_again(&server);
    drop(server);

    // A limit that was set is one.
    let home = tempfile::tempdir().unwrap();
    let heap = HeapOptions { max_bytes: 32 << 20, ..HeapOptions::default() };
    let limited = Running::start_in(home.path(), watched(), StoreOptions { heap, ..self::options() });
    let said = set_until_refused(&mut limited.resp());
    assert!(said.starts_with("-OOM"), "{said}");
    assert!(get(&limited, "/readyz").starts_with("HTTP/1.1 200"));
}

/// Left as by a kill, on a disk without any space.
#[test]
fn a_server_starts_to_read_on_a_full_disk() {
    let Some(mounted) = Mounted::new(4 << 20) else { return };
    let elsewhere = tempfile::tempdir().unwrap();
    let options = || StoreOptions { image: Some(elsewhere.path().join("image")), ..options() };
    let server = Running::start_in(mounted.0.path(), watched(), options());
    server.resp().call(&["SET", "first", "1"]);
    server.stop();
    // Opened and not closed.
    drop(Store::open_with(mounted.0.path(), options()).unwrap());
    let filler = mounted.fill();
    let server = Running::start_in(mounted.0.path(), watched(), options());
    let said = server.resp().call(&["SET", "key", "x"]);
    assert!(said.starts_with("-MISCONF disk full"), "{said}");
    assert_eq!(server.resp().call(&["GET", "first"]), "$1\r\n1\r\n");
    check_told(&server, "first");
    server.stop();
    std::fs::remove_file(filler).unwrap();
    let server = Running::start_in(mounted.0.path(), watched(), options());
    assert_eq!(server.resp().call(&["GET", "first"]), "$1\r\n1\r\n");
    check_space_again(&server);
}
