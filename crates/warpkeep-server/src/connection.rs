//! A client's connection: its socket, what it has sent, and what it has yet to read.

use std::io::{self, Read, Write};
use std::time::Instant;

use mio::net::TcpStream;

use crate::resp::Tally;
use crate::session::Session;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;
/// Bytes that are read before others have their turn.
const TURN: usize = 512 << 10;

/// What became of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// All there is was read.
    Drained,
    /// There is more.
    More,
    /// The client will send no more.
    Ended,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) session: Session,
    /// What was sent and not yet done.
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
    /// The client has closed its side: the poll will say nothing more.
    pub(crate) hung_up: bool,
    /// There are whole commands in the input that were not parsed yet.
    pub(crate) pending: bool,
    /// It is in the list of those that have something to do.
    pub(crate) queued: bool,
    /// No more will come; what is there is done, and then it is closed.
    pub(crate) ended: bool,
    /// It is to be closed when its answers are sent.
    pub(crate) closing: bool,
    /// Its socket has failed: it is closed when its commands are done.
    pub(crate) doomed: bool,
    /// It is watched for when it takes more.
    pub(crate) blocked: bool,
    pub(crate) active: Instant,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, session: Session, now: Instant) -> Connection {
        Connection {
            stream,
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
            queued: false,
            ended: false,
            closing: false,
            doomed: false,
            blocked: false,
            active: now,
        }
    }

    /// What was sent and not yet done.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// Reads what there is, within limits.
    pub(crate) fn read(&mut self) -> io::Result<Reading> {
        let mut turn = 0;
        while turn < TURN {
            // As much as the command under way still needs, so that a large value takes few turns.
            let room = CHUNK.max((self.session.at + self.needed).saturating_sub(self.filled).min(TURN));
            if self.input.len() < self.filled + room {
                self.input.resize((self.filled + room).next_multiple_of(CHUNK), 0);
            }
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => {
                    self.readable = false;
                    return Ok(Reading::Ended);
                }
                Ok(count) => {
                    let asked = self.input.len() - self.filled;
                    self.filled += count;
                    turn += count;
                    if count < asked && !self.hung_up {
                        // The next read would say that there is no more; the poll will say when there is.
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

    /// Forgets what was done.
    pub(crate) fn consume(&mut self) {
        let done = std::mem::take(&mut self.session.at);
        if done == 0 {
            return;
        }
        if done < self.filled {
            self.input.copy_within(done..self.filled, 0);
        }
        self.filled -= done;
        if self.filled == 0 && self.input.len() > 4 * CHUNK {
            self.input = Vec::new();
        }
    }

    /// Bytes that the client has yet to take.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends what it takes.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
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
        self.output.clear();
        if self.output.capacity() > 4 * TURN {
            self.output = Vec::new();
        }
        Ok(())
    }
}
