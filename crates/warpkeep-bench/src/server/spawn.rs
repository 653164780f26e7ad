//! Servers that are started for the occasion, and stopped after it.

mod leash;

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::address::Address;
use super::error::ServerError;
use super::protocol::Protocol;
use super::version::version;
use crate::BenchError;

/// How long a server may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(10);
/// Bytes that memcached needs for an item beside its key and value.
const ITEM_BYTES: u64 = 64;

/// A server that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// memcached.
    Memcached,
    /// Redis.
    Redis,
    /// `warpkeep serve`.
    Warpkeep {
        /// How long it may gather a batch.
        cycle: Duration,
        /// How it waits for its clients, if given.
        io: Option<Io>,
    },
}

/// How `warpkeep serve` can wait for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// With a poll.
    Poll,
    /// With io_uring.
    Uring,
}

impl Io {
    /// As the server has it.
    pub fn name(self) -> &'static str {
        match self {
            Io::Poll => "poll",
            Io::Uring => "uring",
        }
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Io, String> {
        match text {
            "poll" => Ok(Io::Poll),
            "uring" => Ok(Io::Uring),
            _ => Err(format!("`{text}` is no way to wait for clients; write poll or uring")),
        }
    }
}

impl Program {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Program::Memcached => "memcached",
            Program::Redis => "redis",
            Program::Warpkeep { .. } => "warpkeep",
        }
    }

    /// The name of its file.
    fn file(self) -> &'static str {
        match self {
            Program::Memcached => "memcached",
            Program::Redis => "redis-server",
            Program::Warpkeep { .. } => "warpkeep",
        }
    }

    /// The Debian package that has it.
    fn package(self) -> &'static str {
        self.file()
    }

    /// Its default protocol.
    pub fn protocol(self) -> Protocol {
        match self {
            Program::Memcached => Protocol::Memcached,
            Program::Redis | Program::Warpkeep { .. } => Protocol::Resp,
        }
    }

    /// Whether it understands a protocol.
    pub fn speaks(self, protocol: Protocol) -> bool {
        match self {
            Program::Memcached => protocol != Protocol::Resp,
            Program::Redis => protocol == Protocol::Resp,
            Program::Warpkeep { .. } => true,
        }
    }

    /// Where it is, if it is installed.
    pub fn find(self) -> Result<PathBuf, ServerError> {
        // The measured program is this one, not an older installed one.
        if matches!(self, Program::Warpkeep { .. })
            && let Ok(this) = std::env::current_exe()
            && this.file_name().is_some_and(|name| name == self.file())
        {
            return Ok(this);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Debian keeps servers where only administrators look.
        let more = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from);
        let found = std::env::split_paths(&path)
            .chain(more)
            .map(|dir| dir.join(self.file()))
            .find(|file| file.is_file());
        found.ok_or(ServerError::NotInstalled { program: self.file(), package: self.package() })
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Program, String> {
        match text {
            "memcached" => Ok(Program::Memcached),
            "redis" => Ok(Program::Redis),
            "warpkeep" => Ok(Program::Warpkeep { cycle: Duration::ZERO, io: None }),
            _ => Err(format!("`{text}` cannot be started; write memcached, redis or warpkeep")),
        }
    }
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) threads: usize,
    pub(super) items: u64,
    pub(super) item_bytes: usize,
    /// Whether it may evict items.
    pub(super) cache: bool,
    /// Whether it listens on a socket in the file system.
    pub(super) unix: bool,
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Spawned {
    program: Program,
    child: Child,
    address: Address,
    /// How it was started, without where it lies.
    command: String,
    /// Its log, and its socket if it has one.
    dir: TempDir,
}

impl Spawned {
    /// Starts a server and waits until it answers.
    pub(super) fn start(program: Program, launch: &Launch) -> Result<Spawned, ServerError> {
        let file = program.find()?;
        let dir = tempfile::tempdir().map_err(BenchError::io("make a directory for a server"))?;
        let (address, listen) = place(program, launch, dir.path())?;
        let mut arguments = listen;
        arguments.extend(settings(program, launch));
        let shown = |word: &OsString| match word.is_empty() {
            true => "''".to_owned(),
            false => word.to_string_lossy().into_owned(),
        };
        let words: Vec<String> = arguments.iter().map(shown).collect();
        let log = || File::options().create(true).append(true).open(dir.path().join("log"));
        let failed = |source| ServerError::Spawn { program: program.file(), what: format!("{source}") };
        let mut start = Command::new(file);
        start
            .args(&arguments)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log().map_err(failed)?)
            .stderr(log().map_err(failed)?);
        leash::put_on(&mut start);
        let child = start.spawn().map_err(failed)?;
        let command = format!("{} {}", program.file(), words.join(" "));
        let mut spawned = Spawned { program, child, address, command, dir };
        spawned.wait_until_ready()?;
        Ok(spawned)
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn command(&self) -> &str {
        &self.command
    }

