//! A server that breaks its word is caught, whichever way, in every protocol.

use std::time::Duration;

use warpkeep_bench::report::Report;
use warpkeep_bench::server::{self, Options, Protocol, ServerError};
use warpkeep_bench::{Progress, Quiet};

use crate::fake::{Fake, Fault};

const ITEMS: u64 = 300;

fn options(fake: &Fake) -> Options {
    Options {
        targets: vec![fake.target()],
        items: ITEMS,
        key_bytes: 10,
        value_bytes: 40,
        read_share: 0.8,
        connections: 3,
        threads: 2,
        depths: vec![5],
        warm_up: Duration::from_millis(20),
        round_time: Duration::from_millis(150),
        rounds: 1,
        // A busy machine may let a good server wait.
        timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

fn run(protocol: Protocol, fault: Fault, keys_a_get: usize) -> Result<Report, ServerError> {
    let good = options(&Fake::start(protocol, Fault::None, 0));
    // Most faults show when writes have replaced some values, and end the run; until then it has time.
    let (from, round_time) = match fault {
        Fault::None | Fault::Refuse => (ITEMS + 5, good.round_time),
        _ => (ITEMS + 400, Duration::from_secs(10)),
    };
    // The wait for a silent server need not be long; but a server that is only slow answers its first request
    // within it.
    let timeout = if fault == Fault::Silent { Duration::from_secs(1) } else { good.timeout };
    let fake = Fake::start(protocol, fault, from);
    let targets = vec![fake.target()];
    server::run(&Options { targets, keys_a_get: vec![keys_a_get], timeout, round_time, ..good }, &Quiet)
}

/// The figures of a metric in the measured case.
fn figures(report: &Report, metric: &str) -> Vec<f64> {
    let wanted = |row: &&warpkeep_bench::report::Row| row.metric == metric && row.case.contains("reads");
    report.rows.iter().filter(wanted).map(|row| row.value).collect()
}

#[test]
fn a_server_that_keeps_its_word_gets_figures() {
    for protocol in Protocol::ALL {
        for keys_a_get in [1, 7] {
            let report = run(protocol, Fault::None, keys_a_get).expect("a good server");
            // The server's and, for comparison, the generator's own.
            let rates = figures(&report, "rate");
            assert!(rates.len() == 2 && rates.iter().all(|&rate| rate > 0.0), "{protocol}: {rates:?}");
            assert_eq!(figures(&report, "hits"), [100.0], "{protocol}");
            assert_eq!(figures(&report, "errors"), [0.0], "{protocol}");
            assert!(figures(&report, "p50")[0] <= figures(&report, "max")[0]);
            let text = report.to_text();
            assert!(text.contains("fake") || text.contains("redis 1"), "the version is missing: {text}");
        }
    }
}

#[test]
fn every_broken_word_is_caught() {
    type Check = fn(&ServerError) -> bool;
    let cases: [(Fault, Check); 10] = [
        (Fault::FlipBit, |error| matches!(error, ServerError::WrongValue { .. })),
        (Fault::Short, |error| matches!(error, ServerError::WrongValue { .. })),
        (Fault::OtherKey, |error| matches!(error, ServerError::OutOfOrder { .. })),
        (Fault::Stale, |error| matches!(error, ServerError::Stale { .. })),
        (Fault::Lose, |error| matches!(error, ServerError::Missing { .. })),
        (Fault::Close, |error| matches!(error, ServerError::Closed { .. })),
        (Fault::CloseMidway, |error| matches!(error, ServerError::Closed { .. })),
        (Fault::Silent, |error| matches!(error, ServerError::Silent { .. })),
        (Fault::Nonsense, |error| matches!(error, ServerError::Malformed { .. })),
        (Fault::Twice, |error| {
            // A duplicate is first taken for the next answer.
            matches!(
                error,
                ServerError::OutOfOrder { .. } | ServerError::WrongValue { .. } | ServerError::Missing { .. }
            )
        }),
    ];
    for protocol in Protocol::ALL {
        for keys_a_get in [1, 7] {
            for (fault, is_right) in cases {
                let error = run(protocol, fault, keys_a_get).expect_err("a bad server");
                assert!(is_right(&error), "{protocol}, {keys_a_get} keys a get, {fault:?}: {error:?}");
            }
            if keys_a_get > 1 {
                let error = run(protocol, Fault::Swap, keys_a_get).expect_err("a bad server");
                let right = matches!(error, ServerError::OutOfOrder { .. } | ServerError::Missing { .. });
                assert!(right, "{protocol}: {error:?}");
            }
        }
    }
}

#[test]
fn messages_name_the_key_and_the_bytes() {
    let error = run(Protocol::Resp, Fault::FlipBit, 1).expect_err("a bad server").to_string();
    assert!(
        error.contains("wrong value for key \"0000000") && error.contains("from byte 20 of 40"),
        "{error}"
    );
    let error = run(Protocol::Resp, Fault::Lose, 1).expect_err("a bad server").to_string();
    assert!(error.contains("has lost key") && error.contains("--cache"), "{error}");
    let error = run(Protocol::Memcached, Fault::Nonsense, 1).expect_err("a bad server").to_string();
    assert!(error.contains("what?") && error.contains("--protocol"), "{error}");
}

#[test]
fn a_cache_may_lose_keys_and_they_are_counted() {
    for protocol in Protocol::ALL {
        for keys_a_get in [1, 7] {
            let fake = Fake::start(protocol, Fault::Lose, ITEMS);
            let options = Options { cache: true, keys_a_get: vec![keys_a_get], ..options(&fake) };
            let report = server::run(&options, &Quiet).expect("a cache");
            assert_eq!(figures(&report, "hits"), [0.0], "{protocol}");
        }
    }
}

#[test]
fn refusals_are_counted_and_told() {
    for protocol in Protocol::ALL {
        let report = run(protocol, Fault::Refuse, 1).expect("a server that is busy");
        assert!(figures(&report, "errors")[0] > 0.0, "{protocol}");
        assert!(report.notes.iter().any(|note| note.contains("refused some requests")), "{protocol}");
        // But not while keys are stored: then a miss could not be judged.
        let fake = Fake::start(protocol, Fault::Refuse, 10);
        let error = server::run(&options(&fake), &Quiet).expect_err("keys are missing");
        assert!(matches!(error, ServerError::Refused { .. }), "{error:?}");
    }
}

#[test]
fn an_open_loop_charges_a_stall_to_all_that_waited() {
    let measure = |rate: Option<f64>| {
        let fake = Fake::start(Protocol::Resp, Fault::Stall, ITEMS + 10);
        let options = Options {
            rate,
            connections: 1,
            threads: 1,
            depths: vec![1],
            warm_up: Duration::ZERO,
            round_time: Duration::from_millis(400),
            ..options(&fake)
        };
        server::run(&options, &Quiet).expect("a slow server")
    };
    // 120 of 400 ms: nearly a third of the due requests waited, for 60 ms on average.
    let open = measure(Some(1000.0));
    assert!(figures(&open, "max")[0] >= 100_000.0, "{:?}", figures(&open, "max"));
    assert!(figures(&open, "p95")[0] >= 50_000.0, "{:?}", figures(&open, "p95"));
    // A closed loop has one request that waits, and hides the rest.
    let closed = measure(None);
    assert!(figures(&closed, "max")[0] >= 100_000.0, "{:?}", figures(&closed, "max"));
    assert!(figures(&closed, "p95")[0] < figures(&open, "p95")[0], "{:?}", figures(&closed, "p95"));
}

/// An observer that asks to stop after a while.
struct Impatient(std::time::Instant);

impl Progress for Impatient {
    fn begin(&self, _name: &str, _total: warpkeep_bench::Amount) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn is_cancelled(&self) -> bool {
        self.0.elapsed() > Duration::from_millis(100)
    }
}

#[test]
fn an_interrupt_ends_it_soon() {
    let fake = Fake::start(Protocol::Meta, Fault::None, 0);
    let begun = std::time::Instant::now();
    let options = Options { round_time: Duration::from_secs(60), ..options(&fake) };
    let error = server::run(&options, &Impatient(begun)).expect_err("interrupted");
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn nobody_there_is_told_with_the_address() {
    let fake = Fake::start(Protocol::Resp, Fault::None, 0);
    let options = options(&fake);
    // From here on no server listens.
    drop(fake);
    let error = server::run(&options, &Quiet).expect_err("no server is there");
    assert!(error.to_string().contains("127.0.0.1:"), "{error}");
}
