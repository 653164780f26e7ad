//! The servers, and the load on them.

use std::time::Duration;

use super::address::Address;
use super::items::Items;
use super::protocol::Protocol;
use super::spawn::Program;
use super::work::{Coin, Mix};
use crate::BenchError;
use crate::machine::Machine;
use crate::size::Size;
use crate::workload::{Dice, Distribution, Workload};

/// A server to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One that runs.
    Running {
        /// Where.
        address: Address,
        /// Its protocol.
        protocol: Protocol,
    },
    /// One that is started for the run.
    Started {
        /// Which.
        program: Program,
        /// Its protocol.
        protocol: Protocol,
    },
}

impl Target {
    /// Its name in reports.
    pub fn name(&self) -> String {
        match self {
            Target::Running { address, protocol } => format!("{address} ({protocol})"),
            Target::Started { program, protocol } => {
                let mut name = program.name().to_owned();
                if let Program::Warpkeep { cycle, io } = program {
                    if let Some(io) = io {
                        name += &format!(", {}", io.name());
                    }
                    if !cycle.is_zero() {
                        name += &format!(", cycle of {} us", cycle.as_micros());
                    }
                }
                match *protocol == program.protocol() {
                    true => name,
                    false => format!("{name} ({protocol})"),
                }
            }
        }
    }

    pub(super) fn protocol(&self) -> Protocol {
        match *self {
            Target::Running { protocol, .. } | Target::Started { protocol, .. } => protocol,
        }
    }
}

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers; they take turns, round by round.
    pub targets: Vec<Target>,
    /// Keys that are stored before anything is measured.
    pub items: u64,
    /// Bytes in a key, 8 to 250.
    pub key_bytes: usize,
    /// Bytes in a value, 8 to 1 MiB.
    pub value_bytes: usize,
    /// The share of keys that are read rather than written, 0 to 1.
    pub read_share: f64,
    /// How keys are drawn: uniform, or by Zipf's law.
    pub distribution: Distribution,
    /// Connections to each server.
    pub connections: usize,
    /// Threads that share them.
    pub threads: usize,
    /// Requests under way on a connection, case by case.
    pub depths: Vec<usize>,
    /// Keys of a get, case by case; 1 is a plain get.
    pub keys_a_get: Vec<usize>,
    /// Operations a second to send, whether or not they are answered in time; by default as many as are answered.
    pub rate: Option<f64>,
    /// How long a round runs before it is measured.
    pub warm_up: Duration,
    /// How long a round is measured.
    pub round_time: Duration,
    /// Rounds of each case.
    pub rounds: u32,
    /// Whether keys may be gone: misses are counted instead of ending the run.
    pub cache: bool,
    /// Whether to store the keys first. If not, they must be there from a run before.
    pub load: bool,
    /// The longest silence of a server with requests unanswered.
    pub timeout: Duration,
    /// Threads of servers that are started.
    pub server_threads: usize,
    /// Whether servers that are started listen on a socket in the file system instead of on a port.
    pub unix: bool,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            targets: Vec::new(),
            items: 1_000_000,
            key_bytes: 16,
            value_bytes: 32,
            read_share: 0.95,
            distribution: Distribution::Uniform,
            connections: 4,
            threads: 1,
            depths: vec![64],
            keys_a_get: vec![1],
            rate: None,
            warm_up: Duration::from_millis(500),
            round_time: Duration::from_secs(2),
            rounds: 5,
            cache: false,
            load: true,
            timeout: Duration::from_secs(10),
            server_threads: 1,
            unix: false,
            seed: 1,
            command: "warpkeep bench server".to_owned(),
        }
    }
}

/// The requests at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// Requests under way on a connection.
    pub(super) depth: usize,
    /// Keys of a get.
    pub(super) many: usize,
}

