//! How a server is to run.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use warpkeep::Durability;

use crate::{Eviction, Io, ServerError, TlsFiles};

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Where it listens for clients that speak TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// The files for TLS.
    pub tls: Option<TlsFiles>,
    /// How long a client may take to agree on TLS.
    pub handshake: Duration,
    /// Where `/metrics`, `/healthz` and `/readyz` are answered, if they are.
    pub http: Option<SocketAddr>,
    /// Threads that serve; each has its own connections.
    pub threads: usize,
    /// How they wait for clients.
    pub io: Io,
    /// The durability that a write has when it is answered.
    pub durability: Durability,
    /// Commands after which a batch is done, whatever else may be coming.
    pub batch: usize,
    /// How long a batch may be gathered while more input arrives. Zero: it is executed at once.
    pub cycle: Duration,
    /// Of this number of batches one takes writes, as in the Mega-KV paper; 0 and 1: each does. Until then a connection whose
    /// next command is a write waits, and its later commands with it. A batch without other commands takes writes.
    pub write_every: u32,
    /// Access control.
    pub access: Access,
    /// The most connections at a time.
    pub max_connections: usize,
    /// A connection that is silent for longer is closed.
    pub idle: Option<Duration>,
    /// Batches that take longer are logged.
    pub slow: Option<Duration>,
    /// Bytes of answers that a client may leave unread before it is no longer listened to.
    pub unread: usize,
    /// Items to make room for at once.
    pub capacity: u64,
    /// Bytes that the items may take; 0 is as many as the image allows. The code that opens the store sets the same
    /// limit for the image.
    pub max_memory: u64,
    /// Whether items without recent requests are evicted to make room, as in a cache. Otherwise a write without
    /// room is refused.
    pub evict: bool,
    /// How these items are chosen.
    pub eviction: Eviction,
    /// Where clients may have backups made, if they may.
    pub backups: Option<PathBuf>,
}

/// Access control.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The password, if clients need one.
    pub password: Option<String>,
}

impl Access {
    /// Whether this is the password. Takes as long for a wrong one as for the right one.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        let Some(right) = &self.password else { return true };
        let right = right.as_bytes();
        let same = right
            .iter()
            .enumerate()
            .fold(0, |differs, (at, byte)| differs | (byte ^ password.get(at).copied().unwrap_or(!byte)));
        same == 0 && right.len() == password.len()
    }
}

/// The best chunk size of a store whose items may take `max_memory` bytes: each size of values takes chunks of its
/// own, so that in a small store large chunks would leave some sizes without any.
///
/// ```
/// use warpkeep::StoreOptions;
/// let limit = 256 << 20;
/// let mut options = StoreOptions::default();
/// options.heap.max_bytes = limit;
/// options.create.chunk_size = warpkeep_server::chunk_size(limit);
/// assert_eq!(options.create.chunk_size, 64 << 10);
/// ```
pub fn chunk_size(max_memory: u64) -> u64 {
    const SMALLEST: u64 = 64 << 10;
    /// The number of chunks, if they have neither the smallest nor the default size.
    const CHUNKS: u64 = 4096;
    (max_memory / CHUNKS).next_power_of_two().clamp(SMALLEST, warpkeep_image::DEFAULT_CHUNK)
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 11311))],
            listen_tls: Vec::new(),
            tls: None,
            handshake: Duration::from_secs(10),
            http: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            io: Io::Auto,
            durability: Durability::Process,
            batch: 4096,
            cycle: Duration::ZERO,
            write_every: 1,
            access: Access::default(),
            max_connections: 10_000,
            idle: None,
            slow: None,
            unread: 1 << 20,
            capacity: 0,
            max_memory: 0,
            evict: false,
            eviction: Eviction::default(),
            backups: None,
        }
    }
}

impl Settings {
    /// Reads the files that the settings name, and reports errors in them.
    pub fn read_files(&self) -> Result<(), ServerError> {
        self.tls.as_ref().map_or(Ok(()), |files| files.load().map(drop))
    }

