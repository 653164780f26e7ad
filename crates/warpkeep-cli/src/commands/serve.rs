//! `warpkeep serve`.

mod file;
mod hangup;

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde::Deserialize;
use warpkeep::{Durability, Store};
use warpkeep_bench::size::Size;
use warpkeep_server::{Access, Control, Eviction, Io, Server, ServerError, Settings, TlsFiles};

use self::hangup::Hangup;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::print;
use crate::store::{StoreAt, Worked};

/// How to serve which store.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    store: StoreAt,
    #[command(flatten)]
    worked: Worked,
    /// A TOML file with settings, each named as its option without the leading dashes. Options on the command line
    /// take precedence.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only check whether the settings are valid.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    given: Given,
}

/// The settings, from options or a file.
#[derive(Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Given {
    /// Where to listen, for memcached and Redis clients alike; by default 127.0.0.1:11311, unless --listen-tls is
    /// given. An address that other machines reach needs a password.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,...")]
    listen: Option<Vec<SocketAddr>>,
    /// Where to listen for clients that speak TLS. Needs --tls-certificate and --tls-key.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,...")]
    listen_tls: Option<Vec<SocketAddr>>,
    /// The server's certificate and those that lead from it to a root, in PEM. It is read again on SIGHUP, as the two below.
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificates in PEM: clients that speak TLS must show one that is signed by one of these.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Where to answer /metrics, /healthz and /readyz. An address that other machines reach needs a password, which
    /// /metrics then requires.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// A file whose first line is the clients' password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Threads that serve; by default one for each core.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How to wait for clients: poll, uring (io_uring, with fewer system calls), or auto, the default: poll, until
    /// uring is measured to be much faster.
    #[arg(long, value_name = "auto|poll|uring")]
    #[serde(deserialize_with = "file::text")]
    io: Option<Io>,
    /// What a write has survived when it is answered; by default the process.
    #[arg(long, value_enum)]
    durability: Option<Survives>,
    /// A new store has no log: nothing is guaranteed to survive the machine.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    without_log: Option<bool>,
    /// The memory that items may take, such as 4GiB. A full store refuses writes that find no room.
    #[arg(long, value_name = "SIZE")]
    #[serde(deserialize_with = "file::size")]
    max_memory: Option<Size>,
    /// Be a cache: items without recent requests are evicted to make room. Needs --max-memory.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    evict: Option<bool>,
    /// How a cache chooses the items to evict; by default by frequency.
    #[arg(long, value_enum, value_name = "HOW")]
    eviction: Option<EvictionArg>,
    /// A directory in which clients may have backups of the store made: see `warpkeep backup --address`.
    #[arg(long, value_name = "DIR")]
    backups: Option<PathBuf>,
    /// Items to make room for at once, if the store is new.
    #[arg(long, value_name = "N")]
    capacity: Option<u64>,
    /// Commands after which a batch is executed, even if more are coming; default: 4096.
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How long a batch may be gathered while more commands arrive, such as 50us. By default it is executed at
    /// once.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    #[serde(deserialize_with = "file::time")]
    cycle: Option<Duration>,
    /// The most connections at a time; default: 10000.
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Close connections that are silent for this long.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    #[serde(deserialize_with = "file::time")]
    idle_timeout: Option<Duration>,
    /// Log batches that take longer, such as 10ms.
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    #[serde(deserialize_with = "file::time")]
    slow_log: Option<Duration>,
    /// The log level on standard error: error, warn, info, debug or trace; default: info.
    #[arg(long, value_name = "LEVEL")]
    #[serde(deserialize_with = "file::text")]
    log_level: Option<tracing::Level>,
}

/// The durability of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Survives {
    /// The death of the process.
    Process,
    /// The death of the machine; needs a log.
    Power,
}

/// How a cache chooses the items to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EvictionArg {
    /// The items with the fewest recent requests.
    Frequency,
    /// The items not requested since the hand of the clock last passed: CLOCK.
    Clock,
}

impl From<EvictionArg> for Eviction {
    fn from(eviction: EvictionArg) -> Eviction {
        match eviction {
            EvictionArg::Frequency => Eviction::Frequency,
            EvictionArg::Clock => Eviction::Clock,
        }
    }
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let given = self.read()?;
        let settings = given.settings()?;
        settings.check()?;
        if self.check {
            settings.read_files()?;
            settings.io.check()?;
            return print("the settings make sense\n");
        }
        let level = given.log_level.unwrap_or(tracing::Level::INFO);
        // Colours are for people.
        let colours = std::io::stderr().is_terminal();
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(colours)
            .with_writer(std::io::stderr)
            .init();
        let recorder = PrometheusBuilder::new()
            .install_recorder()
            .map_err(|error| Failure::error(format!("cannot count: {error}")))?;
        let interrupt = Interrupt::listen()?;
        let hangup = Hangup::listen()?;
        let server = Server::bind(settings)?;
        let text = recorder.clone();
        server.add_metrics(move || text.render());
        let upkeep = Upkeep { recorder, last: Cell::new(Instant::now()) };
        let limit = given.max_memory.map(|size| size.0);
        let store = self.store.on(self.worked);
        store.with_served_store(given.without_log == Some(true), limit, |store| {
            serve(self, server, store, (&interrupt, &hangup, &upkeep))
        })
    }

    /// The settings from the command line and the file.
    fn read(&self) -> Result<Given, Failure> {
        let file = match &self.config {
            Some(path) => file::read(path)?,
            None => Given::default(),
        };
        Ok(self.given.over(&file))
    }

    /// Applies the settings that can change while the server runs.
    fn reload(&self, control: &Control) {
        let done = self.read().and_then(|given| Ok(control.reload(&given.settings()?)?));
        match done {
            Ok(left) if left.is_empty() => tracing::info!("the settings were read again"),
            Ok(left) => tracing::warn!("the settings were read again; {} need a restart", left.join(", ")),
            Err(error) => tracing::error!("the settings stay as they were: {}", error.message()),
        }
    }
}

