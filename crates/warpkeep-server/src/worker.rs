//! A thread that serves: its connections' commands become batches, their answers go back.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::batch::{Batch, Clients, Inputs};
use crate::buffers::Buffers;
use crate::command::Verb;
use crate::connection::{Connection, Reading};
use crate::lifetime::now;
use crate::live::Live;
use crate::misbehaviour::{Incident, penalty};
use crate::outcome::Outcome;
use crate::server::{Arrival, Mailbox, Shared};
use crate::session::{Parsed, Session};
use crate::sockets::{Event, Memory, Sockets};
use crate::wire::Wire;
use crate::{ServerError, memcached, resp, server_commands};

/// How often idle connections are checked.
const TICK: Duration = Duration::from_secs(1);
/// How long clients have, when the server stops, to take the answers that are theirs.
const FAREWELL: Duration = Duration::from_secs(5);

/// A thread that serves.
pub(crate) struct Worker<'k, 's> {
    shared: &'k Shared<'s>,
    /// The settings of the moment, and how often they had changed.
    live: Arc<Live>,
    changes: u64,
    mailbox: &'k Mailbox,
    sockets: Sockets,
    connections: Slab<Connection>,
    buffers: Buffers,
    /// Connections with work.
    queue: VecDeque<usize>,
    /// Connections that have commands in the batch.
    touched: Vec<usize>,
    batch: Batch,
    /// Connections whose answers are delayed, with the numbers of their sessions.
    held: Vec<(usize, u64)>,
    /// Connections whose next command is a write, which waits for a batch that takes writes.
    delayed: Vec<usize>,
    /// Whether the batch takes writes, and how many batches in a row have taken none.
    takes_writes: bool,
    without_writes: u32,
    /// Bytes that were received and sent, and are not counted yet.
    moved: (u64, u64),
    stopping: Option<Instant>,
}

impl Inputs for Slab<Connection> {
    #[inline]
    fn input(&self, connection: u32) -> &[u8] {
        self[connection as usize].bytes()
    }

    fn decoded(&self, connection: u32) -> &[u8] {
        &self[connection as usize].session.decoded
    }
}

impl Clients for Slab<Connection> {
    fn session(&mut self, connection: u32) -> &mut Session {
        &mut self[connection as usize].session
    }
}

impl<'k, 's> Worker<'k, 's> {
    pub(crate) fn new(shared: &'k Shared<'s>, mailbox: &'k Mailbox, sockets: Sockets) -> Worker<'k, 's> {
        let batch = Batch::new(&shared.keyspace.table());
        let (connections, buffers) = (Slab::new(), Buffers::default());
        let (queue, touched) = (VecDeque::new(), Vec::new());
        let changes = shared.live.changes();
        let live = shared.live.get();
        Worker {
            shared,
            live,
            changes,
            mailbox,
            sockets,
            connections,
            buffers,
            queue,
            touched,
            batch,
            held: Vec::new(),
            delayed: Vec::new(),
            takes_writes: true,
            without_writes: 0,
            moved: (0, 0),
            stopping: None,
        }
    }

    /// Serves until the server stops.
    pub(crate) fn run(mut self) -> Result<(), ServerError> {
        let mut events = Vec::new();
        let mut ticked = Instant::now();
        loop {
            let timeout = match (self.has_work(), self.stopping) {
                (true, _) => Duration::ZERO,
                (false, Some(_)) => Duration::from_millis(10),
                (false, None) => self.until_held(),
            };
            self.wait(&mut events, timeout)?;
            if self.stopping.is_some_and(|since| {
                self.queue.is_empty() && (self.connections.is_empty() || since.elapsed() > FAREWELL)
            }) {
                return Ok(());
            }
            let begun = Instant::now();
            if begun.duration_since(ticked) >= TICK {
                ticked = begun;
                self.close_idle(begun);
            }
            if !self.held.is_empty() {
                self.release_held(begun);
            }
            self.turn(&mut events, begun)?;
        }
    }