    /// Refuses settings that make no sense.
    pub fn check(&self) -> Result<(), ServerError> {
        let wrong = |what: String| Err(ServerError::Setting(what));
        if self.listen.is_empty() && self.listen_tls.is_empty() {
            return wrong("there is no address to listen on; give one, such as 127.0.0.1:11311".to_owned());
        }
        if !(1..=1024).contains(&self.threads) {
            return wrong(format!("{} threads are not possible; take 1 to 1024", self.threads));
        }
        if self.batch == 0 || self.max_connections == 0 || self.unread == 0 {
            return wrong(
                "a batch, the connections and the unread bytes need a limit of at least 1".to_owned(),
            );
        }
        if self.evict && self.max_memory == 0 {
            return wrong("a cache needs a limit; say how much memory its items may take".to_owned());
        }
        const LEAST: u64 = 64 << 20;
        if self.max_memory != 0 && self.max_memory < LEAST {
            return wrong(format!("{} bytes of memory are too few; give at least 64 MiB", self.max_memory));
        }
        if self.cycle > Duration::from_secs(1) {
            return wrong(
                "a cycle of more than a second makes every client wait; take microseconds".to_owned(),
            );
        }
        if self.access.password.as_ref().is_some_and(String::is_empty) {
            return wrong("an empty password protects nothing; choose one, or leave it out".to_owned());
        }
        if !self.listen_tls.is_empty() && self.tls.is_none() {
            return wrong("TLS needs a certificate and its key; name their files".to_owned());
        }
        if self.listen_tls.is_empty() && self.tls.is_some() {
            return wrong("there is a certificate, and no address to listen on for TLS; give one".to_owned());
        }
        if let (Some(address), None) = (self.public_address(), &self.access.password) {
            return wrong(format!(
                "{address} can be reached from other machines, and there is no password; set one, or listen on 127.0.0.1"
            ));
        }
        Ok(())
    }

    /// The same, for a server whose clients have sockets.
    pub(crate) fn check_to_listen(&self) -> Result<(), ServerError> {
        /// Commands of a batch, which take about 200 bytes each beside their keys and values.
        const MOST: usize = 1 << 20;
        self.check()?;
        match self.batch > MOST {
            true => Err(ServerError::Setting(format!(
                "a batch of {} commands would take too much memory; take at most {MOST}",
                self.batch
            ))),
            false => Ok(()),
        }
    }

    /// The first address that other machines can reach, if there is one.
    pub(crate) fn public_address(&self) -> Option<SocketAddr> {
        let mut all = self.listen.iter().chain(&self.listen_tls).chain(&self.http);
        all.find(|address| !address.ip().is_loopback()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_needs_a_password() {
        let mut settings = Settings { listen: vec![([0, 0, 0, 0], 11311).into()], ..Settings::default() };
        assert!(settings.check().is_err());
        settings.access.password = Some("secret".into());
        assert!(settings.check().is_ok());
        let mut settings = Settings { http: Some(([0, 0, 0, 0], 9311).into()), ..Settings::default() };
        assert!(settings.check().is_err_and(|error| error.to_string().contains("0.0.0.0:9311")));
        settings.access.password = Some("secret".into());
        assert!(settings.check().is_ok());
    }

    #[test]
    fn a_batch_has_a_limit() {
        let settings = Settings { batch: 1 << 20, ..Settings::default() };
        assert!(settings.check_to_listen().is_ok());
        let settings = Settings { batch: (1 << 20) + 1, ..Settings::default() };
        assert!(settings.check_to_listen().is_err_and(|error| error.to_string().contains("1048577")));
    }

    #[test]
    fn only_the_password_is_admitted() {
        let access = Access { password: Some("secret".into()) };
        assert!(access.admits(b"secret"));
        for wrong in [&b""[..], b"secre", b"secret1", b"Secret"] {
            assert!(!access.admits(wrong));
        }
    }
}
