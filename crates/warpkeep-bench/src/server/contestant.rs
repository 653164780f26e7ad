//! One server under measurement: its address, the contents it has acknowledged, rounds on it.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::address::Address;
use super::connection::Connection;
use super::drive::{Drive, Driven};
use super::error::ServerError;
use super::expected::Judge;
use super::items::Items;
use super::ledger::Ledger;
use super::options::{Case, Options, Target};
use super::pace::Pace;
use super::processor;
use super::protocol::{Protocol, Requests};
use super::spawn::{Launch, Spawned};
use super::tally::{Tally, Window};
use super::version::version;
use super::work::{Coin, Work};
use crate::{Amount, BenchError, Progress};

/// Requests in flight on a connection while keys are stored: enough to hide the round trip.
const LOAD_DEPTH: usize = 256;
/// Storing keys ends only with the last of them.
const NO_END: Window = Window { from: 0, to: u64::MAX };

/// A server and its state.
#[derive(Debug)]
pub(super) struct Contestant<'a> {
    options: &'a Options,
    pub(super) name: String,
    pub(super) protocol: Protocol,
    /// In the server's words.
    pub(super) version: String,
    address: Address,
    items: Items,
    ledger: Ledger,
    /// The number of the last write of each connection.
    last_writes: Vec<u32>,
    spawned: Option<Spawned>,
}

/// The result of a round.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// The measured seconds.
    pub(super) seconds: f64,
    /// Processor time of the generator, in cores.
    pub(super) generator: f64,
    /// That of the server, if it was started by us.
    pub(super) server: Option<f64>,
}

impl<'a> Contestant<'a> {
    /// Starts the server if necessary, and asks for its version.
    pub(super) fn open(target: &Target, options: &'a Options) -> Result<Contestant<'a>, ServerError> {
        let spawned = match target {
            Target::Running { .. } => None,
            Target::Started { program, .. } => Some(Spawned::start(
                *program,
                &Launch {
                    threads: options.server_threads,
                    items: options.items,
                    item_bytes: options.key_bytes + options.value_bytes,
                    cache: options.cache,
                    unix: options.unix,
                },
            )?),
        };
        let address = match (target, &spawned) {
            (Target::Running { address, .. }, _) => address.clone(),
            (_, Some(spawned)) => spawned.address().clone(),
            (Target::Started { .. }, None) => {
                unreachable!("a target that is to be started was started above")
            }
        };
        let protocol = target.protocol();
        Ok(Contestant {
            options,
            name: target.name(),
            protocol,
            version: version(&address, protocol, options.timeout)?,
            address,
            items: options.contents(),
            ledger: Ledger::new(options.items as usize),
            last_writes: vec![0; options.connections],
            spawned,
        })
    }

    /// How it was started, if it was.
    pub(super) fn command(&self) -> Option<&str> {
        self.spawned.as_ref().map(Spawned::command)
    }

    /// Stores every key. In a store, each must be taken.
    pub(super) fn load(&mut self, progress: &dyn Progress) -> Result<Outcome, ServerError> {
        let (items, of) = (self.options.items, self.options.connections as u64);
        progress.begin(&format!("{}: storing keys", self.name), Amount::Count(items));
        let work = |place: usize| {
            let work = Work::Load { next: place as u64, step: of, items };
            Ok((work, Pace::Closed { depth: LOAD_DEPTH }))
        };
        let requests = Requests::new(self.protocol, &self.items, 1);
        let outcome = self.drive(&requests, NO_END, false, progress, true, work);
        progress.finish();
        let outcome = outcome?;
        match &outcome.tally.first_refusal {
            Some(answer) if !self.options.cache => Err(ServerError::Refused {
                address: self.name.clone(),
                doing: "store all keys",
                answer: answer.clone(),
            }),
            _ => Ok(outcome),
        }
    }

    /// One round of a case.
    pub(super) fn round(
        &mut self,
        case: Case,
        round: u32,
        progress: &dyn Progress,
    ) -> Result<Outcome, ServerError> {
        let options = self.options;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        let from = nanos(options.warm_up);
        let window = Window { from, to: from + nanos(options.round_time) };
        let requests = Requests::new(self.protocol, &self.items, case.many);
        let of = options.connections;
        let work = |place: usize| {
            let mix = options.mix(case, options.items, (place as u64, of as u64), u64::from(round))?;
            let pace = match options.rate {
                None => Pace::Closed { depth: case.depth },
                Some(rate) => {
                    Pace::open(rate / Coin::keys_a_request(options.read_share, case.many), place, of)
                }
            };
            Ok((Work::Mix(mix), pace))
        };
        let outcome = self.drive(&requests, window, options.rate.is_some(), progress, false, work)?;
        match &outcome.tally.first_refusal {
            Some(answer) if outcome.tally.done() == 0 => Err(ServerError::Refused {
                address: self.name.clone(),
                doing: "do anything at all",
                answer: answer.clone(),
            }),
            _ => Ok(outcome),
        }
    }

    fn drive(
        &mut self,
        requests: &Requests,
        window: Window,
        by_sending: bool,
        progress: &dyn Progress,
        tells: bool,
        work: impl Fn(usize) -> Result<(Work, Pace), BenchError>,
    ) -> Result<Outcome, ServerError> {
        let mut connections = Vec::new();
        for (place, &last_write) in self.last_writes.iter().enumerate() {
            progress.check()?;
            let (work, pace) = work(place)?;
            connections.push(Connection::open(&self.address, work, pace, last_write)?);
        }
        let stop = AtomicBool::new(false);
        let server_before = self.spawned.as_ref().map(|spawned| processor::of_process(spawned.id()));
        let drive = Drive {
            requests,
            judge: Judge {
                protocol: self.protocol,
                items: &self.items,
                ledger: &self.ledger,
                cache: self.options.cache,
                by_sending,
                window,
                address: &self.name,
            },
            begun: Instant::now(),
            timeout: self.options.timeout,
            stop: &stop,
            progress,
            tells,
        };
        let result = run_threads(&drive, &mut connections, self.options.threads);
        let wall = drive.begun.elapsed().as_secs_f64();
        let server = server_before.zip(self.spawned.as_ref());
        let server = server.map(|(before, spawned)| (processor::of_process(spawned.id()) - before) / wall);
        for (last, connection) in self.last_writes.iter_mut().zip(&connections) {
            *last = connection.last_write();
        }
        let Driven { tally, processor } = result?;
        let seconds = if window.to == NO_END.to { wall } else { window.seconds() };
        Ok(Outcome { tally, seconds, generator: processor / wall, server })
    }
}

/// Distributes the connections among threads. Returns the first failure, not the stops of other threads that it
/// caused.
fn run_threads(
    drive: &Drive<'_>,
    connections: &mut [Connection],
    threads: usize,
) -> Result<Driven, ServerError> {
    let share = connections.len().div_ceil(threads.max(1)).max(1);
    let results: Vec<Result<Driven, ServerError>> = std::thread::scope(|scope| {
        let start = |part| scope.spawn(move || drive.run(part));
        let threads: Vec<_> = connections.chunks_mut(share).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Driven { tally: Tally::default(), processor: 0.0 };
    let mut failure = None;
    for result in results {
        match result {
            Ok(driven) => {
                all.tally.add(driven.tally);
                all.processor += driven.processor;
            }
            Err(ServerError::Bench(BenchError::Interrupted)) if failure.is_some() => {}
            Err(error) if matches!(failure, None | Some(ServerError::Bench(BenchError::Interrupted))) => {
                failure = Some(error);
            }
            Err(_) => {}
        }
    }
    failure.map_or(Ok(all), Err)
}
