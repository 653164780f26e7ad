//! `warpkeep bench server`.

use std::time::Duration;

use clap::Args;
use warpkeep_bench::server::{self, Address, Io, Program, Protocol, ServerError, Target};
use warpkeep_bench::workload::Distribution;

use super::{Files, command_line};
use crate::failure::Failure;

/// How to run it.
#[derive(Debug, Args)]
pub(super) struct Server {
    /// Running servers, each HOST:PORT or unix:PATH. Keys that begin with k or a digit are overwritten there.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "ADDRESS,...",
        required_unless_present = "spawn",
        requires = "protocol"
    )]
    address: Vec<Address>,
    /// The protocol: memcached (its text protocol), meta (its meta commands) or resp (Redis).
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<Protocol>,
    /// Servers to start for the run and stop after it: memcached, redis, warpkeep.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAM,...")]
    spawn: Vec<Program>,
    /// Start warpkeep once for each of these: how long it may gather a batch, such as 0us,120us,160us. Needs --spawn warpkeep.
    #[arg(long, value_delimiter = ',', value_parser = humantime::parse_duration, value_name = "TIME,...")]
    cycles: Vec<Duration>,
    /// Start warpkeep once for each of these ways to wait for clients: poll, uring. Needs --spawn warpkeep.
    #[arg(long, value_delimiter = ',', value_name = "WAY,...")]
    io: Vec<Io>,
    /// Threads of servers that are started.
    #[arg(long, default_value_t = 1, value_name = "N")]
    server_threads: usize,
    /// Servers that are started listen on a socket in the file system instead of on a port.
    #[arg(long)]
    unix: bool,
    /// Keys that are stored before anything is measured.
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
    /// Bytes in a key, 8 to 250.
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_bytes: usize,
    /// Bytes in a value, 8 to 1 MiB.
    #[arg(long, default_value_t = 32, value_name = "BYTES")]
    value_bytes: usize,
    /// Keys that are read rather than written, in per cent.
    #[arg(long, default_value_t = 95.0, value_name = "PERCENT")]
    reads: f64,
    /// How keys are drawn: uniform, zipfian, or zipfian:0.8 with another skew.
    #[arg(long, default_value = "uniform", value_name = "LAW")]
    distribution: Distribution,
    /// Connections to each server.
    #[arg(long, default_value_t = 4, value_name = "N")]
    connections: usize,
    /// Threads that share them.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// Requests under way on a connection, one case each.
    #[arg(long, default_value = "64", value_delimiter = ',', value_name = "N,...")]
    depth: Vec<usize>,
    /// Keys of a get, one case each: 1 is a plain get, more are a multiget.
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "N,...")]
    keys_a_get: Vec<usize>,
    /// Send this many operations a second by the clock, and measure latencies from when each was due.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// How long a round runs before it is measured.
    #[arg(long, default_value = "500ms", value_parser = humantime::parse_duration, value_name = "TIME")]
    warm_up: Duration,
    /// How long a round is measured.
    #[arg(long, default_value = "2s", value_parser = humantime::parse_duration, value_name = "TIME")]
    round_time: Duration,
    /// Rounds of each server in each case, in turns.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Servers may evict: misses are counted. Without it, a missing key ends the run.
    #[arg(long)]
    cache: bool,
    /// Do not store the keys first; they are there from a run before.
    #[arg(long)]
    skip_load: bool,
    /// The longest silence of a server with requests unanswered.
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    timeout: Duration,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Server {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let is_warpkeep = |program: &Program| matches!(program, Program::Warpkeep { .. });
        let is_told = !self.cycles.is_empty() || !self.io.is_empty();
        if is_told && !self.spawn.iter().any(is_warpkeep) {
            let what = "cycles, and ways to wait, are those of warpkeep; give --spawn warpkeep, too";
            return Err(Failure::Usage(what.to_owned()));
        }
        let options = server::Options {
            targets: self.targets(),
            items: self.items,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            read_share: self.reads / 100.0,
            distribution: self.distribution,
            connections: self.connections,
            threads: self.threads,
            depths: self.depth.clone(),
            keys_a_get: self.keys_a_get.clone(),
            rate: self.rate,
            warm_up: self.warm_up,
            round_time: self.round_time,
            rounds: self.rounds,
            cache: self.cache,
            load: !self.skip_load,
            timeout: self.timeout,
            server_threads: self.server_threads,
            unix: self.unix,
            seed: self.seed,
            command: command_line(),
        };
        self.files.run(|progress| server::run(&options, progress))
    }

    /// The running servers first. A protocol that a started program does not speak applies to the others.
    fn targets(&self) -> Vec<Target> {
        let running = self.address.iter().zip(self.protocol.iter().cycle());
        let running =
            running.map(|(address, &protocol)| Target::Running { address: address.clone(), protocol });
        let each = |&program: &Program| match program {
            Program::Warpkeep { cycle, io } => {
                let cycles = if self.cycles.is_empty() { vec![cycle] } else { self.cycles.clone() };
                let ways =
                    if self.io.is_empty() { vec![io] } else { self.io.iter().copied().map(Some).collect() };
                let each = |&cycle: &Duration| ways.iter().map(move |&io| Program::Warpkeep { cycle, io });
                cycles.iter().flat_map(each).collect()
            }
            program => vec![program],
        };
        let started = self.spawn.iter().flat_map(each).map(|program| {
            let wanted = self.protocol.filter(|&protocol| program.speaks(protocol));
            Target::Started { program, protocol: wanted.unwrap_or(program.protocol()) }
        });
        running.chain(started).collect()
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Bench(error) => error.into(),
            error => Failure::Error { error: Box::new(error), kind: "error" },
        }
    }
}
