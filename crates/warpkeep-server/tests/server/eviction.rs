//! A cache makes room; a store reports that it has none.

use std::ops::Range;
use std::path::Path;

use warpkeep::StoreOptions;
use warpkeep_server::{Eviction, Settings};

use crate::harness::{Client, Running, command, command_of, settings};

const LIMIT: u64 = 64 << 20;

fn limited(evict: bool) -> (tempfile::TempDir, Running) {
    let home = tempfile::tempdir().unwrap();
    let server = limited_in(home.path(), Settings { evict, threads: 1, ..settings() });
    (home, server)
}

fn limited_in(home: &Path, settings: Settings) -> Running {
    let mut options = StoreOptions { without_log: true, ..StoreOptions::default() };
    options.heap.max_bytes = LIMIT;
    options.create.chunk_size = warpkeep_server::chunk_size(LIMIT);
    Running::start_in(home, Settings { max_memory: LIMIT, ..settings }, options)
}

/// Stores items `from..to` with values of this length; gives how many were stored and how many refused.
fn store(client: &mut Client, name: &str, numbers: Range<usize>, len: usize) -> (usize, usize) {
    let value = vec![b'v'; len];
    let (mut stored, mut refused) = (0, 0);
    for group in numbers.step_by(500).map(|from| from..from + 500) {
        let set = |number: usize| command_of(&[b"SET", format!("{name}-{number}").as_bytes(), &value]);
        let said = String::from_utf8(client.ask(&group.flat_map(set).collect::<Vec<u8>>())).unwrap();
        stored += said.matches("+OK\r\n").count();
        refused += said.matches("-OOM ").count();
    }
    (stored, refused)
}

/// How many of some items are there, with values of this length.
fn present(client: &mut Client, name: &str, numbers: Range<usize>, len: usize) -> usize {
    let ask = |number: usize| command(&["STRLEN", &format!("{name}-{number}")]);
    let said = client.ask(&numbers.flat_map(ask).collect::<Vec<u8>>());
    String::from_utf8(said).unwrap().matches(&format!(":{len}\r\n")).count()
}

/// A cache that is full of one size of value makes room for another, by either policy.
#[test]
fn a_full_cache_takes_another_size_of_value() {
    for eviction in [Eviction::Frequency, Eviction::Clock] {
        let home = tempfile::tempdir().unwrap();
        let server = limited_in(home.path(), Settings { evict: true, eviction, ..settings() });
        let mut client = server.resp();
        assert_eq!(store(&mut client, "a", 0..150_000, 500), (150_000, 0), "{eviction:?}");
        for len in [800, 30, 3000, 90_000] {
            // More than fits, except for the shortest.
            let count = if len < 800 { 20_000 } else { 100_000_000 / len / 500 * 500 };
            let name = format!("b{len}");
            assert_eq!(store(&mut client, &name, 0..count, len), (count, 0), "{eviction:?}, {len} bytes");
            // The newest are there, and memory has been reassigned to them. Few are requested, because requested
            // items stay.
            let last = present(&mut client, &name, count - 100..count, len);
            assert!(last > 70, "{eviction:?}: {last} of the last 100 with {len} bytes");
        }
        let info = client.call(&["INFO"]);
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        assert!(used.parse::<u64>().unwrap() <= LIMIT, "{used}");
    }
}

/// Without eviction, deleted items make room for values of another size, also after a restart.
#[test]
fn a_store_takes_another_size_of_value_when_most_is_deleted() {
    for restarts in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut server = limited_in(home.path(), settings());
        let mut client = server.resp();
        let (stored, refused) = store(&mut client, "a", 0..150_000, 500);
        assert!(stored > 80_000 && refused > 10_000, "{stored} stored, {refused} refused");
        let gone = |number: &usize| !number.is_multiple_of(10);
        for group in (0..stored).step_by(1000) {
            let delete = |number: usize| command(&["DEL", &format!("a-{number}")]);
            client.ask(&(group..group + 1000).filter(gone).flat_map(delete).collect::<Vec<u8>>());
        }
        if restarts {
            drop(client);
            server.stop();
            server = limited_in(home.path(), settings());
            client = server.resp();
        }
        assert_eq!(store(&mut client, "b", 0..20_000, 800), (20_000, 0), "restarted: {restarts}");
        assert_eq!(present(&mut client, "b", 0..20_000, 800), 20_000);
        let left = (0..stored).step_by(10).count();
        let ask = |number: usize| command(&["STRLEN", &format!("a-{number}")]);
        let said = client.ask(&(0..stored).step_by(10).flat_map(ask).collect::<Vec<u8>>());
        assert_eq!(String::from_utf8(said).unwrap().matches(":500\r\n").count(), left);
    }
}

