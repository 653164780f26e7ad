//! The server: listens, and shares connections among its workers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;
use warpkeep::Store;

use crate::backups::Backups;
use crate::counters::Counters;
use crate::http::Http;
use crate::keyspace::Keyspace;
use crate::live::{Control, Current};
use crate::misbehaviour::Notice;
use crate::scans::Scans;
use crate::sockets::{Backend, Sockets, Waker};
use crate::traces::Traces;
use crate::worker::Worker;
use crate::{ServerError, Settings};

/// How often a thread checks whether to stop.
const ASK: Duration = Duration::from_millis(50);

/// Clients that may wait to be taken: one more would have to try again, after a second.
const WAITING: i32 = 16 << 10;

/// A server that listens, and serves when it is [run](Server::run).
///
/// ```
/// use warpkeep::Store;
/// use warpkeep_server::{Server, Settings};
/// # let directory = tempfile::tempdir().unwrap();
/// let store = Store::open(directory.path())?;
/// let settings = Settings { listen: vec![([127, 0, 0, 1], 0).into()], ..Settings::default() };
/// let server = Server::bind(settings)?;
/// println!("listening on {:?}", server.addresses());
/// // Serves until the closure says that it is enough: here at once.
/// server.run(&store, || true)?;
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    settings: Arc<Settings>,
    live: Arc<Current>,
    listeners: Vec<Listener>,
    addresses: Vec<SocketAddr>,
    counters: Arc<Counters>,
    http: Option<Http>,
    backend: Backend,
}

/// A listening socket.
#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    secure: bool,
}

/// The state that workers share.
pub(crate) struct Shared<'s> {
    /// The settings at the start.
    pub(crate) settings: Arc<Settings>,
    pub(crate) live: Arc<Current>,
    pub(crate) keyspace: Keyspace<'s>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) begun: Instant,
    pub(crate) scans: Mutex<Scans>,
    pub(crate) saving: AtomicBool,
    pub(crate) last_save: AtomicU64,
    pub(crate) traces: Traces,
    pub(crate) backups: Backups,
    pub(crate) notices: Notices,
    /// When all items are to be thrown away; 0 is never.
    pub(crate) flush_at: AtomicU64,
    sessions: AtomicU64,
    stopping: AtomicBool,
}

/// Messages that are written to the log at a limited rate.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    pub(crate) http: Notice,
    pub(crate) binary: Notice,
    pub(crate) passwords: Notice,
}

/// A connection that was taken.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: TcpStream,
    /// Whether it is to speak TLS.
    pub(crate) secure: bool,
    /// The client's address.
    pub(crate) peer: SocketAddr,
}

/// New connections for a worker.
pub(crate) struct Mailbox {
    arrivals: Mutex<Vec<Arrival>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        Mailbox { arrivals: Mutex::new(Vec::new()), waker }
    }

    pub(crate) fn take(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals.lock())
    }
}

impl Server {
    /// Checks the settings and listens. Clients that connect wait until the server runs.
    pub fn bind(settings: Settings) -> Result<Server, ServerError> {
        settings.check_to_listen()?;
        let backend = settings.io.choose()?;
        let live = Arc::new(Current::new(&settings)?);
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        let plain = settings.listen.iter().map(|&address| (address, false));
        for (address, secure) in plain.chain(settings.listen_tls.iter().map(|&address| (address, true))) {
            let failed = |source| ServerError::Listen { address, source };
            let socket = TcpListener::bind(address).map_err(failed)?;
            // Clients may connect in bursts; the system may have a lower limit.
            rustix::net::listen(&socket, WAITING).map_err(|error| failed(error.into()))?;
            addresses.push(socket.local_addr().map_err(failed)?);
            listeners.push(Listener { socket, secure });
        }
        let counters = Arc::new(Counters::new(backend));
        let http = settings.http.map(|address| Http::start(address, &counters, &live)).transpose()?;
        Ok(Server { settings: Arc::new(settings), live, listeners, addresses, counters, http, backend })
    }

    /// Adds to the answer of `/metrics`, for example the store's counters.
    pub fn add_metrics(&self, more: impl Fn() -> String + Send + 'static) {
        if let Some(http) = &self.http {
            http.add_metrics(Box::new(more));
        }
    }

