//! Random commands, sent to this server and to the original of its protocol: the answers are the same, byte for
//! byte, except for CAS values, remaining seconds, and the differences listed in docs/server.md.

use std::io::Write as _;

use fastrand::Rng;

use crate::harness::{Client, Running, command_of, settings};
use crate::peers::Peer;

const KEYS: [&str; 4] = ["a", "bb", "counter", "d:1"];
const GROUPS: usize = 1500;
/// The largest number that Redis counts to.
const LARGEST: &str = "9223372036854775807";
/// A large number for memcached. For numbers of 2^63 and more it searches for a sign until the next zero byte,
/// beyond the end of the value. So whether these are numbers to it is chance.
const LARGE: &str = "4611686018427387904";

/// Puts groups of commands to both, and compares.
fn compare(
    name: &str,
    ours: &mut Client,
    theirs: &mut Client,
    seed: u64,
    mut next: impl FnMut(&mut Rng, &mut Vec<u8>),
    normal: impl Fn(&[u8]) -> String,
) {
    let mut random = Rng::with_seed(seed);
    let mut commands = 0;
    for group in 0..GROUPS {
        let mut bytes = Vec::new();
        let count = random.usize(1..20);
        for _ in 0..count {
            let before = bytes.len();
            next(&mut random, &mut bytes);
            commands += 1;
            // memcached changes a number in place if no client is being sent it, and a key that is too long makes
            // it drop earlier answers; so these are sent alone.
            let last = &bytes[before..];
            let too_long = "k".repeat(251);
            if [&b"incr"[..], b"decr", b"ma "].iter().any(|verb| last.starts_with(verb))
                || last.windows(251).any(|window| window == too_long.as_bytes())
            {
                if before > 0 {
                    bytes.truncate(before);
                }
                break;
            }
        }
        let (our, their) = (normal(&ours.ask(&bytes)), normal(&theirs.ask(&bytes)));
        let by_chance = |line: &str| line.parse::<u64>().is_ok_and(|number| number > i64::MAX as u64);
        assert!(
            !our.lines().any(by_chance),
            "group {group}: memcached need not answer this, draw others: {our}"
        );
        assert!(
            our == their,
            "group {group} differs:\n{}\n--- here\n{our}\n--- {name}\n{their}",
            String::from_utf8_lossy(&bytes)
        );
    }
    writeln!(std::io::stdout().lock(), "as {name} answers: {commands} commands").unwrap();
}

#[test]
fn as_memcached() {
    let Some(peer) = Peer::memcached() else { return };
    let server = Running::start(settings());
    let (mut ours, mut theirs) = (server.memcached(), Client::memcached(peer.address));
    compare("memcached", &mut ours, &mut theirs, 1, classic, |answer| without_numbers(answer, false));
}

#[test]
fn as_memcached_in_meta_commands() {
    let Some(peer) = Peer::memcached() else { return };
    let server = Running::start(settings());
    let (mut ours, mut theirs) = (server.memcached(), Client::memcached(peer.address));
    // Requests are recorded from the first question on.
    ours.say("mg a h\r\n");
    compare("memcached's meta commands", &mut ours, &mut theirs, 2, meta, |answer| {
        without_numbers(answer, true)
    });
}

#[test]
fn as_redis() {
    let Some(peer) = Peer::redis() else { return };
    let server = Running::start(settings());
    let (mut ours, mut theirs) = (server.resp(), Client::resp(peer.address));
    compare("redis", &mut ours, &mut theirs, 3, redis, |answer| String::from_utf8_lossy(answer).into_owned());
}

