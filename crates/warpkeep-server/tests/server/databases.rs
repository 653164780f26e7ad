//! Databases, commands on several keys, and the questions that clients ask at the start.

use warpkeep::StoreOptions;

use crate::harness::{Client, Running, command, settings};
use crate::peers::Peer;

#[test]
fn databases_are_apart() {
    let home = tempfile::tempdir().unwrap();
    let start = || Running::start_in(home.path(), settings(), StoreOptions::default());
    let server = start();
    let (mut first, mut second) = (server.resp(), server.resp());
    assert_eq!(second.call(&["SELECT", "3"]), "+OK\r\n");
    first.call(&["MSET", "a", "0", "b", "0"]);
    second.call(&["MSET", "a", "3", "c", "3"]);
    second.call(&["EXPIREAT", "c", "4102444800"]);
    assert_eq!(first.call(&["MGET", "a", "b", "c"]), "*3\r\n$1\r\n0\r\n$1\r\n0\r\n$-1\r\n");
    assert_eq!(second.call(&["MGET", "a", "b", "c"]), "*3\r\n$1\r\n3\r\n$-1\r\n$1\r\n3\r\n");
    // memcached's items are those of database 0, stored without a prefix.
    assert_eq!(server.memcached().say("get a c\r\n"), "VALUE a 0 1\r\n0\r\nEND\r\n");
    assert_eq!(second.call(&["KEYS", "c"]), "*1\r\n$1\r\nc\r\n");
    assert_eq!(
        second.call(&["SCAN", "0", "MATCH", "a", "COUNT", "1000"]),
        "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n"
    );
    assert_eq!(second.call(&["COPY", "c", "d", "DB", "7"]), ":1\r\n");
    assert_eq!(second.call(&["MOVE", "a", "0"]), ":0\r\n");
    let info = first.call(&["INFO"]);
    for line in ["db0:keys=2,", "db3:keys=2,", "db7:keys=1,"] {
        assert!(info.contains(line), "{info}");
    }
    server.stop();

    let server = start();
    let (mut first, mut second) = (server.resp(), server.resp());
    second.call(&["SELECT", "3"]);
    assert_eq!(first.call(&["DBSIZE"]) + &second.call(&["DBSIZE"]), ":2\r\n:2\r\n");
    assert_eq!(second.call(&["EXPIRETIME", "c"]), ":4102444800\r\n");
    assert_eq!(second.call(&["FLUSHDB"]), "+OK\r\n");
    assert_eq!(first.call(&["DBSIZE"]) + &second.call(&["DBSIZE"]), ":2\r\n:0\r\n");
    assert_eq!(second.call(&["RANDOMKEY"]), "$-1\r\n");
    assert_eq!(first.call(&["FLUSHDB"]), "+OK\r\n");
    let mut third = server.resp();
    third.call(&["SELECT", "7"]);
    assert_eq!(third.call(&["EXPIRETIME", "d"]), ":4102444800\r\n");
    assert_eq!(first.call(&["FLUSHALL"]), "+OK\r\n");
    assert_eq!(third.call(&["DBSIZE"]), ":0\r\n");
    // Of database 3, of many keys, more than a batch gives out at once.
    let value = "v".repeat(900_000);
    second.call(&["SET", "large", &value]);
    let words: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("large", 20)).collect();
    assert_eq!(second.call(&words).matches("$900000").count(), 20);
    let long = "k".repeat(65_528);
    assert!(second.call(&["SET", &long, "v"]).starts_with("-ERR key is too long"));
    assert_eq!(first.call(&["SET", &long, "v"]), "+OK\r\n");
}

#[test]
fn commands_are_described_as_redis_does() {
    let Some(peer) = Peer::redis() else { return };
    let server = Running::start(settings());
    let (mut ours, mut theirs) = (server.resp(), Client::resp(peer.address));
    let list = ours.call(&["COMMAND", "LIST"]);
    let names: Vec<&str> = list.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
    assert!(names.len() > 60);
    assert_eq!(ours.call(&["COMMAND", "COUNT"]), format!(":{}\r\n", names.len()));
    for name in &names {
        // Redis describes the fields after the categories in more detail.
        let told = |client: &mut Client| {
            let said = client.call(&["COMMAND", "INFO", name]);
            let lines: Vec<&str> = said.lines().collect();
            let last = lines.iter().rposition(|line| line.starts_with("+@")).unwrap();
            let here = lines.iter().skip(2).position(|line| line.starts_with("+@")).unwrap() + 2;
            // Redis may have more categories further on, of commands within this one.
            let end =
                lines[here..].iter().position(|line| !line.starts_with("+@")).map_or(last, |len| here + len);
            lines[..end].join("\n")
        };
        assert_eq!(told(&mut ours), told(&mut theirs), "{name}");
    }
    for words in [
        &["COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"][..],
        &["COMMAND", "GETKEYS", "GET", "a"],
        &["COMMAND", "GETKEYS", "RENAME", "a", "b"],
        &["COMMAND", "GETKEYS", "DEL", "a", "b", "c"],
        &["COMMAND", "GETKEYS", "GET"],
        &["COMMAND", "GETKEYS", "GET", "a", "b"],
        &["COMMAND", "GETKEYS", "NOSUCH", "a"],
        &["COMMAND", "GETKEYS", "PING", "x"],
        &["COMMAND", "INFO", "nosuch"],
    ] {
        assert_eq!(ours.call(words), theirs.call(words), "{words:?}");
    }
    assert!(ours.call(&["COMMAND", "DOCS", "get"]).contains("summary"));
    assert!(ours.ask(&[command(&["HELLO", "3"]), command(&["COMMAND"])].concat()).len() > 1000);
}

#[test]
fn a_time_far_away_is_a_time() {
    let server = Running::start(settings());
    let mut client = server.resp();
    client.call(&["SET", "a", "v"]);
    assert_eq!(client.call(&["PEXPIREAT", "a", "9223372036854775807"]), ":1\r\n");
    let said = client.call(&["TTL", "a"]);
    assert!(said.trim_start_matches(':').trim().parse::<i64>().unwrap() > 1 << 37, "{said}");
    assert_eq!(client.call(&["GET", "a"]), "$1\r\nv\r\n");
    assert!(client.call(&["EXPIREAT", "a", "9223372036854775807"]).starts_with("-ERR invalid expire time"));
}

#[test]
fn an_empty_pattern_matches_the_empty_key() {
    let server = Running::start(settings());
    let peer = Peer::redis();
    for address in [Some(server.address), peer.as_ref().map(|peer| peer.address)].into_iter().flatten() {
        let mut client = Client::resp(address);
        client.call(&["MSET", "a", "1", "b", "1"]);
        let scan = ["SCAN", "0", "MATCH", "", "COUNT", "1000"];
        assert_eq!(client.call(&scan), "*2\r\n$1\r\n0\r\n*0\r\n");
        assert_eq!(client.call(&["KEYS", ""]), "*0\r\n");
        client.call(&["SET", "", "1"]);
        assert_eq!(client.call(&scan), "*2\r\n$1\r\n0\r\n*1\r\n$0\r\n\r\n");
        assert_eq!(client.call(&["KEYS", ""]), "*1\r\n$0\r\n\r\n");
        assert!(client.call(&["SCAN", "0", "COUNT", "1000"]).starts_with("*2\r\n$1\r\n0\r\n*3\r\n"));
    }
}
