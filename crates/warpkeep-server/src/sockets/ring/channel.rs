//! A ring's state of a socket: input received and not read, output written and not sent.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use super::lent::{Filled, Lent};

/// A request to send that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// None.
    Nothing,
    /// Tried once, when it is submitted; no completion if it succeeds.
    Silent,
    /// The same, with a completion.
    Told,
    /// Waits until the socket accepts something.
    Patient,
}

/// A socket, and the bytes between it and its connection.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    /// Of the connection; none while it leaves.
    pub(super) number: Option<usize>,
    /// The kernel receives for it.
    pub(super) receiving: bool,
    /// Requests to cancel that are under way.
    pub(super) cancels: u32,
    /// Received buffers that were not read.
    pub(super) filled: VecDeque<Filled>,
    /// Earlier input that was not read in its turn, from `read` on.
    pub(super) backlog: Vec<u8>,
    pub(super) read: usize,
    /// No more input will come.
    pub(super) ended: bool,
    /// The system's error.
    pub(super) failed: Option<i32>,
    /// Output written and not submitted.
    pub(super) out: Vec<u8>,
    /// Output in progress, from `sent` on. It is not touched while there is a request.
    pub(super) under_way: Vec<u8>,
    pub(super) sent: usize,
    pub(super) sending: Sending,
    /// The socket has refused output: the next request waits.
    pub(super) is_full: bool,
    /// An event is requested when everything is sent.
    pub(super) watched: bool,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd, number: usize) -> Channel {
        Channel {
            socket,
            number: Some(number),
            receiving: false,
            cancels: 0,
            filled: VecDeque::new(),
            backlog: Vec::new(),
            read: 0,
            ended: false,
            failed: None,
            out: Vec::new(),
            under_way: Vec::new(),
            sent: 0,
            sending: Sending::Nothing,
            is_full: false,
            watched: false,
        }
    }

    /// Bytes that were written and that the system has not taken.
    #[inline]
    pub(super) fn unsent(&self) -> usize {
        self.out.len() + self.under_way.len() - self.sent
    }

    /// Bytes kept because the connection did not read them in its turn.
    pub(super) fn kept(&self) -> usize {
        self.backlog.len() - self.read
    }

    /// Whether the kernel has no request for it.
    pub(super) fn is_still(&self) -> bool {
        !self.receiving && self.sending == Sending::Nothing && self.cancels == 0
    }

    /// Whether all received input has been read.
    pub(super) fn is_read(&self) -> bool {
        self.filled.is_empty() && self.backlog.is_empty()
    }

    /// Copies received input, in order.
    pub(super) fn read(&mut self, lent: &mut Lent, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        if !self.backlog.is_empty() {
            count = self.kept().min(into.len());
            into[..count].copy_from_slice(&self.backlog[self.read..self.read + count]);
            self.read += count;
            if self.read == self.backlog.len() {
                (self.backlog, self.read) = (Vec::new(), 0);
            }
        }
        while count < into.len()
            && let Some(filled) = self.filled.front_mut()
        {
            let (more, is_empty) = lent.read(filled, &mut into[count..]);
            count += more;
            if is_empty && let Some(filled) = self.filled.pop_front() {
                lent.give_back(filled);
            }
        }
        match (count, self.failed) {
            (0, Some(code)) if !into.is_empty() => Err(io::Error::from_raw_os_error(code)),
            (0, None) if !into.is_empty() && !self.ended => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(count),
        }
    }

    /// Copies unread input, so that its buffers become free for other sockets.
    pub(super) fn keep(&mut self, lent: &mut Lent) {
        for filled in self.filled.drain(..) {
            self.backlog.extend_from_slice(lent.bytes(&filled));
            lent.give_back(filled);
        }
    }

    /// Whether it accepts output.
    pub(super) fn takes(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
    }
}