    fn wait_until_ready(&mut self) -> Result<(), ServerError> {
        let begun = Instant::now();
        let failed = |what: String| ServerError::Spawn { program: self.program.file(), what };
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| failed(error.to_string()))? {
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
                return Err(failed(format!("it ended at once with {status}, and said: {last}")));
            }
            match version(&self.address, self.program.protocol(), READY_WITHIN) {
                Ok(_) => return Ok(()),
                Err(error) if begun.elapsed() > READY_WITHIN => {
                    return Err(failed(format!("it does not answer: {error}")));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It holds no data worth an orderly end. If it is gone already, there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A place to listen, and the program's arguments for it.
fn place(program: Program, launch: &Launch, dir: &Path) -> Result<(Address, Vec<OsString>), ServerError> {
    if launch.unix {
        // It is started in that directory.
        let words = match program {
            Program::Memcached => ["-s", "socket", "-a", "0600"],
            Program::Redis => ["--port", "0", "--unixsocket", "socket"],
            Program::Warpkeep { .. } => {
                let what = "warpkeep serve listens on ports alone; leave --unix out";
                return Err(BenchError::Invalid(what.to_owned()).into());
            }
        };
        return Ok((Address::Unix(dir.join("socket")), words.map(OsString::from).into()));
    }
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(BenchError::io("find a free port"))?.port();
    let words: &[&str] = match program {
        Program::Memcached => &["-l", "127.0.0.1", "-U", "0", "-p"],
        Program::Redis => &["--bind", "127.0.0.1", "--port"],
        Program::Warpkeep { .. } => &["serve", "store", "--listen"],
    };
    let place = match program {
        Program::Warpkeep { .. } => format!("127.0.0.1:{port}"),
        _ => port.to_string(),
    };
    let words = words.iter().map(OsString::from).chain([place.into()]).collect();
    Ok((Address::Tcp(format!("127.0.0.1:{port}")), words))
}

fn settings(program: Program, launch: &Launch) -> Vec<OsString> {
    let Launch { threads, items, item_bytes, cache, .. } = *launch;
    let mut words: Vec<String> = Vec::new();
    let mut say = |name: &str, value: String| words.extend([name.to_owned(), value]);
    match program {
        Program::Memcached => {
            say("-t", threads.to_string());
            say("-c", "8192".to_owned());
            // Its slabs leave up to a quarter unused.
            let bytes = items.saturating_mul(item_bytes as u64 + ITEM_BYTES) / 2 * 3;
            say("-m", (128 + (bytes >> 20)).to_string());
            if item_bytes > 256 << 10 {
                say("-I", "4m".to_owned());
            }
            if rustix::process::geteuid().is_root() {
                say("-u", "root".to_owned());
            }
            if !cache {
                words.push("-M".to_owned());
            }
        }
        Program::Redis => {
            // No files: the comparison is about serving from memory.
            say("--save", String::new());
            say("--appendonly", "no".to_owned());
            say("--daemonize", "no".to_owned());
            if threads > 1 {
                say("--io-threads", threads.to_string());
                say("--io-threads-do-reads", "yes".to_owned());
            }
        }
        Program::Warpkeep { cycle, io } => {
            say("--threads", threads.to_string());
            say("--cycle", format!("{}us", cycle.as_micros()));
            say("--log-level", "warn".to_owned());
            if let Some(io) = io {
                say("--io", io.name().to_owned());
            }
            if cache {
                let bytes = items.saturating_mul(item_bytes as u64 + ITEM_BYTES) / 2 * 3;
                say("--max-memory", bytes.max(256 << 20).to_string());
                words.push("--evict".to_owned());
            }
            // The comparison is about serving from memory, as the others do.
            words.push("--without-log".to_owned());
        }
    }
    words.into_iter().map(OsString::from).collect()
}
