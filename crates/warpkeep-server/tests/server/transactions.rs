//! `MULTI`, `EXEC`, `DISCARD` and `WATCH`, as redis-server does them; and commands that are typed as lines.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use warpkeep::Durability;
use warpkeep_server::Settings;

use crate::harness::{Client, Running, command, settings};
use crate::peers::Peer;

const KEYS: [&str; 5] = ["a", "b", "n", "text", "nothing"];

#[test]
fn a_transaction_is_queued_and_done() {
    let server = Running::start(settings());
    let mut client = server.resp();
    let script = [
        command(&["MULTI"]),
        command(&["SET", "a", "1"]),
        command(&["INCR", "a"]),
        command(&["MGET", "a", "nothing"]),
        command(&["SET", "a", "1", "FOO"]),
        command(&["EXEC"]),
        command(&["GET", "a"]),
    ];
    assert_eq!(
        String::from_utf8(client.ask(&script.concat())).unwrap(),
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*4\r\n+OK\r\n:2\r\n*2\r\n$1\r\n2\r\n$-1\r\n-ERR syntax error\r\n$1\r\n2\r\n"
    );
    // A store by another client in between is noticed, in either protocol.
    client.call(&["WATCH", "a", "absent"]);
    server.memcached().say("set absent 0 0 1\r\nx\r\n");
    let transaction = |words: &[&str]| [command(&["MULTI"]), command(words), command(&["EXEC"])].concat();
    assert_eq!(client.ask(&transaction(&["SET", "a", "lost"])), b"+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(client.call(&["GET", "a"]), "$1\r\n2\r\n");
    assert!(client.call(&["HELLO", "3"]).starts_with('%'));
    client.call(&["WATCH", "a"]);
    server.resp().call(&["FLUSHALL"]);
    assert_eq!(client.ask(&transaction(&["SET", "a", "lost"])), b"+OK\r\n+QUEUED\r\n_\r\n");
    assert_eq!(client.call(&["EXISTS", "a"]), ":0\r\n");
}

#[test]
fn a_watched_key_that_expires_has_changed() {
    let server = Running::start(settings());
    let mut client = server.resp();
    client.call(&["SET", "short", "v", "PX", "50"]);
    assert_eq!(client.call(&["WATCH", "short"]), "+OK\r\n");
    std::thread::sleep(std::time::Duration::from_millis(60));
    let script = [command(&["MULTI"]), command(&["SET", "done", "1"]), command(&["EXEC"])];
    assert_eq!(client.ask(&script.concat()), b"+OK\r\n+QUEUED\r\n*-1\r\n");
    assert_eq!(client.call(&["EXISTS", "done"]), ":0\r\n");
}

/// Has threads end when this is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_all_of_a_transaction_or_nothing() {
    const PAIRS: usize = 40;
    for durability in [Durability::Process, Durability::Power] {
        let server = Running::start(Settings { threads: 3, durability, ..settings() });
        let names: Vec<String> = (0..PAIRS).map(|number| format!("key-{number}")).collect();
        let mut words = vec!["MGET"];
        words.extend(names.iter().map(String::as_str));
        let stop = AtomicBool::new(false);
        let (mut seen, mut read) = (std::collections::HashSet::new(), 0);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (server, names, stop) = (&server, &names, &stop);
                scope.spawn(move || {
                    let mut client = server.resp();
                    let mut round = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let value = format!("{writer}-{round}");
                        let mut script = command(&["MULTI"]);
                        names.iter().for_each(|name| script.extend(command(&["SET", name, &value])));
                        script.extend(command(&["EXEC"]));
                        assert!(client.ask(&script).ends_with(b"+OK\r\n"));
                        round += 1;
                    }
                });
            }
            // Also if a check fails.
            let _stop = StopOnDrop(&stop);
            let mut clients = [server.resp(), server.resp(), server.resp()];
            for round in 0..900 {
                // Alone, and within a transaction.
                let client = &mut clients[round % 3];
                let said = match round % 2 {
                    0 => client.call(&words),
                    _ => {
                        let script = [command(&["MULTI"]), command(&words), command(&["EXEC"])];
                        String::from_utf8(client.ask(&script.concat())).unwrap()
                    }
                };
                let lines: Vec<&str> = said.lines().collect();
                let nothing = lines.iter().filter(|line| **line == "$-1").count();
                assert!(
                    [0, PAIRS].contains(&nothing),
                    "round {round}: a part of the first transaction was seen"
                );
                if nothing == 0 {
                    let values = &lines[lines.len() - 2 * PAIRS..];
                    let first = values[1].to_owned();
                    let same = values.chunks(2).all(|pair| pair[1] == first);
                    assert!(same, "round {round}: a part of a transaction was seen: {values:?}");
                    seen.insert(first);
                }
                read += 1;
            }
        });
        assert!(seen.len() > 5, "nothing was changed meanwhile: {} values in {read} rounds", seen.len());
    }
}