/// A store that is full of one size has no space for another table, which emptying it needs.
#[test]
fn a_full_store_can_be_emptied() {
    let (_home, server) = limited(false);
    let mut client = server.resp();
    for round in 0..3 {
        let (stored, refused) = store(&mut client, "a", 0..150_000, 500);
        assert!(stored > 80_000 && refused > 10_000, "{stored} stored, {refused} refused in round {round}");
        assert_eq!(client.call(&["FLUSHALL"]), "+OK\r\n");
        assert_eq!(client.call(&["DBSIZE"]), ":0\r\n");
    }
    assert_eq!(store(&mut client, "b", 0..20_000, 800), (20_000, 0));
}

/// Stores more than there is room for; gives how many were stored and how many refused.
fn fill(server: &Running) -> (usize, usize) {
    let mut client = server.resp();
    let value = vec![b'v'; 100_000];
    let (mut stored, mut refused) = (0, 0);
    for group in 0..100 {
        let mut pipeline = command_of(&[b"GET", b"precious"]);
        for number in 0..10 {
            pipeline.extend(command_of(&[b"SET", format!("key-{group}-{number}").as_bytes(), &value]));
        }
        let said = String::from_utf8(client.ask(&pipeline)).unwrap();
        stored += said.matches("+OK\r\n").count();
        refused += said.matches("-OOM ").count();
    }
    (stored, refused)
}

#[test]
fn a_store_says_that_it_is_full() {
    let (_home, server) = limited(false);
    server.resp().call(&["SET", "precious", "1"]);
    let (stored, refused) = fill(&server);
    assert!(stored > 300 && refused > 300, "{stored} stored, {refused} refused");
    let mut client = server.memcached();
    // Stored items are there, and those that do not grow can still be changed.
    assert_eq!(
        client.say("get precious\r\ndelete precious\r\n"),
        "VALUE precious 0 1\r\n1\r\nEND\r\nDELETED\r\n"
    );
    let big = "x".repeat(500_000);
    let said = client.say(&format!("set big 0 0 500000\r\n{big}\r\nappend big 0 0 1\r\nx\r\nget big\r\n"));
    assert_eq!(said, "SERVER_ERROR out of memory storing object\r\nNOT_STORED\r\nEND\r\n");
}

#[test]
fn a_cache_throws_away_what_nobody_asks_for() {
    let (_home, server) = limited(true);
    server.resp().call(&["SET", "precious", "1"]);
    let (stored, refused) = fill(&server);
    assert_eq!((stored, refused), (1000, 0));
    let mut client = server.resp();
    assert_eq!(client.call(&["GET", "precious"]), "$1\r\n1\r\n");
    assert!(client.call(&["STRLEN", "key-99-9"]) == ":100000\r\n", "the newest was thrown away");
    let left: u64 = client.call(&["DBSIZE"])[1..].trim().parse().unwrap();
    assert!((300..700).contains(&left), "{left} are left");
}

#[test]
fn a_cache_under_pressure_keeps_its_limit_and_gives_nothing_wrong() {
    let home = tempfile::tempdir().unwrap();
    let server = limited_in(home.path(), Settings { evict: true, ..settings() });
    let counts = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4_u64)
            .map(|number| {
                scope.spawn({
                    let server = &server;
                    move || press(server, number)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let (stored, refused): (usize, usize) = counts.iter().fold((0, 0), |(s, r), c| (s + c.0, r + c.1));
    // Together twice as much as fits at a time.
    assert_eq!((stored, refused), (2400, 0));
    let info = server.resp().call(&["INFO"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    assert!(used.parse::<u64>().unwrap() <= LIMIT, "{used}");
}

/// Stores values of many sizes and requests earlier ones: each has its last value, or is gone. Returns how many
/// were stored and refused.
fn press(server: &Running, number: u64) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(number);
    let mut client = server.resp();
    let mut last = std::collections::HashMap::new();
    let (mut stored, mut refused) = (0, 0);
    for round in 0..600_u32 {
        let key = format!("client-{number}-{}", random.u32(..300));
        let value = round.to_string().repeat(random.usize(1..80_000));
        let said = client.ask(&command_of(&[b"SET", key.as_bytes(), value.as_bytes()]));
        match &said[..] {
            b"+OK\r\n" => {
                stored += 1;
                last.insert(key, value);
            }
            // Earlier items stay.
            said => {
                assert!(said.starts_with(b"-OOM"), "{:?}", String::from_utf8_lossy(said));
                refused += 1;
            }
        }
        let asked = format!("client-{number}-{}", random.u32(..300));
        let said = client.ask(&command_of(&[b"GET", asked.as_bytes()]));
        let expected = last.get(&asked).map(|value| format!("${}\r\n{value}\r\n", value.len()));
        assert!(
            said == b"$-1\r\n" || expected.is_some_and(|expected| expected.as_bytes() == said),
            "{asked} is not what was stored"
        );
    }
    (stored, refused)
}
