//! The normal behaviour that clients see.

use std::time::{Duration, Instant};

use warpkeep::{Durability, StoreOptions};
use warpkeep_server::{Access, Settings};

use crate::harness::{Running, command, settings};

#[test]
fn both_protocols_see_the_same_items() {
    let server = Running::start(settings());
    let (mut memcached, mut redis) = (server.memcached(), server.resp());
    assert_eq!(memcached.say("set a 7 0 5\r\nhello\r\n"), "STORED\r\n");
    assert_eq!(redis.call(&["GET", "a"]), "$5\r\nhello\r\n");
    assert_eq!(redis.call(&["SET", "n", "41"]), "+OK\r\n");
    assert_eq!(
        memcached.say("incr n 1\r\nget a n nothing\r\n"),
        "42\r\nVALUE a 7 5\r\nhello\r\nVALUE n 0 2\r\n42\r\nEND\r\n"
    );
    assert_eq!(redis.call(&["DBSIZE"]), ":2\r\n");
}

#[test]
fn a_pipeline_sees_its_own_writes() {
    let server = Running::start(settings());
    let mut client = server.resp();
    let mut pipeline = Vec::new();
    let mut expected = String::new();
    for number in 1..=1000 {
        pipeline.extend(command(&["INCR", "n"]));
        pipeline.extend(command(&["GET", "n"]));
        expected += &format!(":{number}\r\n${}\r\n{number}\r\n", number.to_string().len());
    }
    assert_eq!(String::from_utf8(client.ask(&pipeline)).unwrap(), expected);

    let mut client = server.memcached();
    let said = client.say("set k 0 0 1\r\na\r\nappend k 0 0 1\r\nb\r\nget k\r\ndelete k\r\nget k\r\nadd k 0 0 1\r\nc\r\nget k\r\n");
    let expected = "STORED\r\nSTORED\r\nVALUE k 0 2\r\nab\r\nEND\r\nDELETED\r\nEND\r\nSTORED\r\nVALUE k 0 1\r\nc\r\nEND\r\n";
    assert_eq!(said, expected);
}

#[test]
fn cas_values_tell_changes_apart_within_a_pipeline() {
    let server = Running::start(settings());
    let mut client = server.memcached();
    let said = client.say("set k 0 0 1\r\na\r\ngets k\r\nset k 0 0 1\r\nb\r\ngets k\r\ngets k\r\n");
    let tokens: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("VALUE"))
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(tokens.len(), 3);
    assert!(tokens[0] != tokens[1] && tokens[1] == tokens[2], "{tokens:?}");
    // The first belongs to an item that was replaced before it was stored; only the last can be used.
    assert_eq!(client.say(&format!("cas k 0 0 1 {}\r\nx\r\n", tokens[0])), "EXISTS\r\n");
    assert_eq!(client.say(&format!("cas k 0 0 1 {}\r\nx\r\n", tokens[1])), "STORED\r\n");
}

#[test]
fn many_threads_add_to_one_number() {
    let server = Running::start(Settings { threads: 4, ..settings() });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.resp();
                let pipeline: Vec<u8> = (0..500).flat_map(|_| command(&["INCR", "shared"])).collect();
                client.ask(&pipeline);
            });
        }
    });
    assert_eq!(server.resp().call(&["GET", "shared"]), "$4\r\n4000\r\n");
}