#[test]
fn counters_under_watch_lose_nothing() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 60;
    let server = Running::start(Settings { threads: 3, ..settings() });
    let (added, again) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.resp();
                    let (mut done, mut again) = (0, 0);
                    while done < ROUNDS {
                        client.call(&["WATCH", "n"]);
                        let said = client.call(&["GET", "n"]);
                        let before: u64 = said.lines().nth(1).map_or(0, |line| line.parse().unwrap());
                        let after = (before + 1).to_string();
                        let script =
                            [command(&["MULTI"]), command(&["SET", "n", &after]), command(&["EXEC"])];
                        match client.ask(&script.concat()).ends_with(b"*-1\r\n") {
                            true => again += 1,
                            false => done += 1,
                        }
                    }
                    (done, again)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    });
    let total = (CLIENTS * ROUNDS).to_string();
    assert_eq!(server.resp().call(&["GET", "n"]), format!("${}\r\n{total}\r\n", total.len()));
    writeln!(std::io::stdout().lock(), "server: {added} transactions under WATCH, {again} of them again")
        .unwrap();
}

/// The commands of a script: mostly on keys, with transactions begun and ended at any time.
fn step(random: &mut Rng) -> Vec<&'static str> {
    let (first, second) = (KEYS[random.usize(..KEYS.len())], KEYS[random.usize(..KEYS.len())]);
    match random.usize(..39) {
        0..6 => vec!["MULTI"],
        6..11 => vec!["EXEC"],
        11 => vec!["DISCARD"],
        12..14 => vec!["WATCH", first],
        14 => vec!["WATCH", first, second],
        15 => vec!["UNWATCH"],
        16 => vec!["SET", first, "word"],
        17 => vec!["SET", first, "7"],
        18 => vec!["GET", first],
        19 => vec!["INCR", first],
        20 => vec!["DEL", first, second],
        21 => vec!["MGET", first, second, first],
        22 => vec!["MSET", first, "1", second, "2"],
        23 => vec!["APPEND", first, "x"],
        24 => vec!["EXPIREAT", first, "4102444800"],
        25 => vec!["PEXPIRETIME", first],
        26 => vec!["GETDEL", first],
        27 => vec!["DBSIZE"],
        28 => vec!["SET", first, "1", "FOO"],
        29 => vec!["EXISTS", first, second],
        30 => vec!["PING"],
        31 => vec!["SETNX", first, "new"],
        32 => vec!["RENAME", first, second],
        33 => vec!["COPY", first, second],
        34 => vec!["MSETNX", first, "1", second, "2"],
        35 => vec!["SELECT", "1"],
        36 => vec!["SELECT", "0"],
        _ => {
            let wrong: [&[&str]; 12] = [
                &["NOSUCH", "x"],
                &["GET"],
                &["SET", "a"],
                &["EXEC", "x"],
                &["DISCARD", "x"],
                &["MULTI", "x"],
                &["WATCH"],
                &["UNWATCH", "x"],
                &["SAVE"],
                &["FLUSHALL"],
                &["INCRBY", "a", "x"],
                &["RESET"],
            ];
            wrong[random.usize(..wrong.len())].to_vec()
        }
    }
}

