//! One connection: requests go out as fast as its pace allows, answers are checked as they arrive.

use std::io::{ErrorKind, Write as _};

use super::address::{Address, Stream};
use super::error::{ServerError, excerpt};
use super::expected::{Expected, Judge};
use super::inbox::Inbox;
use super::ledger::next_write;
use super::pace::Pace;
use super::protocol::{Malformed, Requests};
use super::tally::Tally;
use super::work::{Turn, Work};

/// Read at a time.
const INBOX: usize = 256 << 10;
/// Not more than this is prepared before it is sent.
const OUTBOX: usize = 256 << 10;

/// A connection and its requests in flight.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// Whether the system may have more to read, and room to write: it reports only changes.
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the server has closed its side, so that reading continues to the end.
    pub(super) ended: bool,
    inbox: Inbox,
    outbox: Vec<u8>,
    sent: usize,
    expected: Expected,
    work: Work,
    pace: Pace,
    numbers: Vec<u32>,
    last_write: u32,
    heard: u64,
    /// Whether no more requests follow.
    done: bool,
}

impl Connection {
    /// Connects. Writes are numbered from the one after `last_write`.
    pub(super) fn open(
        address: &Address,
        work: Work,
        pace: Pace,
        last_write: u32,
    ) -> Result<Connection, ServerError> {
        let stream = address.connect()?;
        stream.set_nonblocking().map_err(|source| ServerError::Io {
            address: address.to_string(),
            doing: "prepare a connection to",
            source,
        })?;
        Ok(Connection {
            stream,
            readable: false,
            writable: true,
            ended: false,
            inbox: Inbox::new(INBOX),
            outbox: Vec::with_capacity(OUTBOX),
            sent: 0,
            expected: Expected::default(),
            work,
            pace,
            numbers: Vec::new(),
            last_write,
            heard: 0,
            done: false,
        })
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The number of its last write.
    pub(super) fn last_write(&self) -> u32 {
        self.last_write
    }

    /// Requests without an answer.
    pub(super) fn outstanding(&self) -> usize {
        self.expected.outstanding()
    }

    /// Whether no more requests follow, and all were answered.
    pub(super) fn is_finished(&self) -> bool {
        self.done && self.outstanding() == 0
    }

    /// Since when an answer has been waited for in vain; `None` if none is due.
    pub(super) fn waiting_since(&self) -> Option<u64> {
        self.expected.oldest().map(|sent| sent.max(self.heard))
    }

    /// When the next request is due; `None` if it waits for an answer instead.
    pub(super) fn due(&self) -> Option<u64> {
        if self.done { None } else { self.pace.due() }
    }

    /// Sends no more requests. Requests that were due by then and not sent are counted as having waited until now.
    pub(super) fn stop(&mut self, judge: &Judge<'_>, tally: &mut Tally, now: u64) {
        if self.done {
            return;
        }
        self.done = true;
        while self.pace.is_open()
            && let Some(intended) = self.pace.next(judge.window.to - 1, 0)
        {
            if judge.window.has(intended) {
                tally.unsent += 1;
                tally.record(intended, now);
            }
        }
    }

    /// Prepares the requests that may go out now, and sends as much as the system takes.
    pub(super) fn send(
        &mut self,
        requests: &Requests,
        judge: &Judge<'_>,
        now: u64,
    ) -> Result<(), ServerError> {
        loop {
            while !self.done && self.outbox.len() < OUTBOX {
                let Some(sent) = self.pace.next(now, self.expected.outstanding()) else { break };
                self.ask(requests, judge, sent);
            }
            let room = self.outbox.len() >= OUTBOX;
            self.flush(judge)?;
            if !(room && self.outbox.is_empty()) {
                return Ok(());
            }
        }
    }

    #[inline]
    fn ask(&mut self, requests: &Requests, judge: &Judge<'_>, sent: u64) {
        match self.work.next(&mut self.numbers) {
            None => self.done = true,
            Some(Turn::Set(number)) => {
                self.last_write = next_write(self.last_write);
                requests.set(number, self.last_write, &mut self.outbox);
                self.expected.set(number, self.last_write, sent);
            }
            Some(Turn::Get) => match self.numbers[..] {
                [number] => {
                    requests.get(number, &mut self.outbox);
                    self.expected.get(number, judge, sent);
                }
                ref numbers => {
                    requests.get_many(numbers, &mut self.outbox);
                    self.expected.get_many(numbers, judge, sent);
                }
            },
        }
    }

    fn flush(&mut self, judge: &Judge<'_>) -> Result<(), ServerError> {
        while self.writable && self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_gone(&error) => return Err(self.closed(judge)),
                Err(source) => {
                    let address = judge.address.to_owned();
                    return Err(ServerError::Io { address, doing: "send to", source });
                }
            }
        }
        if self.sent == self.outbox.len() {
            self.outbox.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// Takes the answers that are there.
    pub(super) fn receive(
        &mut self,
        judge: &Judge<'_>,
        tally: &mut Tally,
        clock: impl Fn() -> u64,
    ) -> Result<(), ServerError> {
        while self.readable {
            match self.inbox.fill(&mut self.stream) {
                Ok((0, _)) => return Err(self.closed(judge)),
                Ok((_, emptied)) => self.readable = self.ended || !emptied,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_gone(&error) => return Err(self.closed(judge)),
                Err(source) => {
                    let address = judge.address.to_owned();
                    return Err(ServerError::Io { address, doing: "hear from", source });
                }
            }
            self.heard = clock();
            take_answers(&mut self.inbox, &mut self.expected, judge, tally, self.heard)?;
        }
        Ok(())
    }

    fn closed(&self, judge: &Judge<'_>) -> ServerError {
        ServerError::Closed { address: judge.address.to_owned(), outstanding: self.outstanding() }
    }
}

/// Settles every whole answer that is there.
pub(super) fn take_answers(
    inbox: &mut Inbox,
    expected: &mut Expected,
    judge: &Judge<'_>,
    tally: &mut Tally,
    now: u64,
) -> Result<(), ServerError> {
    let used = settle_all(inbox.unread(), expected, judge, tally, now)?;
    inbox.consume(used);
    Ok(())
}

/// Settles every whole answer in these bytes; returns how many bytes they take.
pub(super) fn settle_all(
    bytes: &[u8],
    expected: &mut Expected,
    judge: &Judge<'_>,
    tally: &mut Tally,
    now: u64,
) -> Result<usize, ServerError> {
    let mut used = 0;
    loop {
        match judge.protocol.next(&bytes[used..]) {
            Ok(Some((answer, length))) => {
                expected.settle(answer, judge, tally, now)?;
                used += length;
            }
            Ok(None) => return Ok(used),
            Err(Malformed(what)) => {
                return Err(ServerError::Malformed {
                    address: judge.address.to_owned(),
                    protocol: judge.protocol.name(),
                    what,
                    bytes: excerpt(&bytes[used..]),
                });
            }
        }
    }
}

/// Whether the other side has hung up, however the system puts it.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
