//! The load of clients in memory: their requests as bytes, and the check of every answer. The caller carries the bytes to
//! a server and back.

use std::sync::atomic::{AtomicU32, Ordering};

use super::connection::settle_all;
use super::expected::{Expected, Judge};
use super::items::Items;
use super::ledger::{Ledger, next_write};
use super::protocol::{Protocol, Requests};
use super::tally::{Tally, Window};
use super::work::{Coin, Mix, Turn, Work};
use super::{ServerError, error::excerpt};
use crate::BenchError;
use crate::measure::Latencies;
use crate::workload::{Dice, Distribution, Workload};

/// The items of a server, and the last write of each that it has acknowledged.
#[derive(Debug)]
pub(crate) struct Contents {
    name: String,
    workload: Workload,
    items: Items,
    ledger: Ledger,
    last_write: AtomicU32,
}

/// What clients request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Demand {
    /// The share of keys that are read rather than written, 0 to 1.
    pub(crate) read_share: f64,
    /// How keys are drawn.
    pub(crate) distribution: Distribution,
    /// Keys of a get.
    pub(crate) keys_a_get: usize,
    /// Another sequence for each.
    pub(crate) stream: u64,
}

impl Demand {
    /// Keys of a request, on average.
    pub(crate) fn keys_a_request(&self) -> f64 {
        Coin::keys_a_request(self.read_share, self.keys_a_get)
    }
}

/// The clients of one thread.
#[derive(Debug)]
pub(crate) struct Clients<'c> {
    contents: &'c Contents,
    requests: Requests,
    clients: Vec<Client>,
    numbers: Vec<u32>,
    tally: Tally,
}

#[derive(Debug)]
struct Client {
    work: Work,
    expected: Expected,
}

impl Contents {
    /// Items that are not stored yet. In errors the server has this name.
    pub(crate) fn new(name: String, workload: Workload) -> Contents {
        let items = Items::new(workload.key_bytes, workload.value_bytes, workload.seed);
        let ledger = Ledger::new(workload.items as usize);
        Contents { name, workload, items, ledger, last_write: AtomicU32::new(0) }
    }

    /// Clients that store every item once.
    pub(crate) fn loaders(&self, count: usize) -> Clients<'_> {
        let items = self.workload.items;
        let load = |client: usize| Work::Load { next: client as u64, step: count as u64, items };
        self.with((0..count).map(load), 1)
    }

    /// The clients of thread `thread` of `threads`, with `count` each. Every item has one client that writes it.
    pub(crate) fn clients(
        &self,
        demand: Demand,
        count: usize,
        (thread, threads): (usize, usize),
    ) -> Result<Clients<'_>, BenchError> {
        let Demand { read_share, distribution, keys_a_get, stream } = demand;
        let (Workload { items, seed, .. }, of) = (self.workload, (count * threads) as u64);
        let mix = |client: usize| -> Result<Work, BenchError> {
            let place = (thread * count + client) as u64;
            let stream = stream * of + place;
            Ok(Work::Mix(Mix {
                picks: self.workload.picks(distribution, stream)?,
                coin: Coin::new(read_share, keys_a_get, Dice::new(seed, !stream)),
                many: keys_a_get,
                items,
                place: (place, of),
            }))
        };
        let works: Vec<Work> = (0..count).map(mix).collect::<Result<_, _>>()?;
        Ok(self.with(works.into_iter(), keys_a_get))
    }

    fn with(&self, works: impl Iterator<Item = Work>, keys_a_get: usize) -> Clients<'_> {
        Clients {
            contents: self,
            requests: Requests::new(Protocol::Memcached, &self.items, keys_a_get),
            clients: works.map(|work| Client { work, expected: Expected::default() }).collect(),
            numbers: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn next_write(&self) -> u32 {
        let next = |write| Some(next_write(write));
        let before = self.last_write.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        next_write(before.unwrap_or_else(|same| same))
    }

    fn judge(&self) -> Judge<'_> {
        Judge {
            protocol: Protocol::Memcached,
            items: &self.items,
            ledger: &self.ledger,
            cache: false,
            by_sending: false,
            window: Window { from: 0, to: u64::MAX },
            address: &self.name,
        }
    }
}

impl Clients<'_> {
    /// Appends one request of a client, which was due at `due`; returns its number of keys, 0 if there are no more.
    pub(crate) fn request(&mut self, client: usize, due: u64, out: &mut Vec<u8>) -> usize {
        let judge = self.contents.judge();
        let Client { work, expected } = &mut self.clients[client];
        match work.next(&mut self.numbers) {
            None => 0,
            Some(Turn::Set(number)) => {
                let write = self.contents.next_write();
                self.requests.set(number, write, out);
                expected.set(number, write, due);
                1
            }
            Some(Turn::Get) => {
                match self.numbers[..] {
                    [number] => {
                        self.requests.get(number, out);
                        expected.get(number, &judge, due);
                    }
                    ref numbers => {
                        self.requests.get_many(numbers, out);
                        expected.get_many(numbers, &judge, due);
                    }
                }
                self.numbers.len()
            }
        }
    }

    /// Checks whole answers of a client, which were there at `now`.
    pub(crate) fn check(&mut self, client: usize, answers: &[u8], now: u64) -> Result<(), ServerError> {
        let judge = self.contents.judge();
        let expected = &mut self.clients[client].expected;
        let used = settle_all(answers, expected, &judge, &mut self.tally, now)?;
        match (&self.tally.first_refusal, answers.len() - used) {
            (None, 0) => Ok(()),
            (None, _) => Err(ServerError::Malformed {
                address: self.contents.name.clone(),
                protocol: Protocol::Memcached.name(),
                what: "an answer has no end",
                bytes: excerpt(&answers[used..]),
            }),
            (Some(answer), _) => Err(ServerError::Refused {
                address: self.contents.name.clone(),
                doing: "serve all requests",
                answer: answer.clone(),
            }),
        }
    }

    /// Requests of all clients that wait for an answer.
    pub(crate) fn outstanding(&self) -> usize {
        self.clients.iter().map(|client| client.expected.outstanding()).sum()
    }

    /// Whether a client waits for an answer.
    pub(crate) fn waits(&self, client: usize) -> bool {
        self.clients[client].expected.outstanding() > 0
    }

    /// The time from when requests were due until their answers were there.
    pub(crate) fn latencies(&self) -> &Latencies {
        &self.tally.latencies
    }
}

impl From<ServerError> for BenchError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Bench(error) => error,
            other => BenchError::Wrong(other.to_string()),
        }
    }
}
