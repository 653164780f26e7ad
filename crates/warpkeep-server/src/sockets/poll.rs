//! Sockets that a poll watches, each read and written by calls of its own.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Token, Waker};

use super::Event;

/// The token of the waker.
const WOKEN: Token = Token(usize::MAX);

/// Sockets that a poll watches.
#[derive(Debug)]
pub(crate) struct Poll {
    poll: mio::Poll,
    events: Events,
    /// By number.
    streams: Vec<Option<TcpStream>>,
}

impl Poll {
    pub(super) fn new() -> io::Result<(Poll, Waker)> {
        let poll = mio::Poll::new()?;
        let waker = Waker::new(poll.registry(), WOKEN)?;
        Ok((Poll { poll, events: Events::with_capacity(1024), streams: Vec::new() }, waker))
    }

    pub(super) fn wait(&mut self, timeout: Duration, happened: &mut Vec<Event>) -> io::Result<bool> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            // The events of the last wait are still in the list.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            done => done?,
        }
        let mut woken = false;
        for event in &self.events {
            if event.token() == WOKEN {
                woken = true;
                continue;
            }
            happened.push(Event {
                number: event.token().0,
                readable: event.is_readable() || event.is_read_closed() || event.is_error(),
                writable: event.is_writable(),
                ended: event.is_read_closed() || event.is_error(),
            });
        }
        Ok(woken)
    }

    pub(super) fn add(&mut self, number: usize, mut stream: TcpStream) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(number), interest)?;
        if self.streams.len() <= number {
            self.streams.resize_with(number + 1, || None);
        }
        self.streams[number] = Some(stream);
        Ok(())
    }

    pub(super) fn remove(&mut self, number: usize) {
        if let Some(mut stream) = self.streams.get_mut(number).and_then(Option::take) {
            // The registration ends with the socket; an error means that it is gone already.
            let _ = self.poll.registry().deregister(&mut stream);
        }
    }

    pub(super) fn end_reading(&self, number: usize) {
        if let Some(Some(stream)) = self.streams.get(number) {
            // Fails if the client has already closed.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    #[inline]
    pub(super) fn stream(&mut self, number: usize) -> io::Result<&mut TcpStream> {
        let stream = self.streams.get_mut(number).and_then(Option::as_mut);
        stream.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
