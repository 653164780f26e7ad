//! The real servers, where they are installed.

use std::io::Write as _;
use std::time::Duration;

use warpkeep_bench::Quiet;
use warpkeep_bench::report::Row;
use warpkeep_bench::server::{self, Options, Program, Protocol, ServerError, Target};
use warpkeep_bench::workload::Distribution;

fn target(program: Program, protocol: Protocol) -> Option<Target> {
    match program.find() {
        Ok(_) => Some(Target::Started { program, protocol }),
        Err(error) => {
            let name = program.name();
            writeln!(std::io::stdout().lock(), "server, {name} with {protocol}: SKIPPED: {error}")
                .expect("standard output");
            None
        }
    }
}

fn options(targets: Vec<Target>) -> Options {
    Options {
        targets,
        items: 5000,
        value_bytes: 100,
        read_share: 0.7,
        distribution: Distribution::Zipfian(0.99),
        depths: vec![1, 32],
        keys_a_get: vec![1, 10],
        warm_up: Duration::from_millis(20),
        round_time: Duration::from_millis(200),
        rounds: 1,
        ..Options::default()
    }
}

#[test]
fn memcached_and_redis_side_by_side() {
    let all = [
        (Program::Memcached, Protocol::Memcached),
        (Program::Memcached, Protocol::Meta),
        (Program::Redis, Protocol::Resp),
    ];
    let targets: Vec<Target> =
        all.into_iter().filter_map(|(program, protocol)| target(program, protocol)).collect();
    if targets.is_empty() {
        return;
    }
    let few = Options { unix: true, depths: vec![8], keys_a_get: vec![1], ..options(targets.clone()) };
    for (options, cases, charts) in [(options(targets.clone()), 4, 10), (few, 1, 2)] {
        let report = server::run(&options, &Quiet).expect("good servers");
        for target in &targets {
            let name = target.name();
            let of = |metric: &str| {
                let wanted = |row: &&Row| row.variant == name && row.metric == metric;
                report.rows.iter().filter(wanted).map(|row| row.value).collect::<Vec<f64>>()
            };
            assert_eq!(of("hits"), vec![100.0; cases], "{name}");
            assert_eq!(of("errors"), vec![0.0; cases], "{name}");
            assert!(of("rate").iter().all(|&rate| rate > 0.0), "{name}");
            assert!(report.notes.iter().any(|note| note.starts_with(&name) && note.contains("started as")));
        }
        // Bars and latencies for each case, and for plain gets and multigets the gain of more requests in flight.
        assert_eq!(report.charts.len(), charts);
        assert!(report.charts.iter().all(|chart| chart.to_svg().is_ok()));
    }
}

#[test]
fn large_values_have_room() {
    let targets = [(Program::Memcached, Protocol::Memcached), (Program::Redis, Protocol::Resp)];
    let targets: Vec<Target> =
        targets.into_iter().filter_map(|(program, protocol)| target(program, protocol)).collect();
    if !targets.is_empty() {
        let (depths, keys_a_get) = (vec![2], vec![1, 3]);
        let options = Options {
            value_bytes: 1 << 20,
            items: 4,
            connections: 2,
            depths,
            keys_a_get,
            ..options(targets)
        };
        let report = server::run(&options, &Quiet).expect("good servers");
        assert!(report.rows.iter().filter(|row| row.metric == "hits").all(|row| row.value == 100.0));
    }
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    let error = ServerError::NotInstalled { program: "redis-server", package: "redis-server" };
    assert!(error.to_string().contains("apt-get install redis-server"));
}
