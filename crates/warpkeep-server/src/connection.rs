//! A client's connection: unprocessed input and unsent output.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use crate::buffers::{Buffers, CHUNK};
use crate::resp::Tally;
use crate::session::Session;
use crate::sockets::Socket;
use crate::wire::Wire;

/// Bytes that are read before other connections have their turn.
const TURN: usize = 512 << 10;
/// The largest incomplete input that is moved to a smaller buffer while no more arrives.
const HALF_SENT: usize = 4 << 10;

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All available input was read.
    Drained,
    /// There is more.
    More,
    /// The client will send no more.
    Ended,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    /// Input that is not processed yet. Empty, or small, while the client is idle.
    pub(crate) input: Vec<u8>,
    /// Bytes of the input that are there, rather than room.
    pub(crate) filled: usize,
    /// The least that the input must have before it is worth parsing.
    pub(crate) needed: usize,
    /// Answers that were not yet sent, from `sent` on.
    pub(crate) output: Vec<u8>,
    sent: usize,
    pub(crate) tally: Tally,
    /// The socket may have more to read.
    pub(crate) readable: bool,
    /// The client has closed its side: the poll will report nothing more.
    pub(crate) hung_up: bool,
    /// The input holds whole commands that are not parsed yet.
    pub(crate) pending: bool,
    /// Its next command is a write, which waits for a batch that takes writes.
    pub(crate) delayed: bool,
    /// The connection is in the list of those with work.
    pub(crate) queued: bool,
    /// No more input will come; the received commands are executed, and then it is closed.
    pub(crate) ended: bool,
    /// It is to be closed when its answers are sent.
    pub(crate) closing: bool,
    /// Its socket has failed: it is closed when its commands are done.
    pub(crate) doomed: bool,
    /// Sending continues when the socket accepts more.
    pub(crate) blocked: bool,
    pub(crate) active: Instant,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// Until then its answers are not sent, and it is not listened to.
    pub(crate) held_until: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(wire: Wire, session: Session, peer: SocketAddr, now: Instant) -> Connection {
        Connection {
            wire,
            session,
            input: Vec::new(),
            filled: 0,
            needed: 1,
            output: Vec::new(),
            sent: 0,
            tally: Tally::default(),
            readable: true,
            hung_up: false,
            pending: false,
            delayed: false,
            queued: false,
            ended: false,
            closing: false,
            doomed: false,
            blocked: false,
            active: now,
            peer,
            held_until: None,
        }
    }

    /// Input that is not processed yet.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// Reads the available input, within limits.
    pub(crate) fn read(&mut self, mut socket: Socket<'_>, buffers: &mut Buffers) -> io::Result<Reading> {
        if self.input.len() < CHUNK {
            let mut larger = buffers.input();
            larger[..self.filled].copy_from_slice(&self.input[..self.filled]);
            self.input = larger;
        }
        let reading = self.read_some(&mut socket);
        // TLS may have messages of its own to send.
        self.blocked |= self.wire.has_unsent();
        reading
    }

    fn read_some(&mut self, socket: &mut Socket<'_>) -> io::Result<Reading> {
        let mut turn = 0;
        while turn < TURN {
            // As much as the command under way still needs, so that a large value takes few turns.
            let room = CHUNK.max((self.session.at + self.needed).saturating_sub(self.filled).min(TURN));
            if self.input.len() < self.filled + room {
                self.input.resize((self.filled + room).next_multiple_of(CHUNK), 0);
            }
            match self.wire.read(socket, &mut self.input[self.filled..]) {
                Ok(0) => {
                    self.readable = false;
                    return Ok(Reading::Ended);
                }
                Ok(count) => {
                    let asked = self.input.len() - self.filled;
                    self.filled += count;
                    turn += count;
                    if count < asked && !self.hung_up && self.wire.is_plain() {
                        // The next read would find no more; the poll reports new input.
                        self.readable = false;
                        return Ok(Reading::Drained);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(Reading::Drained);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Reading::More)
    }

    /// Drops the processed input.
    pub(crate) fn consume(&mut self) {
        let done = std::mem::take(&mut self.session.at);
        self.session.decoded.clear();
        if done > 0 && done < self.filled {
            self.input.copy_within(done..self.filled, 0);
        }
        self.filled -= done;
    }

    /// No more input for the time being: returns memory that is not needed.
    pub(crate) fn rest(&mut self, buffers: &mut Buffers) {
        if self.filled <= HALF_SENT && self.input.len() >= CHUNK {
            let half_sent = self.input[..self.filled].to_vec();
            buffers.give_input(std::mem::replace(&mut self.input, half_sent));
        }
    }

    /// Bytes that its socket has yet to take.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent + usize::from(self.wire.has_unsent())
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn write(&mut self, mut socket: Socket<'_>, buffers: &mut Buffers) -> io::Result<()> {
        if self.wire.is_plain() && self.sent == 0 && socket.take_all(&mut self.output)? {
            self.blocked = false;
            buffers.give_output(std::mem::take(&mut self.output));
            return Ok(());
        }
        let socket = &mut socket;
        loop {
            let done = match self.sent < self.output.len() {
                true => self.wire.write(socket, &self.output[self.sent..]),
                false => match self.wire.flush(socket) {
                    Ok(()) => break,
                    Err(error) => Err(error),
                },
            };
            match done {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.blocked = false;
        self.sent = 0;
        buffers.give_output(std::mem::take(&mut self.output));
        Ok(())
    }
}