#[test]
fn cas_as_in_memcached() {
    let Some(peer) = Peer::memcached() else { return };
    let server = Running::start(settings());
    let mut clients = [server.memcached(), Client::memcached(peer.address)];
    let mut random = Rng::with_seed(4);
    for _ in 0..300 {
        let key = KEYS[random.usize(..KEYS.len())];
        let between = match random.usize(..5) {
            0 => format!("set {key} 0 0 1\r\ny\r\n"),
            1 => format!("delete {key}\r\n"),
            2 => format!("append {key} 0 0 1\r\nz\r\n"),
            3 => format!("get {key}\r\n"),
            _ => String::new(),
        };
        let said = clients.each_mut().map(|client| {
            let gets = client.say(&format!("gets {key}\r\n"));
            let token = gets.lines().next().and_then(|line| line.strip_prefix("VALUE ")?.rsplit(' ').next());
            let token = token.unwrap_or("999999999999").to_owned();
            let first = client.say(&format!("{between}cas {key} 5 0 2 {token}\r\nhi\r\n"));
            let second = client.say(&format!("cas {key} 5 0 2 {token}\r\nho\r\nget {key}\r\n"));
            first + &second
        });
        assert_eq!(said[0], said[1], "{between}");
    }
}

/// A value made from an outdated one: it is stored as stale, and keeps the older one's lifetime.
#[test]
fn stale_values_as_in_memcached() {
    let Some(peer) = Peer::memcached() else { return };
    let server = Running::start(settings());
    let mut clients = [server.memcached(), Client::memcached(peer.address)];
    let mut random = Rng::with_seed(6);
    for round in 0..300 {
        let key = format!("stale-{}", random.usize(..3));
        let first = ["", " T5000", " T900"][random.usize(..3)];
        let changes: Vec<String> = (0..random.usize(..3))
            .map(|_| match random.usize(..3) {
                0 => format!("ms {key} 1{first}\r\ny\r\n"),
                1 => format!("md {key} I T300\r\n"),
                _ => format!("mg {key} v\r\n"),
            })
            .collect();
        let more = ["", " T77", " c", " F9 k"][random.usize(..4)];
        let pipelined = random.bool();
        let said = clients.each_mut().map(|client| {
            client.say(&format!("ms {key} 2{first}\r\nhi\r\n"));
            let token = client.say(&format!("mg {key} c\r\n"));
            let token = token.trim().strip_prefix("HD c").unwrap().to_owned();
            let last = format!("ms {key} 3 I C{token}{more}\r\nnew\r\nmg {key} v t f\r\nmg {key} v\r\n");
            let answer = match pipelined {
                true => client.say(&(changes.concat() + &last)),
                false => {
                    let before: String = changes.iter().map(|change| client.say(change)).collect();
                    before + &client.say(&last)
                }
            };
            without_numbers(answer.as_bytes(), true)
        });
        assert_eq!(said[0], said[1], "round {round}, pipelined {pipelined}: {changes:?} {more}");
    }
}

/// CAS values are numbers of another row; seconds may have passed.
pub(crate) fn without_numbers(answer: &[u8], is_meta: bool) -> String {
    let text = String::from_utf8_lossy(answer);
    let line = |line: &str| -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["VALUE", key, flags, bytes, _] => format!("VALUE {key} {flags} {bytes} #"),
            ["HD" | "VA", ..] if is_meta => {
                let word = |word: &&str| match word.split_at_checked(1) {
                    Some(("c", rest)) if !rest.is_empty() => "c#".to_owned(),
                    Some((letter @ ("t" | "l"), rest)) if rest.parse::<u64>().is_ok() => format!("{letter}#"),
                    _ => (*word).to_owned(),
                };
                words.iter().map(word).collect::<Vec<_>>().join(" ")
            }
            _ => line.to_owned(),
        }
    };
    text.split("\r\n").map(line).collect::<Vec<_>>().join("\r\n")
}

fn key(random: &mut Rng) -> String {
    match random.usize(..60) {
        0 => "k".repeat(250),
        1 => "k".repeat(251),
        _ => KEYS[random.usize(..KEYS.len())].to_owned(),
    }
}

fn value(random: &mut Rng, large: &str) -> Vec<u8> {
    match random.usize(..8) {
        0 => Vec::new(),
        1 => b"line\r\nend".to_vec(),
        2 => vec![b'x'; 3000],
        3 => b"word".to_vec(),
        4 => large.into(),
        _ => random.u32(..2000).to_string().into_bytes(),
    }
}

/// For memcached: no expiry, a relative time, expired, a future date, a past date.
fn expiry(random: &mut Rng) -> &'static str {
    ["0", "0", "0", "5000", "-1", "2000000000", "1000000000"][random.usize(..7)]
}

