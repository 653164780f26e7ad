//! How fast the generator is over a socket, against a server that does almost nothing; run by hand, in a release build:
//! `cargo test --release -p warpkeep-bench --test server -- --ignored --nocapture`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use warpkeep_bench::Quiet;
use warpkeep_bench::server::{self, Address, Items, Options, Protocol, Requests, Target};

const ITEMS: u32 = 10_000;
const ROUND: Duration = Duration::from_millis(500);

/// Answers gets of fixed length from a table, as fast as it can copy.
fn serve(mut stream: TcpStream, table: &[Vec<u8>], request: usize, digits_at: usize) {
    let (mut bytes, mut held, mut out) = (vec![0; 1 << 20], 0, Vec::new());
    loop {
        let Ok(count @ 1..) = stream.read(&mut bytes[held..]) else { return };
        held += count;
        if bytes.starts_with(b"*2\r\n$4\r\nINFO") {
            let _ = stream.write_all(b"$17\r\nredis_version:1\r\n\r\n");
            held = 0;
            continue;
        }
        out.clear();
        for request in bytes[..held].chunks_exact(request) {
            let digits = &request[digits_at..digits_at + 10];
            let number = digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
            out.extend_from_slice(&table[number]);
        }
        let used = held / request * request;
        bytes.copy_within(used..held, 0);
        held -= used;
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// Batches by blocking calls, for comparison: write all, read all.
fn blocking(address: &str, requests: &Requests, depth: usize) -> f64 {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("a setting");
    let (mut out, mut bytes) = (Vec::new(), vec![0; 1 << 20]);
    let (begun, mut done, mut turn) = (Instant::now(), 0_u64, 0_u32);
    while begun.elapsed() < ROUND {
        out.clear();
        for _ in 0..depth {
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            requests.get(turn % ITEMS, &mut out);
        }
        stream.write_all(&out).expect("a server");
        let (mut held, mut answered) = (0, 0);
        while answered < depth {
            held += stream.read(&mut bytes[held..]).expect("a server");
            let mut used = 0;
            while let Some((_, length)) = Protocol::Resp.next(&bytes[used..held]).expect("answers") {
                used += length;
                answered += 1;
            }
            bytes.copy_within(used..held, 0);
            held -= used;
        }
        done += depth as u64;
    }
    done as f64 / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a measurement: wants a quiet machine and a release build"]
fn the_generator_over_a_socket() {
    let items = Items::new(16, 32, 1);
    let requests = Requests::new(Protocol::Resp, &items, 1);
    let answer = |number| {
        let mut out = Vec::new();
        Protocol::Resp.answer_get(&items, number, 1, &mut out);
        out
    };
    let table: Vec<Vec<u8>> = (0..ITEMS).map(answer).collect();
    let mut one = Vec::new();
    requests.get(0, &mut one);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (request, digits_at) = (one.len(), one.len() - 12);
    let table = std::sync::Arc::new(table);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let table = std::sync::Arc::clone(&table);
            std::thread::spawn(move || serve(stream, &table, request, digits_at));
        }
    });
    let target: Address = address.parse().expect("an address");
    for (connections, depth) in [(1, 64), (1, 1024), (4, 64), (4, 256), (16, 64)] {
        let options = Options {
            targets: vec![Target::Running { address: target.clone(), protocol: Protocol::Resp }],
            items: u64::from(ITEMS),
            read_share: 1.0,
            connections,
            depths: vec![depth],
            load: false,
            warm_up: Duration::from_millis(100),
            round_time: ROUND,
            rounds: 1,
            ..Options::default()
        };
        let report = server::run(&options, &Quiet).expect("a good server");
        let figure =
            |metric: &str| report.rows.iter().find(|row| row.metric == metric).map_or(0.0, |row| row.value);
        let (rate, cores) = (figure("rate"), figure("generator's cores"));
        println!(
            "{connections} connections, {depth} under way: {:.2} M/s, {:.0}% of a core: {:.2} M/s a core",
            rate / 1e6,
            cores,
            rate / cores / 1e4
        );
        assert!(rate > 1e6, "one thread does more than a million operations a second: {rate}");
    }
    for depth in [64, 1024] {
        println!(
            "blocking, one connection, {depth} at a time: {:.2} M/s",
            blocking(&address, &requests, depth) / 1e6
        );
    }
}