    /// Where `/metrics`, `/healthz` and `/readyz` are answered, if they are.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|http| http.address)
    }

    /// A handle that changes its settings while it runs.
    pub fn control(&self) -> Control {
        Control { current: Arc::clone(&self.live), begun_with: Arc::clone(&self.settings) }
    }

    /// The addresses it listens on, first without TLS and then with it; a port of 0 is replaced by the actual one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses with TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.addresses[self.settings.listen.len()..]
    }

    /// Serves the items of a store until `stop` returns true or a client stops the server. Commands received by
    /// then are executed and answered.
    pub fn run(self, store: &Store, stop: impl Fn() -> bool) -> Result<(), ServerError> {
        let Server { settings, live, mut listeners, counters, http, backend, .. } = self;
        let keyspace = Keyspace::open(store, &settings)?;
        let shared = Shared::new(keyspace, settings, live, counters)?;
        // It may be long due.
        shared.flush_if_due();
        tracing::info!(io = backend.name(), threads = shared.settings.threads, "clients are waited for");
        let mut sockets = Vec::new();
        let mut mailboxes = Vec::new();
        for _ in 0..shared.settings.threads {
            let (theirs, waker) = Sockets::new(backend).map_err(ServerError::io("make a poll or a ring"))?;
            mailboxes.push(Mailbox::new(waker));
            sockets.push(theirs);
        }
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for (number, (sockets, mailbox)) in sockets.into_iter().zip(&mailboxes).enumerate() {
                let worker = Worker::new(&shared, mailbox, sockets);
                let named = std::thread::Builder::new().name(format!("worker-{number}"));
                let shared = &shared;
                let run = move || {
                    // If this worker fails or panics, the others must stop too.
                    let _all_or_none = StopOnDrop(shared);
                    worker.run()
                };
                let started = named.spawn_scoped(scope, run).map_err(ServerError::io("start a thread"));
                match started {
                    Ok(worker) => workers.push(worker),
                    Err(error) => {
                        shared.stop();
                        return Err(error);
                    }
                }
            }
            let keeping = std::thread::Builder::new().name("housekeeper".to_owned());
            let keeping = keeping.spawn_scoped(scope, || crate::housekeeping::run(&shared));
            if let Some(http) = &http {
                http.set_ready(true);
            }
            let backing_up = std::thread::Builder::new().name("backups".to_owned());
            let backing_up = backing_up.spawn_scoped(scope, || crate::backups::run(&shared));
            let done = match keeping.and(backing_up) {
                Ok(_) => accept(&shared, &mut listeners, &mailboxes, &stop),
                Err(source) => Err(ServerError::Io { doing: "start a thread", source }),
            };
            shared.stop();
            if let Some(http) = &http {
                http.set_ready(false);
            }
            for mailbox in &mailboxes {
                mailbox.waker.wake().map_err(ServerError::io("wake a worker"))?;
            }
            for worker in workers {
                match worker.join() {
                    Ok(ended) => ended?,
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            done
        })
    }
}

