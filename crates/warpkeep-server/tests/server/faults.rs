//! Clients that are slow, rude or wrong.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use warpkeep_server::Settings;

use crate::harness::{Client, Running, command, command_of, settings};

#[test]
fn commands_come_in_pieces_of_any_size() {
    let server = Running::start(settings());
    let conversations: [(bool, Vec<u8>); 2] = [
        (
            false,
            b"set a 1 0 4\r\na\r\nb\r\nget a b\r\nms m 2 T0\r\nhi\r\nmg m v\r\nincr a 1\r\nfoo\r\n".to_vec(),
        ),
        (
            true,
            [command(&["SET", "a", "x\r\ny"]), command(&["MGET", "a", "b"]), command(&["DEL", "a", "b"])]
                .concat(),
        ),
    ];
    for (is_resp, bytes) in conversations {
        let connect = || if is_resp { server.resp() } else { server.memcached() };
        let mut whole = connect();
        whole.ask(&if is_resp { command(&["DEL", "a", "m"]) } else { b"delete a\r\ndelete m\r\n".to_vec() });
        let expected = whole.ask(&bytes);
        let mut client = connect();
        for piece in [1, 2, 3, 5, 7] {
            client.ask(&if is_resp {
                command(&["DEL", "a", "m"])
            } else {
                b"delete a\r\ndelete m\r\n".to_vec()
            });
            for (index, part) in bytes.chunks(piece).enumerate() {
                client.stream.write_all(part).unwrap();
                if index % 8 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            assert_eq!(client.ask(b""), expected, "in pieces of {piece}");
        }
    }
}

#[test]
fn values_to_a_mebibyte_are_stored_and_larger_ones_refused() {
    let server = Running::start(settings());
    let largest = vec![b'x'; (1 << 20) - 12];
    let too_large = vec![b'y'; (1 << 20) + 5];

    let mut client = server.resp();
    assert_eq!(client.ask(&command_of(&[b"SET", b"big", &largest])), b"+OK\r\n");
    let said = client.ask(
        &[command_of(&[b"SET", b"big", &too_large, b"EX", b"10"]), command(&["STRLEN", "big"])].concat(),
    );
    assert!(
        said.starts_with(b"-ERR string exceeds")
            && said.ends_with(format!(":{}\r\n", largest.len()).as_bytes())
    );
    assert!(client.call(&["APPEND", "big", "z"]).starts_with("-ERR string exceeds"));
    let said = client.ask(&command_of(&[b"GET", b"big"]));
    assert_eq!(said.len(), largest.len() + 12);

    let mut client = server.memcached();
    let mut set = format!("set big 0 0 {}\r\n", too_large.len()).into_bytes();
    set.extend_from_slice(&too_large);
    set.extend_from_slice(b"\r\nget nothing\r\n");
    assert_eq!(client.ask(&set), b"SERVER_ERROR object too large for cache\r\nEND\r\n");
    let key = "k".repeat(250);
    assert_eq!(
        client.say(&format!("set {key} 0 0 1\r\nx\r\nget {key}k\r\n")),
        "STORED\r\nCLIENT_ERROR bad command line format\r\n"
    );
    let long = "k".repeat(65535);
    assert_eq!(server.resp().call(&["SET", &long, "v"]), "+OK\r\n");
    assert!(server.resp().call(&["SET", &(long + "k"), "v"]).starts_with("-ERR key is too long"));
}

#[test]
fn an_answer_larger_than_a_batch_comes_in_order() {
    let server = Running::start(settings());
    let mut client = server.resp();
    let large = |letter: u8| vec![letter; 900_000];
    for letter in b'a'..=b'd' {
        client.ask(&command_of(&[b"SET", &[letter], &large(letter)]));
    }
    // 40 values, more than 30 MiB, with small answers and a write between.
    let keys: Vec<&str> = ["a", "b", "c", "d"].repeat(5);
    let mut words = vec!["MGET"];
    words.extend(&keys);
    let said = client
        .ask(&[command(&words), command(&["INCR", "n"]), command(&words), command(&["INCR", "n"])].concat());
    let mut expected = Vec::new();
    for number in 1..=2 {
        expected.extend_from_slice(b"*20\r\n");
        for key in &keys {
            expected.extend_from_slice(b"$900000\r\n");
            expected.extend_from_slice(&large(key.as_bytes()[0]));
            expected.extend_from_slice(b"\r\n");
        }
        expected.extend_from_slice(format!(":{number}\r\n").as_bytes());
    }
    assert!(said == expected, "{} bytes instead of {}", said.len(), expected.len());

    let mut client = server.memcached();
    let said =
        client.say(&format!("get {}\r\nset e 0 0 1\r\nx\r\nget e {}\r\n", keys.join(" "), keys.join(" ")));
    assert_eq!(said.matches("VALUE ").count(), 41);
    assert_eq!(said.matches("END\r\n").count(), 2);
}

#[test]
fn a_slow_reader_is_not_listened_to_and_loses_nothing() {
    let server = Running::start(Settings { unread: 64 << 10, threads: 1, ..settings() });
    let value = "v".repeat(10_000);
    server.resp().call(&["SET", "k", &value]);
    let mut slow = server.resp();
    let asked = 3000;
    let pipeline: Vec<u8> = (0..asked).flat_map(|_| command(&["GET", "k"])).collect();
    let mut writer = slow.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&pipeline).unwrap());
        // Other clients are served meanwhile.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(server.resp().call(&["STRLEN", "k"]), ":10000\r\n");
        let mut answer = vec![0; asked * (value.len() + 10)];
        slow.stream.read_exact(&mut answer).unwrap();
        assert!(
            answer
                .chunks(value.len() + 10)
                .all(|one| one.starts_with(b"$10000\r\nv") && one.ends_with(b"v\r\n"))
        );
    });
}

