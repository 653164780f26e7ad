//! A round: clients send, the server executes a batch, the answers are checked, and again. Only the server's part is
//! timed.

use std::time::{Duration, Instant};

use warpkeep_server::{MemoryServer, MemoryWorker, Settings};

use super::Site;
use super::contestant::Contestant;
use crate::measure::Latencies;
use crate::server::{Clients, Demand};
use crate::{BenchError, Progress};

/// Batches at the beginning of a round that are not counted.
const WARM_UP: u64 = 2;

/// How a round is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) demand: Demand,
    /// Clients of each thread, each with one request at a time.
    pub(super) clients: usize,
    /// See [`Settings::write_every`].
    pub(super) write_every: u32,
}

/// The results of a round, of one thread or of all.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Keys that were read or written.
    pub(super) keys: u64,
    pub(super) batches: u64,
    /// The server's time.
    pub(super) took: Duration,
    /// Keys a second: with several threads the sum of theirs.
    pub(super) rate: f64,
    /// From when a request was sent until its batch was answered, in time of the server.
    pub(super) latencies: Latencies,
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.keys += other.keys;
        self.batches += other.batches;
        self.took += other.took;
        self.rate += other.rate;
        self.latencies.add(&other.latencies);
    }

    /// The mean time of a batch.
    pub(super) fn batch_micros(&self) -> f64 {
        self.took.as_secs_f64() * 1e6 / self.batches.max(1) as f64
    }

    /// The mean number of keys in a batch.
    pub(super) fn batch_keys(&self) -> f64 {
        self.keys as f64 / self.batches.max(1) as f64
    }
}

/// Runs a round, on as many threads as the options say.
pub(super) fn run(site: &Site<'_>, contestant: &Contestant, plan: Plan) -> Result<Outcome, BenchError> {
    let threads = site.options.threads;
    // No batch ends because it is large.
    let settings = Settings { batch: usize::MAX, write_every: plan.write_every, ..Settings::default() };
    let server = contestant.server(settings)?;
    let count = contestant.clients(plan.clients, threads);
    let outcomes: Vec<Result<Outcome, BenchError>> = std::thread::scope(|scope| {
        let start = |thread: usize| {
            let server = &server;
            scope.spawn(move || {
                let clients = contestant.contents.clients(plan.demand, count, (thread, threads))?;
                Thread::new(server, clients, count).run(site.options.round_time, site.progress)
            })
        };
        let threads: Vec<_> = (0..threads).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Outcome::default();
    for outcome in outcomes {
        all.add(&outcome?);
    }
    Ok(all)
}

/// One thread: a worker of the server, and its clients.
pub(super) struct Thread<'k, 's, 'c> {
    worker: MemoryWorker<'k, 's>,
    numbers: Vec<usize>,
    clients: Clients<'c>,
    /// Whether a client waits for answers.
    waits: Vec<bool>,
    requests: Vec<u8>,
    /// The server's time so far.
    clock: Duration,
}

impl<'k, 's, 'c> Thread<'k, 's, 'c> {
    pub(super) fn new(
        server: &'k MemoryServer<'s>,
        clients: Clients<'c>,
        count: usize,
    ) -> Thread<'k, 's, 'c> {
        let mut worker = server.worker();
        let numbers = (0..count).map(|_| worker.connect()).collect();
        Thread {
            worker,
            numbers,
            clients,
            waits: vec![false; count],
            requests: Vec::new(),
            clock: Duration::ZERO,
        }
    }

    /// A closed loop: every client that has its answer sends the next request.
    fn run(mut self, time: Duration, progress: &dyn Progress) -> Result<Outcome, BenchError> {
        let mut outcome = Outcome::default();
        while outcome.took < time {
            progress.check()?;
            for client in 0..self.numbers.len() {
                if !self.waits[client] {
                    self.send(client, self.clock);
                }
            }
            let (keys, took) = self.batch()?;
            outcome.batches += 1;
            if outcome.batches > WARM_UP {
                outcome.keys += keys as u64;
                outcome.took += took;
            }
        }
        outcome.batches -= WARM_UP;
        // Writes may still wait.
        while self.clients.outstanding() > 0 {
            self.batch()?;
        }
        outcome.rate = outcome.keys as f64 / outcome.took.as_secs_f64().max(1e-9);
        outcome.latencies = self.latencies();
        Ok(outcome)
    }

    /// As [`batch`](Thread::batch), at this time of the server. Returns how long it took.
    pub(super) fn batch_at(&mut self, begins: Duration) -> Result<Duration, BenchError> {
        self.clock = begins;
        Ok(self.batch()?.1)
    }

    /// Whether no client waits for an answer.
    pub(super) fn is_idle(&self) -> bool {
        self.clients.outstanding() == 0
    }

    /// The time from when requests were due until their answers were there.
    pub(super) fn latencies(&self) -> Latencies {
        self.clients.latencies().clone()
    }

    /// A client sends a request that was due at this time of the server.
    pub(super) fn send(&mut self, client: usize, due: Duration) {
        self.requests.clear();
        self.clients.request(client, due.as_nanos() as u64, &mut self.requests);
        self.worker.send(self.numbers[client], &self.requests);
        self.waits[client] = true;
    }

    /// Executes a batch and checks its answers; returns the number of keys and the time.
    pub(super) fn batch(&mut self) -> Result<(usize, Duration), BenchError> {
        let begun = Instant::now();
        let keys = self.worker.turn()?;
        let took = begun.elapsed();
        if keys == 0 {
            let left = self.clients.outstanding();
            return Err(BenchError::Wrong(format!("{left} requests have no answer")));
        }
        self.clock += took;
        let now = self.clock.as_nanos() as u64;
        for client in 0..self.numbers.len() {
            let answers = self.worker.answers(self.numbers[client]);
            if !answers.is_empty() {
                self.clients.check(client, answers, now)?;
                self.worker.take_answers(self.numbers[client]);
                self.waits[client] = self.clients.waits(client);
            }
        }
        Ok((keys, took))
    }
}
