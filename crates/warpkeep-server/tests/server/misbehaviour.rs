//! Browsers, clients of other protocols, and password guessers; and what the log and the counters report of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use warpkeep_server::{Access, Server, Settings};

use crate::harness::{Client, Running, command, settings};
use crate::peers::{Peer, skip};

#[test]
fn http_is_hung_up_on() {
    let server = Running::start(settings());
    let body = "\r\nset owned 0 0 1\r\nx\r\nSET owned x\r\n*3\r\n$3\r\nSET\r\n$5\r\nowned\r\n$1\r\nx\r\n";
    let requests = [
        format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()),
        format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n{body}"),
        format!("PUT /x HTTP/1.1\r\n\r\n{body}"),
        format!("OPTIONS * HTTP/1.1\r\n\r\n{body}"),
        // A connection that began as another protocol.
        format!("PING\r\nHost: 127.0.0.1\r\n\r\n{body}"),
        format!("version\r\nPOST / HTTP/1.1\r\n\r\n{body}"),
        format!("*1\r\n$4\r\nPING\r\nPOST / HTTP/1.1\r\n\r\n{body}"),
    ];
    for request in &requests {
        let mut client = Client::resp(server.address);
        let _ = client.stream.write_all(request.as_bytes());
        let rest = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!rest.contains("STORED") && !rest.contains("+OK"), "{request}: {rest}");
    }
    let mut client = server.resp();
    assert_eq!(client.call(&["EXISTS", "owned"]), ":0\r\n");
    let stats = server.memcached().say("stats\r\n");
    assert!(stats.contains(&format!("STAT http_clients {}\r\n", requests.len())), "{stats}");
    assert!(client.call(&["INFO"]).contains(&format!("http_clients:{}\r\n", requests.len())));
}

#[test]
fn a_post_by_curl_does_nothing() {
    let server = Running::start(settings());
    let body = "set owned 0 0 1\r\nx\r\nSET owned x\r\n";
    let url = format!("http://{}/", server.address);
    let posted =
        Command::new("curl").args(["--silent", "--max-time", "20", "--data-binary", body, &url]).output();
    let Ok(posted) = posted else { return skip("curl is not installed") };
    // 52 is an empty reply, 56 a connection that was reset.
    assert!(matches!(posted.status.code(), Some(52 | 56)), "{posted:?}");
    assert_eq!(posted.stdout, b"");
    assert_eq!(server.resp().call(&["EXISTS", "owned"]), ":0\r\n");
}

#[test]
fn binary_clients_are_answered() {
    let server = Running::start(settings());
    let mut client = Client::memcached(server.address);
    // A get of the key "Hello", with a tag to identify its answer.
    let mut get = vec![0x80, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5, 0xde, 0xad, 0xbe, 0xef];
    get.extend([0; 8]);
    get.extend(b"Hello");
    client.stream.write_all(&get).unwrap();
    let rest = client.rest();
    assert_eq!(
        (rest[0], rest[1], &rest[6..8], &rest[12..16]),
        (0x81, 0, &[0, 0x83][..], &[0xde, 0xad, 0xbe, 0xef][..])
    );
    assert_eq!(rest.len(), 24 + u32::from_be_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize);
    assert!(server.memcached().say("stats\r\n").contains("STAT binary_clients 1\r\n"));
}

#[test]
fn guessing_is_slow_and_keeps_nobody_waiting() {
    let access = Access { password: Some("sesame".into()) };
    let server = Running::start(Settings { access, threads: 1, ..settings() });
    let mut other = server.resp();
    assert_eq!(other.call(&["AUTH", "sesame"]), "+OK\r\n");
    let begun = Instant::now();
    let mut guesser = server.resp();
    let guesses = [
        command(&["AUTH", "wrong"]),
        command(&["HELLO", "2", "AUTH", "default", "wrong"]),
        command(&["AUTH", "default", "wronger"]),
        command(&["AUTH", "sesame"]),
        command(&["GET", "a"]),
    ];
    let mut served = 0;
    std::thread::scope(|scope| {
        let guessing = scope.spawn(|| String::from_utf8(guesser.ask(&guesses.concat())).unwrap());
        while !guessing.is_finished() {
            assert_eq!(other.call(&["PING"]), "+PONG\r\n");
            served += 1;
        }
        let said = guessing.join().unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[..3].iter().all(|line| line.starts_with("-WRONGPASS")), "{lines:?}");
        assert_eq!(lines[3..], ["+OK", "$-1"]);
    });
    assert!(begun.elapsed() >= Duration::from_millis(250 + 500 + 1000), "{:?}", begun.elapsed());
    assert!(served > 10, "only {served} others were served meanwhile");
    let info = other.call(&["INFO"]);
    assert!(info.contains("acl_access_denied_auth:3\r\n"), "{info}");
    // A client that does not wait for the answer is dropped, and the server stops in order.
    let mut gone = server.resp();
    gone.stream.write_all(&command(&["AUTH", "wrong"])).unwrap();
    drop(gone);
    let mut waiting = server.memcached();
    waiting.stream.write_all(b"set x 0 0 8\r\nme wrong\r\n").unwrap();
    assert_eq!(other.call(&["PING"]), "+PONG\r\n");
    server.stop();
}