pub(crate) fn classic(random: &mut Rng, out: &mut Vec<u8>) {
    let quiet = if random.usize(..8) == 0 { " noreply" } else { "" };
    let (name, flags, expires) = (key(random), random.u32(..3), expiry(random));
    let text = match random.usize(..26) {
        0..5 => format!("get {name}\r\n"),
        5 => format!("get {name} {} {}\r\n", key(random), key(random)),
        6 => format!("gets {name}  {} \r\n", key(random)),
        7 => format!("gat {expires} {name} {}\r\n", key(random)),
        8 => format!("gats {expires} {name}\r\n"),
        9..16 => {
            let verb = ["set", "set", "set", "add", "replace", "append", "prepend"][random.usize(..7)];
            let value = value(random, LARGE);
            out.extend_from_slice(
                format!("{verb} {name} {flags} {expires} {}{quiet}\r\n", value.len()).as_bytes(),
            );
            out.extend_from_slice(&value);
            "\r\n".to_owned()
        }
        // Numbers only grow: whether memcached keeps spaces behind one that shrinks depends on concurrent readers.
        16..20 => format!("incr {name} {}{quiet}\r\n", random.u64(..200)),
        20 => format!("delete {name}{quiet}\r\n"),
        21 => format!("touch {name} {expires}{quiet}\r\n"),
        22 => format!("cas {name} 0 0 2 999999999999{quiet}\r\nhi\r\n"),
        _ => {
            let wrong = [
                "foo\r\n",
                "\r\n",
                "get\r\n",
                "gat\r\n",
                "gat 0\r\n",
                "gat x a\r\n",
                "set a 0 0\r\n",
                "set a x 0 1\r\n",
                "set a 0 0 -1\r\n",
                "set a 0 0 2\r\nabc\r\n",
                "cas a 0 0 1\r\n",
                "cas a 0 0 1 x\r\n",
                "incr a\r\n",
                "incr a x\r\n",
                "incr a -1\r\n",
                "decr a 1 2 3\r\n",
                "delete\r\n",
                "delete a 5\r\n",
                "delete a 0\r\n",
                "touch a\r\n",
                "touch a x\r\n",
                "verbosity\r\n",
                "verbosity 1\r\n",
                "verbosity x\r\n",
                "verbosity 1 2 3\r\n",
                "verbosity 1 noreply\r\n",
                "delete a 0 noreply\r\n",
                "delete a 10 noreply\r\n",
                "delete a 0 0 noreply\r\n",
                "lru_crawler\r\n",
                "lru_crawler foo\r\n",
                "flush_all x\r\n",
            ];
            wrong[random.usize(..wrong.len())].to_owned()
        }
    };
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn meta(random: &mut Rng, out: &mut Vec<u8>) {
    // In base64: bytes that no other key can have.
    let encoded = random.usize(..6) == 0;
    let name = if encoded { "AP8gCg==".to_owned() } else { key(random) };
    let mut flags = if encoded { " b".to_owned() } else { String::new() };
    let mut flag = |random: &mut Rng, one_in: usize, flag: &str| {
        if random.usize(..one_in) == 0 {
            flags += " ";
            flags += flag;
        }
    };
    let text = match random.usize(..24) {
        0..9 => {
            // These first: memcached answers a flag with the effects of the ones before it.
            flag(random, 12, "T5000");
            // Whether a number keeps its marks when it is changed also depends on concurrent readers.
            if name != "counter" {
                // memcached forgets that the key of an item it creates this way came in base64.
                if !encoded {
                    flag(random, 8, "N5000");
                }
                flag(random, 8, "R9000");
                flag(random, 4, "h");
                flag(random, 4, "l");
                flag(random, 4, "u");
            }
            for letter in ["v", "s", "f", "t", "k", "O77", "q", "c", "v"] {
                flag(random, 3, letter);
            }
            format!("mg {name}{flags}\r\n")
        }
        9..16 => {
            let value = value(random, LARGE);
            for letter in ["c", "k", "O9", "q", "F5", "T5000", "I"] {
                flag(random, 4, letter);
            }
            flag(random, 20, "T-1");
            flag(random, 12, "C9223372036854775807");
            // memcached also forgets it when appending.
            let modes = ["MS", "ME", "MR", "Ms", "Mx", "MA", "MP"];
            let mode = modes[random.usize(..if encoded { 5 } else { 7 })];
            flag(random, 2, mode);
            out.extend_from_slice(format!("ms {name} {}{flags}\r\n", value.len()).as_bytes());
            out.extend_from_slice(&value);
            "\r\n".to_owned()
        }
        16..19 => {
            for letter in ["k", "O5", "q", "T30"] {
                flag(random, 3, letter);
            }
            if name != "counter" {
                flag(random, 3, "I");
            }
            flag(random, 10, "C9223372036854775807");
            format!("md {name}{flags}\r\n")
        }
        19..22 => {
            for letter in ["v", "t", "c", "k", "O1", "J13", "D7"] {
                flag(random, 3, letter);
            }
            // Not both: memcached answers a quiet command that creates.
            let either = ["q", "N0"][random.usize(..2)];
            flag(random, 2, either);
            let mode = ["MI", "M+", "Mi", "Mx"][random.usize(..4)];
            flag(random, 3, mode);
            // Not of the key in base64, which is no number.
            format!("ma counter{}\r\n", flags.strip_prefix(" b").unwrap_or(&flags))
        }
        22 => {
            let wrong = [
                "mg\r\n",
                "mg a Z\r\n",
                "ms a\r\n",
                "ms a x\r\n",
                "ms a 2 Fx\r\nab\r\n",
                "ms a 2 Tx\r\nab\r\n",
                "md\r\n",
                "ma\r\n",
                "ma a Dx\r\n",
                "me nothing-here\r\n",
                "ms a 2\r\nabc\r\n",
                "mg Zm9 b\r\n",
                "ms Zm9 2 b\r\nab\r\n",
            ];
            wrong[random.usize(..wrong.len())].to_owned()
        }
        _ => format!("delete {name}\r\n"),
    };
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn redis(random: &mut Rng, out: &mut Vec<u8>) {
    let (first, second) = (KEYS[random.usize(..KEYS.len())], KEYS[random.usize(..KEYS.len())]);
    let value = value(random, LARGEST);
    let text = String::from_utf8_lossy(&value).into_owned();
    let number = random.i64(-50..200).to_string();
    let end = random.i64(-50..200).to_string();
    let other = random.usize(..3).to_string();
    let words: Vec<&str> = match random.usize(..66) {
        0..6 => vec!["GET", first],
        6..12 => vec!["SET", first, &text],
        12 => vec!["set", first, &text, "NX"],
        13 => vec!["SET", first, &text, "xx", "GET"],
        14 => vec!["SET", first, &text, "EXAT", "4102444800"],
        15 => vec!["SET", first, &text, "KEEPTTL"],
        16 => vec!["SET", first, &text, "PXAT", "4102444800777"],
        17 => vec!["MGET", first, second, "nothing", first],
        18 => vec!["MSET", first, &text, second, "2"],
        19 => vec!["DEL", first, second, first],
        20 => vec!["EXISTS", first, first, second],
        21 => vec!["INCR", first],
        22 => vec!["DECR", first],
        23 => vec!["INCRBY", "counter", &number],
        24 => vec!["DECRBY", "counter", &number],
        25 => vec!["INCRBYFLOAT", "float", "0.5"],
        26 => vec!["APPEND", first, "xyz"],
        27 => vec!["STRLEN", first],
        28 => vec!["GETRANGE", first, &number, &end],
        29 => vec!["SETRANGE", first, "5", "hello"],
        30 => vec!["TYPE", first],
        31 => vec!["EXPIREAT", first, "4102444800"],
        32 => vec!["EXPIREAT", first, "4102444900", "GT"],
        33 => vec!["EXPIREAT", first, "4102444700", "LT"],
        34 => vec!["EXPIREAT", first, "4102444700", "NX"],
        35 => vec!["EXPIREAT", first, "4102444600", "XX"],
        36 => vec!["EXPIRE", first, "-1"],
        37 => vec!["EXPIRETIME", first],
        38 => vec!["PEXPIRETIME", first],
        39 => vec!["PERSIST", first],
        40 => vec!["GETDEL", first],
        41 => vec!["GETEX", first, "PERSIST"],
        42 => vec!["GETEX", first, "EXAT", "4102444000"],
        43 => vec!["GETSET", first, &text],
        44 => vec!["SETNX", first, &text],
        45 => vec!["TTL", "nothing"],
        46 => vec!["DBSIZE"],
        47 if random.usize(..5) == 0 => vec!["FLUSHALL"],
        48 => vec!["TOUCH", first, second],
        49 => vec!["UNLINK", second],
        50 => vec!["MSETNX", first, &text, second, "2"],
        51 => vec!["RENAME", first, second],
        52 => vec!["RENAMENX", first, second],
        53 => vec!["COPY", first, second],
        54 => vec!["COPY", first, second, "replace"],
        55 => vec!["copy", first, second, "DB", &other],
        56 => vec!["MOVE", first, &other],
        57 => vec!["SELECT", &other],
        58 => vec!["SETBIT", first, ["0", "7", "100"][random.usize(..3)], ["0", "1"][random.usize(..2)]],
        59 => vec!["GETBIT", first, ["0", "7", "100"][random.usize(..3)]],
        60 if random.usize(..5) == 0 => vec!["FLUSHDB"],
        61 => vec!["KEYS", "bb*"],
        // Far away, but within the range stored here.
        62 => vec!["PEXPIREAT", first, "281474976710655"],
        63 => vec!["COMMAND", "GETKEYS", "MSET", first, "1", second, "2"],
        _ => {
            let wrong: [&[&str]; 53] = [
                &["FOO", "a", "b"],
                &["GET"],
                &["get", "a", "b"],
                &["SET", "a"],
                &["SET", "a", "1", "FOO"],
                &["SET", "a", "1", "EX"],
                &["SET", "a", "1", "EX", "0"],
                &["SET", "a", "1", "EX", "x"],
                &["SET", "a", "1", "PX", "-5"],
                &["SET", "a", "1", "EX", "9223372036854775807"],
                &["SET", "a", "1", "NX", "XX"],
                &["SET", "a", "1", "EX", "5", "KEEPTTL"],
                &["MSET", "a"],
                &["MGET"],
                &["DEL"],
                &["INCRBY", "a", "x"],
                &["INCRBY", "a", "9223372036854775808"],
                &["DECRBY", "a", "-9223372036854775808"],
                &["INCRBYFLOAT", "a", "x"],
                &["EXPIRE", "a", "x"],
                &["EXPIRE", "a", "1", "FOO"],
                &["EXPIRE", "a", "1", "NX", "GT"],
                &["EXPIRE", "a", "1", "GT", "LT"],
                &["EXPIRE", "a", "9223372036854775807"],
                &["GETEX", "a", "FOO"],
                &["GETEX", "a", "EX", "0"],
                &["SETEX", "a", "0", "v"],
                &["PSETEX", "a", "x", "v"],
                &["GETRANGE", "a", "x", "1"],
                &["SETRANGE", "a", "-1", "v"],
                &["SETRANGE", "a", "3"],
                &["SELECT", "x"],
                &["PING", "a", "b"],
                &["SCAN", "x"],
                &["SELECT", "16"],
                &["SELECT", "-1"],
                &["MSETNX", "a"],
                &["RENAME", "a"],
                &["RENAME", "nothing", "a"],
                &["RENAMENX", "nothing", "a"],
                &["COPY", "a", "b", "FOO"],
                &["COPY", "a", "a"],
                &["COPY", "a", "b", "DB", "16"],
                &["COPY", "a", "b", "DB", "x"],
                &["MOVE", "a", "16"],
                &["MOVE", "a", "x"],
                &["SETBIT", "a", "-1", "1"],
                &["SETBIT", "a", "1", "2"],
                &["GETBIT", "a", "4294967296"],
                &["PEXPIREAT", "nothing", "9223372036854775807"],
                &["PEXPIRE", "a", "9223372036854775807"],
                &["SET", "a", "1", "PX", "9223372036854775807"],
                &["COMMAND", "GETKEYS", "PING", "x"],
            ];
            wrong[random.usize(..wrong.len())].to_vec()
        }
    };
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    out.extend(command_of(&bytes));
}
