//! The settings that can change while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::{Access, ServerError, Settings};

/// The current values of the settings that can change while the server runs.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) access: Access,
    pub(crate) batch: usize,
    pub(crate) cycle: Duration,
    pub(crate) write_every: u32,
    pub(crate) max_connections: usize,
    pub(crate) idle: Option<Duration>,
    pub(crate) unread: usize,
    pub(crate) slow: Option<Duration>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

impl Live {
    /// Reads the files that settings name.
    fn of(settings: &Settings) -> Result<Live, ServerError> {
        Ok(Live {
            access: settings.access.clone(),
            batch: settings.batch,
            cycle: settings.cycle,
            write_every: settings.write_every,
            max_connections: settings.max_connections,
            idle: settings.idle,
            unread: settings.unread,
            slow: settings.slow,
            tls: settings.tls.as_ref().map(crate::TlsFiles::load).transpose()?,
        })
    }
}

/// Where the settings of the moment are.
#[derive(Debug)]
pub(crate) struct Current {
    live: Mutex<Arc<Live>>,
    /// How often they have changed.
    changes: AtomicU64,
}

impl Current {
    pub(crate) fn new(settings: &Settings) -> Result<Current, ServerError> {
        Ok(Current { live: Mutex::new(Arc::new(Live::of(settings)?)), changes: AtomicU64::new(0) })
    }

    pub(crate) fn get(&self) -> Arc<Live> {
        Arc::clone(&self.live.lock())
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

/// Changes the settings of a server while it runs; from [`Server::control`](crate::Server::control).
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) current: Arc<Current>,
    pub(crate) begun_with: Arc<Settings>,
}

impl Control {
    /// Applies the settings that can change while the server runs, and reads certificate and key again. Returns the
    /// names of settings that differ from those at the start and need a restart.
    ///
    /// Open connections keep their TLS parameters, and authenticated clients need not send the new password. After
    /// an error nothing has changed.
    pub fn reload(&self, settings: &Settings) -> Result<Vec<&'static str>, ServerError> {
        settings.check_to_listen()?;
        let live = Live::of(settings)?;
        let before = &*self.begun_with;
        let fixed = [
            ("listen", settings.listen != before.listen),
            ("listen-tls", settings.listen_tls != before.listen_tls),
            ("http", settings.http != before.http),
            ("threads", settings.threads != before.threads),
            ("io", settings.io != before.io),
            ("durability", settings.durability != before.durability),
            ("capacity", settings.capacity != before.capacity),
            ("max-memory", settings.max_memory != before.max_memory),
            ("evict", settings.evict != before.evict),
            ("eviction", settings.eviction != before.eviction),
            ("backups", settings.backups != before.backups),
        ];
        if !before.listen_tls.is_empty() && live.tls.is_none() {
            return Err(ServerError::Setting(
                "the server listens for TLS and has no certificate any more; name its files, or start the server again"
                    .to_owned(),
            ));
        }
        // The listeners stay those of the start, whatever addresses the new settings name.
        if let (Some(address), None) = (before.public_address(), &live.access.password) {
            return Err(ServerError::Setting(format!(
                "the server listens on {address}, which other machines can reach, and there is no password any more; set one, or \
                 start the server again"
            )));
        }
        *self.current.live.lock() = Arc::new(live);
        self.current.changes.fetch_add(1, Ordering::Release);
        Ok(fixed.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect())
    }
}