#[test]
fn what_is_no_protocol_is_refused() {
    let server = Running::start(settings());
    for (bytes, expected) in [
        (&b"*1\r\n$4\r\nPING\r\nGET 'a\r\n"[..], &b"+PONG\r\n-ERR Protocol error"[..]),
        (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-5\r\n", b"-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n:5\r\n", b"-ERR Protocol error: expected '$'"),
        (b"*1048577\r\n", b"-ERR Protocol error: invalid multibulk length"),
        (&[b'x'; 5000], b"CLIENT_ERROR line too long"),
    ] {
        let mut client = Client::resp(server.address);
        client.stream.write_all(bytes).unwrap();
        let rest = client.rest();
        assert!(rest.starts_with(expected), "{:?}", String::from_utf8_lossy(&rest));
    }
    // An unfinished command blocks no other client, and is dropped with its connection.
    for half in [&b"set a 0 0 100\r\nhalf"[..], b"*2\r\n$3\r\nGET\r\n", b"get a"] {
        let mut client = Client::resp(server.address);
        client.stream.write_all(half).unwrap();
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(server.memcached().say("get a\r\n"), "END\r\n");
}

#[test]
fn connections_have_a_limit() {
    let server = Running::start(Settings { max_connections: 200, ..settings() });
    let mut clients: Vec<Client> = (0..200).map(|_| server.memcached()).collect();
    for client in &mut clients {
        assert_eq!(client.say("get a\r\n"), "END\r\n");
    }
    let mut one_more = server.memcached();
    assert_eq!(one_more.rest(), b"-ERR max number of clients reached\r\n");
    drop(clients);
    // When other clients have closed, there is room again; the server may take a moment to notice.
    for _ in 0..1000 {
        if server.memcached().say("get a\r\n") == "END\r\n" {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("there is no room after the others have gone");
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let server = Running::start(Settings { idle: Some(Duration::from_millis(1500)), ..settings() });
    let mut client = server.memcached();
    assert_eq!(client.say("get a\r\n"), "END\r\n");
    assert_eq!(client.rest(), b"");
    assert_eq!(server.memcached().say("get a\r\n"), "END\r\n");
}

#[test]
fn random_bytes_do_no_harm() {
    let server = Running::start(settings());
    let mut random = fastrand::Rng::with_seed(7);
    let words: [&[u8]; 22] = [
        b"get ",
        b"set ",
        b"mg ",
        b"ms ",
        b"ma ",
        b"md ",
        b"gat ",
        b"a",
        b"b ",
        b"0 ",
        b"5",
        b"\r\n",
        b"*2\r\n",
        b"$3\r\n",
        b"GET",
        b"MSET",
        b"\0",
        b" noreply",
        b"\xff",
        b"-1 ",
        b"T",
        b"99999999999999999999",
    ];
    for _ in 0..300 {
        let mut bytes = if random.bool() { b"*".to_vec() } else { Vec::new() };
        for _ in 0..random.usize(1..60) {
            bytes.extend_from_slice(words[random.usize(..words.len())]);
        }
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(
            ended.as_ref().is_ok_and(|_| true)
                || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
            "{:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
    assert!(server.memcached().say("version\r\n").starts_with("VERSION"));
}

#[test]
fn a_cycle_gathers_and_keeps_the_order() {
    let server =
        Running::start(Settings { cycle: Duration::from_millis(2), batch: 16, threads: 1, ..settings() });
    std::thread::scope(|scope| {
        for number in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.resp();
                let key = format!("k{number}");
                for round in 0..50 {
                    let pipeline = [
                        command(&["SET", &key, &round.to_string()]),
                        command(&["INCR", &key]),
                        command(&["GET", &key]),
                    ];
                    let value = (round + 1).to_string();
                    let expected = format!("+OK\r\n:{value}\r\n${}\r\n{value}\r\n", value.len());
                    assert_eq!(String::from_utf8(client.ask(&pipeline.concat())).unwrap(), expected);
                }
            });
        }
    });
}
