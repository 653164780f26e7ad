//! Many connections at once, and their cost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::harness::Client;
use crate::kill::{Kind, Victim};

const CROWD: usize = 10_000;

/// Raises the limit on open files of this process and its children. Returns whether that was permitted.
fn open_files(wanted: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if enough(limit.current) {
        return true;
    }
    let maximum = if enough(limit.maximum) { limit.maximum } else { Some(wanted) };
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok()
}

/// Memory of a process that is there, in MiB.
fn resident(victim: &Victim) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", victim.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn connect(victim: &Victim) -> TcpStream {
    let stream = TcpStream::connect(victim.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), String::from_utf8_lossy(expected));
}

#[test]
fn ten_thousand_connections_are_served_in_little_memory() {
    if !open_files(CROWD as u64 + 500) {
        let why = "this process may not have 10500 files open (ulimit -n)";
        return writeln!(std::io::stdout().lock(), "SKIPPED: {why}").unwrap();
    }
    let home = tempfile::tempdir().unwrap();
    let victim = Victim::start(home.path(), Kind::Bare);
    let before = resident(&victim);
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| connect(&victim)).collect();
    for (number, stream) in crowd.iter_mut().enumerate() {
        write!(stream, "set key-{number} 0 0 5\r\n{number:05}\r\n").unwrap();
    }
    crowd.iter_mut().for_each(|stream| expect(stream, b"STORED\r\n"));
    let idle = resident(&victim) - before;
    // Half a command, and nothing more for the time being.
    for (number, stream) in crowd.iter_mut().enumerate() {
        write!(stream, "get key-{number}").unwrap();
    }
    let mut one_more = Client::memcached(victim.address);
    assert_eq!(one_more.say("get key-7\r\n"), "VALUE key-7 0 5\r\n00007\r\nEND\r\n");
    let halves = resident(&victim) - before;
    crowd.iter_mut().for_each(|stream| stream.write_all(b"\r\n").unwrap());
    for (number, stream) in crowd.iter_mut().enumerate() {
        expect(stream, format!("VALUE key-{number} 0 5\r\n{number:05}\r\nEND\r\n").as_bytes());
    }
    assert!(one_more.say("stats\r\n").contains(&format!("STAT curr_connections {}\r\n", CROWD + 1)));
    writeln!(
        std::io::stdout().lock(),
        "server: {CROWD} connections, {idle} MiB when idle, {halves} MiB with half a command each"
    )
    .unwrap();
    // A receive buffer for each of them would be 625 MiB. The amount depends on how many were served at a time,
    // because the allocator keeps some of their memory.
    assert!(idle < 350 && halves < 350, "{idle} and {halves} MiB");
    drop(crowd);
    let begun = Instant::now();
    while !one_more.say("stats\r\n").contains("STAT curr_connections 1\r\n") {
        assert!(begun.elapsed() < Duration::from_secs(20), "those that have gone are still counted");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn those_who_do_not_read_do_not_fill_the_memory() {
    const SLOW: usize = 20;
    let home = tempfile::tempdir().unwrap();
    let victim = Victim::start(home.path(), Kind::Bare);
    let value = "v".repeat(100_000);
    let set = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(Client::memcached(victim.address).say(&set), "STORED\r\n");
    let before = resident(&victim);
    // Together they ask for 20 GB.
    let mut slow: Vec<TcpStream> = (0..SLOW).map(|_| connect(&victim)).collect();
    let many = "get k\r\n".repeat(10_000);
    for stream in &mut slow {
        stream.write_all(many.as_bytes()).unwrap();
    }
    for _ in 0..20 {
        // Other clients are served meanwhile.
        assert_eq!(Client::memcached(victim.address).say("get nothing\r\n"), "END\r\n");
        std::thread::sleep(Duration::from_millis(10));
        let more = resident(&victim).saturating_sub(before);
        // For each a mebibyte that waits, and a batch at most beyond it.
        assert!(more < 400, "{more} MiB are held for {SLOW} clients who read nothing");
    }
    // A client that reads at last finds everything in order.
    expect(&mut slow[7], format!("VALUE k 0 100000\r\n{value}\r\nEND\r\nVALUE k 0 100000\r\n").as_bytes());
}