/// Stops the server when it is dropped.
struct StopOnDrop<'a, 's>(&'a Shared<'s>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Takes connections and shares them among the workers until the server stops.
fn accept(
    shared: &Shared<'_>,
    listeners: &mut [Listener],
    mailboxes: &[Mailbox],
    stop: &impl Fn() -> bool,
) -> Result<(), ServerError> {
    let mut poll = Poll::new().map_err(ServerError::io("make a poll"))?;
    for (number, listener) in listeners.iter_mut().enumerate() {
        let registered = poll.registry().register(&mut listener.socket, Token(number), Interest::READABLE);
        registered.map_err(ServerError::io("wait for connections"))?;
    }
    let mut events = Events::with_capacity(64);
    let mut next = 0;
    while !stop() && !shared.is_stopping() {
        match poll.poll(&mut events, Some(ASK)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            done => done.map_err(ServerError::io("wait for connections"))?,
        }
        shared.flush_if_due();
        for event in events.iter() {
            let Some(listener) = listeners.get(event.token().0) else { continue };
            loop {
                match listener.socket.accept() {
                    Ok((stream, peer)) => {
                        let arrival = Arrival { stream, secure: listener.secure, peer };
                        if admit(shared, arrival, &mailboxes[next % mailboxes.len()])? {
                            next += 1;
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        // For example too many open files: other connections may close theirs.
                        tracing::warn!(%error, "a connection was not accepted");
                        std::thread::sleep(Duration::from_millis(10));
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Gives a connection to a worker, if there may be one more.
fn admit(shared: &Shared<'_>, mut arrival: Arrival, to: &Mailbox) -> Result<bool, ServerError> {
    if shared.counters.connections.load(Ordering::Relaxed) >= shared.live.get().max_connections as u64 {
        shared.counters.rejected.fetch_add(1, Ordering::Relaxed);
        // The protocol is not known yet; both take this answer for an error. A TLS client would not understand it.
        if !arrival.secure {
            let _ = std::io::Write::write(&mut arrival.stream, b"-ERR max number of clients reached\r\n");
        }
        return Ok(false);
    }
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    shared.counters.accepted.fetch_add(1, Ordering::Relaxed);
    to.arrivals.lock().push(arrival);
    to.waker.wake().map_err(ServerError::io("wake a worker"))?;
    Ok(true)
}

impl<'s> Shared<'s> {
    pub(crate) fn new(
        keyspace: Keyspace<'s>,
        settings: Arc<Settings>,
        live: Arc<Current>,
        counters: Arc<Counters>,
    ) -> Result<Shared<'s>, ServerError> {
        Ok(Shared {
            flush_at: AtomicU64::new(keyspace.flush_to_come()?),
            keyspace,
            counters,
            begun: Instant::now(),
            scans: Mutex::new(Scans::default()),
            saving: AtomicBool::new(false),
            last_save: AtomicU64::new(crate::lifetime::now() / 1000),
            traces: Traces::default(),
            backups: Backups::new(settings.backups.clone()),
            notices: Notices::default(),
            sessions: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            settings,
            live,
        })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Lets the server stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Removes all items, now or after `delay` seconds.
    pub(crate) fn flush(&self, delay: u64) -> Result<(), ServerError> {
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        match delay {
            0 => {
                self.flush_at.store(0, Ordering::Release);
                self.empty()
            }
            _ => {
                let moment = crate::lifetime::Lifetime::memcached(i64::try_from(delay).unwrap_or(i64::MAX));
                let moment = moment.moment(crate::lifetime::now(), 0);
                self.keyspace.keep_flush(moment)?;
                self.flush_at.store(moment, Ordering::Release);
                Ok(())
            }
        }
    }

    /// Throws the items of one database away.
    pub(crate) fn flush_database(&self, database: u8) -> Result<(), ServerError> {
        match self.keyspace.is_only_database(database) {
            true => self.flush(0),
            false => self.keyspace.empty_database(database),
        }
    }

    /// Replaces the table of items by an empty one.
    fn empty(&self) -> Result<(), ServerError> {
        // Before, so that a full table can be rearranged; and after, because a client may have begun a scan meanwhile.
        self.scans.lock().forget();
        let emptied = self.keyspace.empty();
        self.scans.lock().forget();
        emptied
    }

    fn flush_if_due(&self) {
        let at = self.flush_at.load(Ordering::Acquire);
        if at != 0
            && at <= crate::lifetime::now()
            && self.flush_at.compare_exchange(at, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && let Err(error) = self.empty()
        {
            tracing::error!(%error, "the items were not thrown away");
        }
    }
}

#[cfg(test)]
mod tests {
    use warpkeep::StoreOptions;

    use super::*;

    #[test]
    fn a_flush_that_comes_due_ends_scans() {
        let home = tempfile::tempdir().unwrap();
        let options = StoreOptions { without_log: true, ..StoreOptions::default() };
        let store = Store::open_with(home.path(), options).unwrap();
        let settings = Settings::default();
        let keyspace = Keyspace::open(&store, &settings).unwrap();
        let live = Arc::new(Current::new(&settings).unwrap());
        let shared = Shared::new(keyspace, Arc::new(settings), live, Arc::new(Counters::default())).unwrap();
        let open = || {
            let table = shared.keyspace.table();
            let mut scans = shared.scans.lock();
            let position = scans.take(0, &table);
            scans.keep(position);
            assert!(!scans.are_none());
        };
        open();
        shared.flush_at.store(1, Ordering::Release);
        shared.flush_if_due();
        assert_eq!(shared.keyspace.table().name(), "items.2");
        assert!(shared.scans.lock().are_none());
        open();
        shared.flush(0).unwrap();
        assert!(shared.scans.lock().are_none());
    }
}