    /// Whether a connection has commands or input that need not be waited for.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.delayed.is_empty()
    }

    /// Executes one batch: what has arrived, and what arrives within a cycle. Returns how many commands it had.
    pub(crate) fn turn(&mut self, events: &mut Vec<Event>, begun: Instant) -> Result<usize, ServerError> {
        self.takes_writes = self.without_writes + 1 >= self.live.write_every;
        if self.takes_writes {
            self.release_delayed();
        }
        self.gather(begun);
        // More may be coming: it is taken along, for as long as a cycle lasts.
        while !self.live.cycle.is_zero()
            && !self.batch.commands.is_empty()
            && !self.batch.is_full(self.live.batch)
            && begun.elapsed() < self.live.cycle
        {
            self.wait(events, Duration::ZERO)?;
            if self.queue.is_empty() {
                break;
            }
            self.gather(begun);
        }
        if self.batch.commands.is_empty() && !self.delayed.is_empty() {
            // There is nothing else to do, so writes need not wait.
            self.takes_writes = true;
            self.release_delayed();
            self.gather(begun);
        }
        self.without_writes = if self.takes_writes { 0 } else { self.without_writes + 1 };
        let commands = self.batch.len();
        self.fire();
        Ok(commands)
    }

    /// Continues with the connections whose next command is a write. They come first: those that find the batch full
    /// wait again, and others must not keep them waiting for ever.
    fn release_delayed(&mut self) {
        for number in std::mem::take(&mut self.delayed).into_iter().rev() {
            // The number may be another connection's by now.
            let Some(connection) = self.connections.get_mut(number).filter(|connection| connection.delayed)
            else {
                continue;
            };
            connection.delayed = false;
            if !std::mem::replace(&mut connection.queued, true) {
                self.queue.push_front(number);
            }
        }
    }

    /// A new client of [memory](crate::sockets::Memory); returns its number.
    pub(crate) fn welcome_in_memory(&mut self) -> usize {
        let entry = self.connections.vacant_entry();
        let number = entry.key();
        let session = Session::new(self.shared.next_session(), &self.live.access);
        if let Sockets::Memory(memory) = &mut self.sockets {
            memory.add(number);
        }
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        entry.insert(Connection::new(Wire::Plain, session, nowhere, Instant::now()));
        self.shared.counters.connections.fetch_add(1, Ordering::Relaxed);
        number
    }

    /// Where clients in memory send to and receive from; `None` if this worker's clients have sockets.
    pub(crate) fn memory(&mut self) -> Option<&mut Memory> {
        match &mut self.sockets {
            Sockets::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    /// Waits for events and records the connections they concern.
    pub(crate) fn wait(&mut self, events: &mut Vec<Event>, timeout: Duration) -> Result<(), ServerError> {
        events.clear();
        let woken = self.sockets.wait(timeout, events).map_err(ServerError::io("wait for clients"))?;
        // First, so that later connections see the new settings.
        if self.shared.live.changes() != self.changes {
            self.changes = self.shared.live.changes();
            self.live = self.shared.live.get();
        }
        if woken {
            self.take_mail();
        }
        for event in events.iter() {
            let number = event.number;
            let Some(connection) = self.connections.get_mut(number) else { continue };
            connection.readable |= event.readable;
            connection.hung_up |= event.ended;
            let goes_on = event.writable && connection.blocked;
            if goes_on && connection.write(self.sockets.of(number), &mut self.buffers).is_err() {
                self.close(number);
            } else if goes_on || event.readable {
                self.enqueue(number);
            }
        }
        if self.stopping.is_none() && self.shared.is_stopping() {
            self.say_farewell();
        }
        Ok(())
    }

    /// Takes new connections in.
    fn take_mail(&mut self) {
        for arrival in self.mailbox.take() {
            if let Err(error) = self.welcome(arrival) {
                tracing::warn!(%error, "a connection was not taken");
                self.shared.counters.connections.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn welcome(&mut self, Arrival { stream, secure, peer }: Arrival) -> io::Result<()> {
        // Answers are written in one piece; waiting for more to send would only delay them.
        stream.set_nodelay(true)?;
        let entry = self.connections.vacant_entry();
        let number = entry.key();
        let session = Session::new(self.shared.next_session(), &self.live.access);
        let wire = match (secure, &self.live.tls) {
            (false, _) => Wire::Plain,
            (true, Some(config)) => Wire::secure(config)?,
            (true, None) => return Err(io::Error::other("there is no certificate")),
        };
        self.sockets.add(number, stream)?;
        entry.insert(Connection::new(wire, session, peer, Instant::now()));
        self.enqueue(number);
        Ok(())
    }

    fn enqueue(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if !connection.queued {
            connection.queued = true;
            self.queue.push_back(number);
        }
    }

    /// Reads and parses input, until the batch is large.
    fn gather(&mut self, now: Instant) {
        for _ in 0..self.queue.len() {
            if self.batch.is_full(self.live.batch) {
                return;
            }
            let Some(number) = self.queue.pop_front() else { return };
            self.gather_from(number, now);
        }
    }

    fn gather_from(&mut self, number: usize, now: Instant) {
        let live = &*self.live;
        let connection = &mut self.connections[number];
        connection.queued = false;
        if connection.held_until.is_some() || connection.delayed {
            return;
        }
        if connection.closing && !connection.session.in_batch {
            return self.settle(number);
        }
        // Input of a client that does not read its answers is not processed. The poll reports when it has read
        // them.
        if connection.unsent() + self.sockets.unsent(number) > live.unread {
            connection.blocked = true;
            return self.sockets.notify_when_sent(number);
        }
        if connection.readable && !connection.pending && !connection.closing {
            let before = connection.filled;
            let reading = connection.read(self.sockets.of(number), &mut self.buffers);
            self.moved.0 += (connection.filled - before) as u64;
            match reading {
                Ok(Reading::Drained | Reading::More) => connection.active = now,
                Ok(Reading::Ended) => connection.ended = true,
                Err(error) => {
                    if error.kind() == io::ErrorKind::InvalidData {
                        self.shared.counters.tls_failures.fetch_add(1, Ordering::Relaxed);
                        tracing::debug!(%error, "a client and the server did not agree on TLS");
                    }
                    return self.close(number);
                }
            }
        }
        let before = self.batch.len();
        let known = connection.session.in_batch;
        let Connection { session, input, filled, needed, pending, delayed, .. } = connection;
        let input = &input[..*filled];
        *pending = false;
        while input.len() - session.at >= *needed || session.skip > 0 && input.len() > session.at {
            if self.batch.is_full(live.batch) {
                *pending = true;
                break;
            }
            let (parsed_from, careful) = (self.batch.len(), session.careful);
            let parsed = session.parse(input, number as u32, &live.access, &mut self.batch);
            if !self.takes_writes && self.batch.writes_from(parsed_from) {
                // It waits, and what the connection has sent after it.
                session.rewind(&self.batch.commands[parsed_from]);
                session.careful = careful;
                self.batch.truncate(parsed_from);
                session.in_batch = known || parsed_from > before;
                (*needed, *pending, *delayed) = (1, true, true);
                self.delayed.push(number);
                break;
            }
            match parsed {
                Parsed::Some => *needed = 1,
                Parsed::NeedsMore(bytes) => {
                    *needed = bytes;
                    break;
                }
                Parsed::Waits => {
                    *pending = true;
                    break;
                }
            }
        }
        match self.batch.len() > before {
            // It is settled with the batch.
            _ if known => {}
            true => self.touched.push(number),
            false => self.settle(number),
        }
    }

    /// Does the batch and sends the answers.
    fn fire(&mut self) {
        if self.batch.commands.is_empty() {
            return;
        }
        let begun = self.live.slow.map(|limit| (limit, Instant::now()));
        server_commands::run_all(&mut self.batch, self.shared, &mut self.connections);
        self.batch.run(&self.shared.keyspace, &self.connections, now());
        if let Some((limit, begun)) = begun {
            self.log_if_slow(limit, begun.elapsed());
        }
        self.answer();
        for number in std::mem::take(&mut self.touched) {
            let connection = &mut self.connections[number];
            connection.session.batch_is_done();
            self.moved.1 += connection.output.len() as u64;
            if connection.session.goes_on {
                connection.session.goes_on = false;
                connection.pending = true;
                connection.needed = 1;
            }
            if let Some(incident) = connection.session.incident.take()
                && self.note(number, incident)
            {
                continue;
            }
            let connection = &mut self.connections[number];
            match connection.write(self.sockets.of(number), &mut self.buffers) {
                Ok(()) if !connection.doomed => self.settle(number),
                _ => self.close(number),
            }
        }
        for key in std::mem::take(&mut self.batch.expired) {
            match self.shared.keyspace.remove_expired(&key, self.batch.now()) {
                Ok(removed) => {
                    self.shared.counters.expired.fetch_add(u64::from(removed), Ordering::Relaxed);
                }
                Err(error) => tracing::warn!(%error, "an expired item was not removed"),
            }
        }
        self.shared.counters.count(&self.batch, std::mem::take(&mut self.moved));
        self.batch.clear();
    }

    /// Counts, logs and handles an incident; returns whether the answers of its connection are delayed.
    #[cold]
    fn note(&mut self, number: usize, incident: Incident) -> bool {
        let (counters, connection) = (&self.shared.counters, &mut self.connections[number]);
        let peer = connection.peer;
        let notices = &self.shared.notices;
        let (counter, notice, what) = match incident {
            Incident::RightPassword => {
                counters.right_passwords.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            Incident::WrongPassword => {
                (&counters.wrong_passwords, &notices.passwords, "a wrong password was given")
            }
            Incident::Http => (
                &counters.http_clients,
                &notices.http,
                "a client that speaks HTTP was hung up on; is a web page trying to reach this server?",
            ),
            Incident::Binary => (
                &counters.binary_clients,
                &notices.binary,
                "a client that speaks memcached's binary protocol was refused; have it speak the text protocol",
            ),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(before) = notice.note() {
            tracing::warn!(%peer, before, "{what}");
        }
        if incident != Incident::WrongPassword || self.stopping.is_some() {
            return false;
        }
        connection.held_until = Some(Instant::now() + penalty(connection.session.wrong_passwords));
        self.held.push((number, connection.session.number));
        true
    }

    /// The longest wait, so that delayed answers are sent in time.
    fn until_held(&self) -> Duration {
        let now = Instant::now();
        let ends = self.held.iter().filter_map(|&(number, _)| self.connections.get(number)?.held_until);
        ends.map(|end| end.saturating_duration_since(now)).fold(TICK, Duration::min)
    }

    /// Sends answers that were delayed long enough, and reads those connections again.
    #[cold]
    fn release_held(&mut self, now: Instant) {
        for (number, session) in std::mem::take(&mut self.held) {
            // The number may be another connection's by now.
            let Some(connection) = self.connections.get_mut(number) else { continue };
            let Some(end) = connection.held_until.filter(|_| connection.session.number == session) else {
                continue;
            };
            if now < end && self.stopping.is_none() {
                self.held.push((number, session));
                continue;
            }
            connection.held_until = None;
            match connection.write(self.sockets.of(number), &mut self.buffers) {
                Ok(()) if !connection.doomed => self.settle(number),
                _ => self.close(number),
            }
        }
    }

    /// Notes a batch that took long, with its first command for an example.
    fn log_if_slow(&self, limit: Duration, took: Duration) {
        /// Bytes of a key that are shown.
        const SHOWN: usize = 64;
        if took < limit {
            return;
        }
        self.shared.counters.slow.fetch_add(1, Ordering::Relaxed);
        let commands = &self.batch.commands;
        let example = commands.iter().find(|command| command.verb.has_key()).or(commands.first());
        let Some(command) = example else { return };
        let key = self.connections.command_key(command);
        let key = key[..key.len().min(SHOWN)].escape_ascii();
        let writes = commands.iter().filter(|command| command.verb.writes()).count();
        tracing::warn!(?took, commands = commands.len(), writes, first = ?command.verb, %key, "a slow batch");
    }

    /// Puts the answers to all commands where they are sent from.
    fn answer(&mut self) {
        let mut open = u32::MAX;
        let mut out = Vec::new();
        for index in 0..self.batch.commands.len() {
            let command = &self.batch.commands[index];
            let outcome = self.batch.outcomes[index];
            if command.connection != open {
                if let Some(connection) = self.connections.get_mut(open as usize) {
                    connection.output = out;
                }
                open = command.connection;
                out = std::mem::take(&mut self.connections[open as usize].output);
                if out.capacity() == 0 {
                    out = self.buffers.output();
                }
            }
            let traced = command.verb.is_meta() && command.flags != 0;
            if traced || self.shared.traces.are_kept() {
                self.trace(index, traced);
            }
            let command = &self.batch.commands[index];
            match command.verb {
                _ if outcome == Outcome::Cut => {
                    let connection = &mut self.connections[open as usize];
                    if !connection.pending || (command.at as usize) < connection.session.at {
                        connection.session.rewind(command);
                        connection.session.careful = command.verb == Verb::MetaGet;
                        connection.pending = true;
                        connection.needed = 1;
                        connection.closing = false;
                    }
                }
                Verb::Reply | Verb::Server => out.extend_from_slice(command.text.of(&self.batch.texts)),
                Verb::Farewell => {
                    out.extend_from_slice(command.text.of(&self.batch.texts));
                    self.connections[open as usize].closing = true;
                }
                verb if verb.is_memcached() => {
                    if !memcached::encode(&self.batch, command, outcome, &self.connections, &mut out) {
                        self.connections[open as usize].closing = true;
                    }
                }
                _ => {
                    let mut tally = self.connections[open as usize].tally;
                    resp::encode(&self.batch, command, outcome, &self.connections, &mut tally, &mut out);
                    self.connections[open as usize].tally = tally;
                }
            }
        }
        if let Some(connection) = self.connections.get_mut(open as usize) {
            connection.output = out;
        }
    }

    /// Records a key's request or store; and before that reads its record, if the command requests it.
    #[cold]
    fn trace(&mut self, index: usize, asked: bool) {
        let (command, outcome) = (&self.batch.commands[index], self.batch.outcomes[index]);
        if !command.verb.has_key() {
            return;
        }
        let hash = self.shared.keyspace.hash(self.connections.command_key(command));
        if asked {
            self.batch.trace = self.shared.traces.look(hash);
        }
        let input = self.connections.input(command.connection);
        // With `u` the access does not count.
        let unnoticed = matches!(command.verb, Verb::MetaGet | Verb::MetaGetAndChange)
            && command.text.of(input).split(|&byte| byte == b' ').any(|flag| flag == b"u");
        if unnoticed {
            return;
        }
        let fetched = match (outcome, command.verb) {
            // It is stale, and still there.
            (Outcome::Deleted, Verb::MetaDelete) if command.text.of(input).contains(&b'I') => return,
            (Outcome::Hit(_), Verb::MetaDebug) | (Outcome::Cut, _) => return,
            (Outcome::MetaHit { .. }, Verb::MetaArithmetic) => false,
            (Outcome::Hit(_) | Outcome::MetaHit { .. } | Outcome::Touched, _) => true,
            // A stored item is new, and an absent one is new when it is stored.
            (Outcome::Stored(_) | Outcome::Number(_) | Outcome::Deleted | Outcome::Miss, _) => false,
            _ => return,
        };
        self.shared.traces.note(hash, fetched);
    }

    /// Decides how a connection continues.
    fn settle(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        connection.consume();
        let sent = connection.unsent() + self.sockets.unsent(number) == 0;
        connection.closing |= connection.ended && !connection.pending && !connection.readable;
        if connection.closing && sent {
            return self.close(number);
        }
        if connection.closing {
            connection.blocked = true;
            return self.sockets.notify_when_sent(number);
        }
        if connection.delayed {
            return;
        }
        if connection.pending || connection.readable {
            return self.enqueue(number);
        }
        connection.rest(&mut self.buffers);
    }

    fn close(&mut self, number: usize) {
        // Its commands refer to it until the batch is done.
        if self.connections[number].session.in_batch {
            self.connections[number].doomed = true;
            self.connections[number].readable = false;
            return;
        }
        let mut connection = self.connections.remove(number);
        if connection.queued {
            self.queue.retain(|&queued| queued != number);
        }
        connection.wire.say_goodbye(&mut self.sockets.of(number));
        self.sockets.remove(number);
        self.shared.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn close_idle(&mut self, now: Instant) {
        let (limit, handshake) = (self.live.idle, self.shared.settings.handshake);
        let idle = |(number, connection): (usize, &Connection)| {
            let says_nothing = limit.is_some_and(|limit| now.duration_since(connection.active) > limit);
            let since = connection.wire.shaking_hands_since();
            let dawdles = since.is_some_and(|since| now.duration_since(since) > handshake);
            (says_nothing || dawdles).then_some(number)
        };
        let idle: Vec<usize> = self.connections.iter().filter_map(idle).collect();
        idle.into_iter().for_each(|number| self.close(number));
    }

    /// The server stops: received commands are still executed, and then connections are closed.
    fn say_farewell(&mut self) {
        self.stopping = Some(Instant::now());
        let numbers: Vec<usize> = self.connections.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let connection = &mut self.connections[number];
            connection.readable = true;
            connection.hung_up = true;
            // As if the client had ended it.
            self.sockets.end_reading(number);
            self.enqueue(number);
        }
    }
}