/// Sums up the samples of histograms, which the recorder otherwise keeps one by one until the metrics are read.
struct Upkeep {
    recorder: PrometheusHandle,
    last: Cell<Instant>,
}

impl Upkeep {
    fn run_if_due(&self) {
        if self.last.get().elapsed() >= Duration::from_secs(1) {
            self.recorder.run_upkeep();
            self.last.set(Instant::now());
        }
    }
}

fn serve(
    serve: &Serve,
    server: Server,
    store: &Store,
    (interrupt, hangup, upkeep): (&Interrupt, &Hangup, &Upkeep),
) -> Result<(), Failure> {
    tracing::info!(store = %serve.store.directory.display(), "{:?}", store.report().origin);
    if let Some(why) = &store.report().only_reads {
        tracing::error!("the log has no space, so the store is served to be read only: {why}");
    }
    let plain = server.addresses().len() - server.tls_addresses().len();
    for (number, address) in server.addresses().iter().enumerate() {
        let how = if number < plain { "" } else { ", with TLS" };
        print(&format!("serving {} on {address}{how}\n", serve.store.directory.display()))?;
    }
    let control = server.control();
    server.run(store, || {
        if hangup.take() {
            serve.reload(&control);
        }
        upkeep.run_if_due();
        interrupt.is_wanted()
    })?;
    tracing::info!("no more commands are taken");
    if store.report().log.is_some() && store.report().only_reads.is_none() {
        store.checkpoint()?;
        tracing::info!("a checkpoint was taken");
    }
    Ok(())
}

impl Given {
    /// These settings where they are given, and the others where they are not.
    fn over(&self, other: &Given) -> Given {
        macro_rules! either {
            ($($name:ident),*) => { Given { $($name: self.$name.clone().or_else(|| other.$name.clone())),* } };
        }
        either!(
            listen,
            listen_tls,
            tls_certificate,
            tls_key,
            tls_client_ca,
            http,
            password_file,
            threads,
            io,
            durability,
            without_log,
            max_memory,
            evict,
            eviction,
            backups,
            capacity,
            batch,
            cycle,
            max_connections,
            idle_timeout,
            slow_log,
            log_level
        )
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let defaults = Settings::default();
        let password = match &self.password_file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(Failure::io(format!("read the password in {}", path.display())))?;
                Some(text.lines().next().unwrap_or_default().to_owned())
            }
        };
        let tls = match (&self.tls_certificate, &self.tls_key, &self.tls_client_ca) {
            (Some(certificate), Some(key), roots) => {
                let (certificate, key, client_roots) = (certificate.clone(), key.clone(), roots.clone());
                Some(TlsFiles { certificate, key, client_roots })
            }
            (None, None, None) => None,
            _ => {
                let what = "TLS needs both --tls-certificate and --tls-key; give the one that is missing";
                return Err(Failure::Usage(what.to_owned()));
            }
        };
        let listen = match (&self.listen, &self.listen_tls) {
            (Some(listen), _) => listen.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) => defaults.listen,
        };
        Ok(Settings {
            listen,
            listen_tls: self.listen_tls.clone().unwrap_or_default(),
            tls,
            handshake: defaults.handshake,
            http: self.http,
            threads: self.threads.unwrap_or(defaults.threads),
            io: self.io.unwrap_or(defaults.io),
            durability: match self.durability {
                Some(Survives::Power) => Durability::Power,
                Some(Survives::Process) | None => Durability::Process,
            },
            batch: self.batch.unwrap_or(defaults.batch),
            cycle: self.cycle.unwrap_or(defaults.cycle),
            write_every: defaults.write_every,
            access: Access { password },
            max_connections: self.max_connections.unwrap_or(defaults.max_connections),
            idle: self.idle_timeout,
            slow: self.slow_log,
            unread: defaults.unread,
            capacity: self.capacity.unwrap_or(defaults.capacity),
            max_memory: self.max_memory.map_or(0, |size| size.0),
            evict: self.evict.unwrap_or(defaults.evict),
            eviction: self.eviction.map_or(defaults.eviction, Into::into),
            backups: self.backups.clone(),
        })
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Setting(what) => Failure::Usage(what),
            ServerError::Store(error) => error.into(),
            error => Failure::Error { error: Box::new(error), kind: "error" },
        }
    }
}