#[test]
fn items_expire_at_once_and_are_removed() {
    let server = Running::start(settings());
    let mut client = server.resp();
    for number in 0..200 {
        client.call(&["SET", &format!("short-{number}"), "v", "PX", "60"]);
    }
    assert_eq!(client.call(&["SET", "long", "v", "PX", "100000"]), "+OK\r\n");
    std::thread::sleep(Duration::from_millis(80));
    assert_eq!(client.call(&["GET", "short-7"]), "$-1\r\n");
    assert_eq!(client.call(&["SET", "short-8", "again", "NX"]), "+OK\r\n");
    assert_eq!(client.call(&["GET", "long"]), "$1\r\nv\r\n");
    // Expired items that no client requests are removed, too.
    for _ in 0..500 {
        if client.call(&["DBSIZE"]) == ":2\r\n" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("there are still {}", client.call(&["DBSIZE"]));
}

#[test]
fn everything_is_thrown_away_on_request() {
    let server = Running::start(settings());
    let mut client = server.memcached();
    client.say("set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n");
    assert_eq!(
        client.say("flush_all\r\nget a b\r\nset a 0 0 1\r\nz\r\nget a b\r\n"),
        "OK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\nz\r\nEND\r\n"
    );
    assert_eq!(server.resp().call(&["DBSIZE"]), ":1\r\n");
    assert_eq!(server.resp().call(&["FLUSHALL"]), "+OK\r\n");
    assert_eq!(server.resp().call(&["DBSIZE"]), ":0\r\n");
    assert_eq!(
        client.say("set a 0 0 1\r\nx\r\nflush_all 1\r\nget a\r\n"),
        "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"
    );
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(client.say("get a\r\n"), "END\r\n");
}

#[test]
fn a_flush_to_come_is_not_forgotten_by_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let start = || Running::start_in(home.path(), settings(), StoreOptions::default());
    let server = start();
    assert_eq!(server.memcached().say("set a 0 0 1\r\nx\r\nflush_all 2\r\n"), "STORED\r\nOK\r\n");
    let asked = Instant::now();
    server.stop();
    let server = start();
    let mut client = server.memcached();
    while client.say("get a\r\n") != "END\r\n" {
        assert!(asked.elapsed() < Duration::from_secs(20), "it was forgotten");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(asked.elapsed() > Duration::from_millis(1500), "it came too early");

    // It may be long overdue when the server is started again: it is done before anything is served, and only once.
    client.say("set b 0 0 1\r\ny\r\nflush_all 1\r\n");
    server.stop();
    std::thread::sleep(Duration::from_millis(1100));
    let server = start();
    assert_eq!(server.memcached().say("get b\r\nset c 0 0 1\r\nz\r\n"), "END\r\nSTORED\r\n");
    server.stop();
    let server = start();
    assert_eq!(server.memcached().say("get c\r\n"), "VALUE c 0 1\r\nz\r\nEND\r\n");
    // An immediate flush replaces a later one.
    server.memcached().say("flush_all 1\r\nflush_all\r\nset d 0 0 1\r\nz\r\n");
    server.stop();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(start().memcached().say("get c d\r\n"), "VALUE d 0 1\r\nz\r\nEND\r\n");
}

#[test]
fn a_scan_gives_every_key() {
    let server = Running::start(settings());
    let mut client = server.resp();
    let pipeline: Vec<u8> =
        (0..5000).flat_map(|number| command(&["SET", &format!("key:{number}"), "v"])).collect();
    client.ask(&pipeline);
    let mut seen = std::collections::HashSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let said = client.call(&["SCAN", &cursor, "MATCH", "key:*", "COUNT", "100"]);
        let mut lines = said.split("\r\n").filter(|line| !line.starts_with(['*', '$']) && !line.is_empty());
        cursor = lines.next().unwrap().to_owned();
        seen.extend(lines.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 5000);
    assert!(client.call(&["RANDOMKEY"]).contains("key:"));
    assert_eq!(client.call(&["KEYS", "key:12?4"]).matches("key:").count(), 10);
    assert_eq!(client.call(&["SCAN", "0", "MATCH", "nothing", "COUNT", "100000"]), "*2\r\n$1\r\n0\r\n*0\r\n");
}

#[test]
fn resp3_has_its_own_nothing() {
    let server = Running::start(settings());
    let mut client = server.resp();
    assert_eq!(client.call(&["GET", "nothing"]), "$-1\r\n");
    assert!(client.call(&["HELLO", "3"]).starts_with("%7\r\n"));
    assert_eq!(client.call(&["GET", "nothing"]), "_\r\n");
    assert_eq!(client.call(&["MGET", "nothing"]), "*1\r\n_\r\n");
    assert!(client.call(&["INFO"]).contains("redis_version"));
    assert!(server.memcached().say("stats\r\n").contains("STAT curr_items 0\r\n"));
}

#[test]
fn a_password_is_asked_of_both() {
    let access = Access { password: Some("open sesame".into()) };
    let server = Running::start(Settings { access, ..settings() });

    // As in memcached, a refused client may try again.
    let mut client = server.memcached();
    let said = client.say("get a\r\nset x 0 0 9\r\nme wrong!\r\nset x 0 0 14\r\nme open sesame\r\nget x\r\n");
    assert_eq!(
        said,
        "CLIENT_ERROR unauthenticated\r\nCLIENT_ERROR authentication failure\r\nSTORED\r\nEND\r\n"
    );
    let mut client = server.memcached();
    assert_eq!(client.say("set x 0 0 14\r\nme open sesame\r\nget x\r\n"), "STORED\r\nEND\r\n");

    let mut client = server.resp();
    client.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let pipeline = [
        command(&["GET", "a"]),
        command(&["AUTH", "wrong"]),
        command(&["AUTH", "default", "open sesame"]),
        command(&["GET", "a"]),
    ];
    let said = String::from_utf8(client.ask(&pipeline.concat())).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("-NOAUTH") && lines[1].starts_with("-WRONGPASS"), "{lines:?}");
    assert_eq!(lines[2..], ["+OK", "$-1"]);

    // Before that, no one can make the server keep much.
    let mut client = server.resp();
    std::io::Write::write_all(&mut client.stream, b"*2\r\n$3\r\nGET\r\n$100000\r\n").unwrap();
    assert!(client.rest().starts_with(b"-ERR Protocol error: the command is too long"));
}

