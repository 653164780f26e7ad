//! Invalid options are refused before any request to a server.

use std::time::Duration;

use warpkeep_bench::Quiet;
use warpkeep_bench::server::{self, Address, Io, Options, Program, Protocol, Target};
use warpkeep_bench::workload::Distribution;

fn good() -> Options {
    let address: Address = "127.0.0.1:1".parse().expect("an address");
    Options { targets: vec![Target::Running { address, protocol: Protocol::Resp }], ..Options::default() }
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let wrong_protocol = Target::Started { program: Program::Redis, protocol: Protocol::Meta };
    let cases = [
        (Options { targets: vec![], ..good() }, "--spawn"),
        (Options { targets: vec![wrong_protocol], ..good() }, "does not speak meta"),
        (Options { key_bytes: 7, ..good() }, "8 to 250"),
        (Options { key_bytes: 251, ..good() }, "8 to 250"),
        (Options { value_bytes: 7, ..good() }, "8 to 1 MiB"),
        (Options { key_bytes: 8, items: 100_000_001, ..good() }, "take 1 to 100000000"),
        (Options { items: 0, ..good() }, "take 1 to"),
        (Options { read_share: 1.01, ..good() }, "0 to 1"),
        (Options { read_share: f64::NAN, ..good() }, "0 to 1"),
        (Options { distribution: Distribution::Latest(0.9), ..good() }, "uniform or zipfian"),
        (Options { threads: 0, ..good() }, "1 to 512 threads"),
        (Options { threads: 5, connections: 4, ..good() }, "a connection or more"),
        (Options { items: 3, ..good() }, "more items"),
        (Options { depths: vec![], ..good() }, "1 to 65536"),
        (Options { keys_a_get: vec![1, 0], ..good() }, "1 to 65536"),
        (Options { rate: Some(f64::NAN), ..good() }, "rate"),
        (Options { rounds: 0, ..good() }, "round"),
        (Options { round_time: Duration::ZERO, ..good() }, "round"),
    ];
    for (options, words) in cases {
        let error = server::run(&options, &Quiet).expect_err("nonsense").to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn words_for_addresses_protocols_and_programs() {
    for text in ["localhost:1", "[::1]:11211", "unix:/run/a.sock"] {
        assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
    }
    for text in ["", "host", "host:", ":1", "host:70000"] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
    for protocol in Protocol::ALL {
        assert_eq!(protocol.to_string().parse(), Ok(protocol));
    }
    let cycle = Duration::from_micros(120);
    let target = |cycle, io| Target::Started {
        program: Program::Warpkeep { cycle, io },
        protocol: Protocol::Memcached,
    };
    assert_eq!(target(cycle, None).name(), "warpkeep, cycle of 120 us (memcached)");
    assert_eq!(target(Duration::ZERO, None).name(), "warpkeep (memcached)");
    assert_eq!(target(cycle, Some(Io::Uring)).name(), "warpkeep, uring, cycle of 120 us (memcached)");
    assert!("uring".parse() == Ok(Io::Uring) && "epoll".parse::<Io>().is_err());
    assert!("http".parse::<Protocol>().is_err() && "postgres".parse::<Program>().is_err());
}