impl Options {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: String| Err(BenchError::Invalid(what));
        if self.targets.is_empty() {
            return wrong(
                "no server was named; give one with --address, or have one started with --spawn".to_owned(),
            );
        }
        for target in &self.targets {
            if let Target::Started { program, protocol } = target
                && !program.speaks(*protocol)
            {
                return wrong(format!("{} does not speak {protocol}; leave --protocol out", program.name()));
            }
        }
        if !(8..=250).contains(&self.key_bytes) {
            return wrong(format!("keys of {} bytes are not possible; take 8 to 250", self.key_bytes));
        }
        if !(8..=1 << 20).contains(&self.value_bytes) {
            return wrong(format!("values of {} bytes are not possible; take 8 to 1 MiB", self.value_bytes));
        }
        let most = Items::most(self.key_bytes);
        if !(1..=most).contains(&self.items) {
            return wrong(format!(
                "{} items are not possible with keys of {} bytes; take 1 to {most}",
                self.items, self.key_bytes
            ));
        }
        // The last write of each key is kept, to recognise an old value.
        let (needed, memory) = (4 * self.items * self.targets.len() as u64, Machine::describe().memory_bytes);
        if needed > memory / 2 {
            return wrong(format!(
                "{} items need {} of memory to be checked, and there are {}; take fewer",
                self.items,
                Size(needed),
                Size(memory)
            ));
        }
        if !(0.0..=1.0).contains(&self.read_share) {
            return wrong(format!("a share of {} is not possible; take 0 to 1", self.read_share));
        }
        if let Distribution::Latest(_) = self.distribution {
            return wrong("no key is newer than another here; take uniform or zipfian".to_owned());
        }
        if !(1..=512).contains(&self.threads) || !(self.threads..=8192).contains(&self.connections) {
            return wrong(format!(
                "{} threads with {} connections are not possible; take 1 to 512 threads, and for each a connection or more, \
                 8192 at most",
                self.threads, self.connections
            ));
        }
        if self.items < self.connections as u64 {
            return wrong("there are fewer items than connections; take more items".to_owned());
        }
        let within =
            |counts: &[usize]| !counts.is_empty() && counts.iter().all(|count| (1..=1 << 16).contains(count));
        if !within(&self.depths) || !within(&self.keys_a_get) {
            return wrong("a pipeline has 1 to 65536 requests, and a get 1 to 65536 keys".to_owned());
        }
        if self.rate.is_some_and(|rate| !(1.0..=1e9).contains(&rate)) {
            return wrong("the rate must be 1 to 10^9 operations a second".to_owned());
        }
        if self.rounds == 0 || self.round_time.is_zero() || self.timeout.is_zero() || self.server_threads == 0
        {
            return wrong(
                "at least one round, some time for it, and one thread of a server are needed".to_owned(),
            );
        }
        Ok(())
    }

    /// Every combination. With a rate, the depth has no meaning.
    pub(super) fn cases(&self) -> Vec<Case> {
        let depths = if self.rate.is_some() { &self.depths[..1] } else { &self.depths[..] };
        let cases = |&many: &usize| depths.iter().map(move |&depth| Case { depth, many });
        self.keys_a_get.iter().flat_map(cases).collect()
    }

    /// The name of a case.
    pub(super) fn case_name(&self, case: Case) -> String {
        let pace = match self.rate {
            Some(rate) => format!("{rate} asked a second"),
            None => format!("{} under way on each of {} connections", case.depth, self.connections),
        };
        let gets = if case.many == 1 { String::new() } else { format!(", {} keys a get", case.many) };
        let keys = match self.distribution {
            Distribution::Uniform => String::new(),
            skewed => format!(", {skewed}"),
        };
        format!("{:.0}% reads{keys}{gets}, {pace}", 100.0 * self.read_share)
    }

    pub(super) fn contents(&self) -> Items {
        Items::new(self.key_bytes, self.value_bytes, self.seed)
    }

    /// The work of one connection in a round.
    pub(super) fn mix(
        &self,
        case: Case,
        items: u64,
        place: (u64, u64),
        round: u64,
    ) -> Result<Mix, BenchError> {
        let Options { key_bytes, value_bytes, seed, .. } = *self;
        let stream = round * place.1 + place.0;
        let workload = Workload { items, key_bytes, value_bytes, seed };
        let coin = Coin::new(self.read_share, case.many, Dice::new(seed, !stream));
        Ok(Mix { picks: workload.picks(self.distribution, stream)?, coin, many: case.many, items, place })
    }
}
