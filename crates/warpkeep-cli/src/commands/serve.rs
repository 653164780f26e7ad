//! `warpkeep serve`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use warpkeep::Durability;
use warpkeep_server::{Access, Server, ServerError, Settings};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::store::StoreAt;

/// How to serve which store.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    store: StoreAt,
    /// Where to listen, for memcached and Redis clients alike. An address that other machines reach needs a password.
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1:11311", value_name = "ADDRESS,...")]
    listen: Vec<SocketAddr>,
    /// Threads that serve; by default one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// What a write has survived when it is answered.
    #[arg(long, value_enum, default_value = "process")]
    durability: Survives,
    /// A store that is made does without a log: nothing survives the machine for sure.
    #[arg(long)]
    without_log: bool,
    /// Commands after which a batch is done, whatever else may be coming.
    #[arg(long, default_value_t = 4096, value_name = "N")]
    batch: usize,
    /// How long a batch may be gathered while more is coming; 0s does what is there at once.
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration, value_name = "TIME")]
    cycle: Duration,
    /// The most connections at a time.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    max_connections: usize,
    /// Close connections that say nothing for so long.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    idle_timeout: Option<Duration>,
    /// Items to make room for at once, if the store is new.
    #[arg(long, default_value_t = 0, value_name = "N")]
    capacity: u64,
}

/// What a write is to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Survives {
    /// The death of the process.
    Process,
    /// The death of the machine; needs a log.
    Power,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let interrupt = Interrupt::listen()?;
        let server = Server::bind(self.settings())?;
        self.store.with_new_store(self.without_log, |store| {
            for address in server.addresses() {
                print(&format!("serving {} on {address}\n", self.store.directory.display()))?;
            }
            server.run(store, || interrupt.is_wanted())?;
            Ok(())
        })
    }

    fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            listen: self.listen.clone(),
            threads: self.threads.unwrap_or(defaults.threads),
            durability: match self.durability {
                Survives::Process => Durability::Process,
                Survives::Power => Durability::Power,
            },
            batch: self.batch,
            cycle: self.cycle,
            access: Access::default(),
            max_connections: self.max_connections,
            idle: self.idle_timeout,
            capacity: self.capacity,
            ..defaults
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Setting(what) => Failure::Usage(what),
            ServerError::Store(error) => error.into(),
            error => Failure::Error(Box::new(error)),
        }
    }
}