#[test]
fn everything_is_there_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    for durability in [Durability::Process, Durability::Power] {
        let settings = || Settings { durability, ..settings() };
        let server = Running::start_in(home.path(), settings(), StoreOptions::default());
        let mut client = server.memcached();
        client.say("flush_all\r\nset a 5 0 3\r\nabc\r\nset gone 0 0 1\r\nx\r\nset short 0 1000 1\r\ny\r\ndelete gone\r\n");
        let before = client.say("gets a\r\nmg short t\r\n");
        server.stop();
        let server = Running::start_in(home.path(), settings(), StoreOptions::default());
        let mut client = server.memcached();
        assert_eq!(client.say("gets a\r\nmg short t\r\n")[..40], before[..40]);
        assert_eq!(
            client.say("get a gone short\r\n"),
            "VALUE a 5 3\r\nabc\r\nVALUE short 0 1\r\ny\r\nEND\r\n"
        );
    }
}

#[test]
fn what_was_sent_before_the_end_is_answered() {
    let server = Running::start(settings());
    let mut client = server.resp();
    std::io::Write::write_all(&mut client.stream, &command(&["SET", "a", "1"])).unwrap();
    std::io::Write::write_all(&mut client.stream, &command(&["SHUTDOWN"])).unwrap();
    assert_eq!(client.rest(), b"+OK\r\n");
    server.stop();
}

#[test]
fn what_cannot_be_promised_is_not() {
    let home = tempfile::tempdir().unwrap();
    let store = warpkeep::Store::open_with(
        home.path(),
        StoreOptions { without_log: true, ..StoreOptions::default() },
    );
    let server =
        warpkeep_server::Server::bind(Settings { durability: Durability::Power, ..settings() }).unwrap();
    let refused = server.run(&store.unwrap(), || true).unwrap_err();
    assert!(refused.to_string().contains("has no log"), "{refused}");
}

#[test]
fn numbers_keep_their_length_as_memcached_has_it() {
    let server = Running::start(settings());
    let said = server.memcached().say(
        "set n 0 0 2\r\n10\r\ndecr n 1\r\nget n\r\nincr n 100\r\nincr n 18446744073709551615\r\ndecr n 99999\r\nget n\r\nma n MD v\r\n",
    );
    let expected = "STORED\r\n9\r\nVALUE n 0 2\r\n9 \r\nEND\r\n109\r\n108\r\n0\r\nVALUE n 0 3\r\n0  \r\nEND\r\nVA 1\r\n0\r\n";
    assert_eq!(said, expected);
}

#[test]
fn a_device_looks_keys_up() {
    let device = warpkeep::DeviceChoice::Sim;
    if warpkeep::Device::open(device).is_err() {
        return crate::peers::skip("there is no simulator; it is built where there is a C++17 compiler");
    }
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions { device, ..StoreOptions::default() };
    let server = Running::start_in(home.path(), Settings { threads: 1, ..settings() }, options);
    let mut client = server.resp();
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    let sets: Vec<u8> = keys.iter().flat_map(|key| command(&["SET", key, &key.repeat(3)])).collect();
    assert_eq!(client.ask(&sets), "+OK\r\n".repeat(200).into_bytes());
    let mut words = vec!["MGET", "nothing"];
    words.extend(keys.iter().map(String::as_str));
    let expected: String =
        keys.iter().map(|key| format!("${}\r\n{}\r\n", 3 * key.len(), key.repeat(3))).collect();
    assert_eq!(client.call(&words), format!("*201\r\n$-1\r\n{expected}"));
    assert!(server.memcached().say("stats\r\n").contains("STAT device sim\r\nSTAT device_bytes "));
    assert!(client.call(&["INFO"]).contains("\r\n\r\n# Device\r\ndevice:sim\r\n"));
    assert_eq!(client.call(&["INCR", "n"]), ":1\r\n");
    assert_eq!(client.call(&["FLUSHALL"]), "+OK\r\n");
    assert_eq!(client.call(&["EXISTS", "key-1", "n"]), ":0\r\n");
}