/// The answer to a request to the HTTP address.
fn request(server: &Running, text: &str) -> String {
    let address = server.http.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn http_has_bounds() {
    let server = Running::start(Settings { http: Some(([127, 0, 0, 1], 0).into()), ..settings() });
    assert_eq!(server.resp().call(&["PING"]), "+PONG\r\n");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
    assert!(request(&server, &long).starts_with("HTTP/1.1 431 "));
    assert!(request(&server, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(
        request(&server, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
            .starts_with("HTTP/1.1 405 ")
    );
    let head = request(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    // Clients that send half a request take all places; further ones are closed at once, until those are closed as
    // well.
    let half: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = TcpStream::connect(server.http.unwrap()).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    let mut refused = 0;
    let begun = Instant::now();
    loop {
        match request(&server, "GET /healthz HTTP/1.1\r\n\r\n") {
            answer if answer.is_empty() => refused += 1,
            answer if refused > 0 => break assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}"),
            _ => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{refused} were refused");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(half);
}

#[test]
fn public_metrics_need_the_password() {
    let access = Access { password: Some("open sesame".into()) };
    let http = Some(([0, 0, 0, 0], 0).into());
    let server = Running::start(Settings { access, http, ..settings() });
    let get = |path: &str, more: &str| request(&server, &format!("GET {path} HTTP/1.1\r\n{more}\r\n"));
    assert!(get("/healthz", "").starts_with("HTTP/1.1 200 "));
    let refused = get("/metrics", "");
    assert!(refused.starts_with("HTTP/1.1 401 ") && !refused.contains("warpkeep_server_items"), "{refused}");
    assert!(get("/metrics", "Authorization: Basic bWU6d3Jvbmc=\r\n").starts_with("HTTP/1.1 401 "));
    let metrics = get("/metrics", "Authorization: Basic bWU6b3BlbiBzZXNhbWU=\r\n");
    assert!(metrics.contains("warpkeep_server_wrong_passwords_total 1\n"), "{metrics}");
    let public = Settings { http: Some(([0, 0, 0, 0], 0).into()), ..settings() };
    assert!(warpkeep_server::Server::bind(public).is_err_and(|error| error.to_string().contains("password")));
}

#[test]
fn stats_have_every_name_that_memcached_has() {
    let Some(peer) = Peer::memcached() else { return };
    let server = Running::start(Settings { max_memory: 64 << 20, ..settings() });
    let mut clients = [server.memcached(), Client::memcached(peer.address)];
    let script = "set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\nincr b 1\r\ndecr a 1\r\ndecr b 1\r\ntouch a 0\r\ntouch b 0\r\n\
        cas a 0 0 1 999999\r\nx\r\ncas b 0 0 1 5\r\nx\r\ndelete a\r\ndelete b\r\nset c 0 0 1\r\nx\r\nflush_all\r\nset c 0 0 1\r\nx\r\n";
    let [ours, theirs] = clients.each_mut().map(|client| {
        client.say(script);
        let stats = client.say("stats\r\n");
        let lines = stats.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
        lines
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect::<std::collections::HashMap<_, _>>()
    });
    assert!(theirs.len() > 80);
    let missing: Vec<&String> = theirs.keys().filter(|name| !ours.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for name in [
        "cmd_get",
        "cmd_set",
        "cmd_flush",
        "cmd_touch",
        "get_hits",
        "get_misses",
        "delete_misses",
        "delete_hits",
        "incr_misses",
        "incr_hits",
        "decr_misses",
        "decr_hits",
        "cas_misses",
        "cas_hits",
        "cas_badval",
        "touch_hits",
        "touch_misses",
        "curr_items",
        "limit_maxbytes",
        "accepting_conns",
    ] {
        assert_eq!(ours[name], theirs[name], "{name}");
    }
    for which in ["items", "slabs"] {
        let said = clients[0].say(&format!("stats {which}\r\n"));
        assert!(said.contains(":number 1\r\n") || said.contains("active_slabs 1\r\n"), "{said}");
    }
    assert!(clients[0].say("stats settings\r\n").contains("STAT maxbytes 67108864\r\n"));
}

#[test]
fn a_dump_tells_of_every_item() {
    let server = Running::start(settings());
    let mut client = server.memcached();
    let sets: String = (0..20_000).map(|number| format!("set key-{number} 0 0 1 noreply\r\nx\r\n")).collect();
    client.say(&sets);
    server.resp().call(&["SET", "with space", "y", "EX", "1000"]);
    // Later commands are answered after it.
    let said = client.say("lru_crawler metadump all\r\nget key-1\r\n");
    let (dump, rest) = said.split_once("END\r\n").unwrap();
    assert_eq!(rest, "VALUE key-1 0 1\r\nx\r\nEND\r\n");
    assert!(dump.len() > 1 << 20, "it is longer than one piece");
    let keys: std::collections::HashSet<&str> =
        dump.lines().map(|line| line.strip_prefix("key=").unwrap().split(' ').next().unwrap()).collect();
    assert_eq!(keys.len(), 20_001);
    assert!(keys.contains("with%20space"));
    let Some(peer) = Peer::memcached() else { return };
    let mut peer = Client::memcached(peer.address);
    peer.say("set a 0 0 1\r\nx\r\n");
    let names = |line: &str| -> Vec<String> {
        line.split(' ').map(|fact| fact.split('=').next().unwrap().to_owned()).collect()
    };
    // It accepts no command after that.
    peer.stream.write_all(b"lru_crawler metadump all\r\n").unwrap();
    let mut their = vec![0; 4096];
    let count = peer.stream.read(&mut their).unwrap();
    let their = String::from_utf8_lossy(&their[..count]).into_owned();
    assert_eq!(names(dump.lines().next().unwrap()), names(their.lines().next().unwrap()));
}

#[test]
fn a_public_address_keeps_its_password() {
    let public = || ([0, 0, 0, 0], 0).into();
    let access = |password: &str| Access { password: Some(password.to_owned()) };
    for bound in [
        Settings { listen: vec![public()], access: access("sesame"), ..settings() },
        Settings { http: Some(public()), access: access("sesame"), ..settings() },
    ] {
        let server = Server::bind(bound).unwrap();
        let control = server.control();
        let server = Running::of(server);
        let address = SocketAddr::from(([127, 0, 0, 1], server.address.port()));
        // These settings alone make sense: they listen on this machine only.
        let error = control.reload(&Settings::default()).unwrap_err().to_string();
        assert!(error.contains("0.0.0.0:0") && error.contains("password"), "{error}");
        let script = |password: &str| [command(&["GET", "a"]), command(&["AUTH", password])].concat();
        let refused = b"-NOAUTH Authentication required.\r\n+OK\r\n";
        assert_eq!(Client::resp(address).ask(&script("sesame")), refused);
        // Another password is taken.
        let changed = control.reload(&Settings { access: access("another"), ..Settings::default() });
        assert!(changed.unwrap().contains(&if server.http.is_some() { "http" } else { "listen" }));
        assert_eq!(Client::resp(address).ask(&script("another")), refused);
    }
}

#[test]
fn a_client_without_the_password_cannot_send_a_long_get() {
    let access = Access { password: Some("sesame".into()) };
    let server = Running::start(Settings { access, ..settings() });
    let get = format!("get {}", "a".repeat(4096));
    let mut client = server.memcached();
    client.stream.write_all(get.as_bytes()).unwrap();
    assert_eq!(client.rest(), b"CLIENT_ERROR line too long\r\n");
    // With the password it can, in pieces as well.
    let mut client = server.memcached();
    assert_eq!(client.say("set x 0 0 8\r\nx sesame\r\n"), "STORED\r\n");
    client.stream.write_all(format!("get {}", "a ".repeat(4096)).as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.say("a\r\n"), "END\r\n");
}
