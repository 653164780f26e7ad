//! The server without sockets: clients are in this process, and a caller decides when a batch is executed. Parsers,
//! scheduler and answers are those of a [`Server`](crate::Server), so what is measured here is the server less the
//! system's network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpkeep::Store;

use crate::counters::Counters;
use crate::keyspace::Keyspace;
use crate::live::Current;
use crate::server::{Mailbox, Shared};
use crate::sockets::{Event, Memory, Sockets, Waker};
use crate::worker::Worker;
use crate::{ServerError, Settings};

/// A server whose clients are in this process. Each thread has a [worker](MemoryServer::worker) of its own.
///
/// ```
/// use warpkeep::Store;
/// use warpkeep_server::{MemoryServer, Settings};
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let server = MemoryServer::new(&store, Settings::default())?;
/// let mut worker = server.worker();
/// let client = worker.connect();
/// worker.send(client, b"set a 0 0 1\r\n7\r\nget a b\r\n");
/// assert_eq!(worker.turn()?, 3, "a set, and a get of two keys");
/// assert_eq!(worker.answers(client), b"STORED\r\nVALUE a 0 1\r\n7\r\nEND\r\n");
/// worker.take_answers(client);
/// assert!(worker.answers(client).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryServer<'s> {
    shared: Shared<'s>,
    mailbox: Mailbox,
}

/// A thread of a [`MemoryServer`], with clients of its own.
pub struct MemoryWorker<'k, 's> {
    worker: Worker<'k, 's>,
    events: Vec<Event>,
}

impl<'s> MemoryServer<'s> {
    /// A server of the items of this store. Of the settings, those about sockets and threads are not used, and neither
    /// eviction nor expiry works in the background: there are no threads but the caller's.
    pub fn new(store: &'s Store, settings: Settings) -> Result<MemoryServer<'s>, ServerError> {
        settings.check()?;
        let keyspace = Keyspace::open(store, &settings)?;
        let live = Arc::new(Current::new(&settings)?);
        let shared = Shared::new(keyspace, Arc::new(settings), live, Arc::new(Counters::default()))?;
        Ok(MemoryServer { shared, mailbox: Mailbox::new(Waker::None) })
    }

    /// A worker without clients.
    pub fn worker(&self) -> MemoryWorker<'_, 's> {
        let sockets = Sockets::Memory(Memory::default());
        MemoryWorker { worker: Worker::new(&self.shared, &self.mailbox, sockets), events: Vec::new() }
    }
}

impl MemoryWorker<'_, '_> {
    /// A new client; returns its number.
    pub fn connect(&mut self) -> usize {
        self.worker.welcome_in_memory()
    }

    /// A client sends these bytes: whole requests or parts of them.
    ///
    /// # Panics
    /// If there is no such client, as do the others that take one.
    pub fn send(&mut self, client: usize, bytes: &[u8]) {
        self.memory().send(client, bytes);
    }

    /// Gathers one batch from what clients have sent, executes it and answers. Returns how many commands it had, where a
    /// command on several keys counts once for each of them; 0 if no client has sent a whole command since.
    pub fn turn(&mut self) -> Result<usize, ServerError> {
        loop {
            self.worker.wait(&mut self.events, Duration::ZERO)?;
            let commands = self.worker.turn(&mut self.events, Instant::now())?;
            // Without a whole command in what was read so far, more of the input is read.
            if commands > 0 || !self.worker.has_work() {
                return Ok(commands);
            }
        }
    }

    /// The answers that a client has not taken.
    pub fn answers(&mut self, client: usize) -> &[u8] {
        self.memory().answers(client)
    }

    /// A client takes its answers.
    pub fn take_answers(&mut self, client: usize) {
        self.memory().take_answers(client);
    }

    fn memory(&mut self) -> &mut Memory {
        self.worker.memory().expect("a worker in memory has clients in memory")
    }
}

impl std::fmt::Debug for MemoryServer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryServer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for MemoryWorker<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryWorker").finish_non_exhaustive()
    }
}