#[test]
fn as_in_redis() {
    const STEPS: usize = 6000;
    let Some(peer) = Peer::redis() else { return };
    let server = Running::start(settings());
    // Two clients of each, so that one changes keys that the other watches.
    let mut ours = [server.resp(), server.resp()];
    let mut theirs = [Client::resp(peer.address), Client::resp(peer.address)];
    let mut random = Rng::with_seed(5);
    let mut history = Vec::new();
    let mut commands = 0;
    while commands < STEPS {
        let who = random.usize(..2);
        let mut bytes = Vec::new();
        for _ in 0..random.usize(1..9) {
            let words = step(&mut random);
            // Commands that are refused within a transaction would write files outside of one.
            if words == ["SAVE"] {
                bytes.extend(command(&["MULTI"]));
            }
            bytes.extend(command(&words));
            history.push(format!("{who}: {}", words.join(" ")));
            commands += 1;
        }
        // An ECHO marks the end of an answer, and a transaction would queue it.
        if random.bool() {
            bytes.extend(command(&["EXEC"]));
        }
        let flat = |answer: Vec<u8>| String::from_utf8_lossy(&answer).into_owned();
        let (our, their) = (ours[who].ask_all(&bytes), theirs[who].ask_all(&bytes));
        let (our, their) = (flat(our), flat(their));
        let last = history.len().saturating_sub(40);
        assert!(our == their, "{}\n--- here\n{our}\n--- redis\n{their}", history[last..].join("\n"));
    }
    writeln!(std::io::stdout().lock(), "as redis does transactions: {commands} commands").unwrap();
}

#[test]
fn lines_are_commands() {
    let script: &[u8] = b"\r\nPING\r\n\n  \r\nSET a \"b c\\x41\"\r\nGET a\r\nset 'it''s' x\r\n";
    let script = [script.strip_suffix(b"set 'it''s' x\r\n").unwrap(), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nMSET x 1 y 2\r\nMGET x y z\nDEL x y\r\nMULTI\r\nSET a 'q q'\r\n\r\nGET a\r\nEXEC\r\nexists a a\r\n"].concat();
    let mut said = Vec::new();
    let server = Running::start(settings());
    let peer = Peer::redis();
    for address in [Some(server.address), peer.as_ref().map(|peer| peer.address)].into_iter().flatten() {
        let mut client = Client::resp(address);
        said.push(String::from_utf8_lossy(&client.ask(&script)).into_owned());
        let mut client = Client::resp(address);
        client.stream.write_all(b"SET a \"open\r\n").unwrap();
        said.push(String::from_utf8_lossy(&client.rest()).into_owned());
    }
    assert!(said[0].starts_with("+PONG\r\n+OK\r\n$4\r\nb cA\r\n$4\r\nb cA\r\n+OK\r\n*3\r\n"), "{}", said[0]);
    assert!(said[1].starts_with("-ERR Protocol error: unbalanced quotes"), "{}", said[1]);
    if let [first, second, other, another] = &said[..] {
        assert_eq!((first, second), (other, another));
    }
    // memcached's words stay memcached's.
    assert_eq!(server.memcached().say("get a\r\n\r\n"), "VALUE a 0 3\r\nq q\r\nEND\r\nERROR\r\n");
}

#[test]
fn a_transaction_cannot_make_values_without_end() {
    let server = Running::start(settings());
    let mut client = server.resp();
    client.call(&["SET", "k", &"v".repeat(1_000_000)]);
    let change = command(&["SETRANGE", "k", "0", "x"]);
    let transaction = |commands: &[u8], count: usize| {
        [command(&["MULTI"]), commands.repeat(count), command(&["EXEC"])].concat()
    };
    let said = String::from_utf8(client.ask(&transaction(&change, 300))).unwrap();
    let too_much = "-EXECABORT Transaction discarded because of: the answers and new values would take more than 256 MiB\r\n";
    assert!(said.ends_with(too_much), "{}", &said[said.len().saturating_sub(200)..]);
    assert_eq!(client.call(&["GETRANGE", "k", "0", "1"]), "$2\r\nvv\r\n");
    // Parts of values count as well.
    let said =
        client.ask(&transaction(&[&change[..], &command(&["GETRANGE", "k", "0", "-1"])].concat(), 150));
    assert!(said.ends_with(too_much.as_bytes()));
    // Outside of a transaction there is no limit.
    let said = client.ask(&change.repeat(300));
    assert_eq!(said, b":1000000\r\n".repeat(300));
    assert_eq!(client.call(&["GETRANGE", "k", "0", "1"]), "$2\r\nxv\r\n");
}
