//! A worker's view of the system: waiting for clients, reading from them, writing to them, closing them, and being
//! woken by other threads. There are two implementations: [a poll](poll), and [a ring](ring) of requests and
//! completions; a third has its clients in [memory](memory), for measurements without sockets.
//!
//! Sockets have the numbers of their connections. Reading and writing never block in either. The difference is when
//! the bytes move: a poll moves them at once, with a call for each socket; a ring moves all of them in its next
//! wait.

mod io;
mod memory;
mod poll;
mod ring;

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use mio::net::TcpStream;

pub(crate) use self::io::Backend;
pub use self::io::Io;
pub(crate) use self::memory::Memory;
use self::poll::Poll;
use self::ring::Ring;

/// An event of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    /// The number of the socket.
    pub(crate) number: usize,
    /// Input, an end, or a failure is available.
    pub(crate) readable: bool,
    /// The socket has accepted output, or can.
    pub(crate) writable: bool,
    /// The client will send no more.
    pub(crate) ended: bool,
}

/// The sockets of a worker.
#[derive(Debug)]
pub(crate) enum Sockets {
    Poll(Poll),
    Ring(Box<Ring>),
    Memory(Memory),
}

/// Wakes a worker that waits.
#[derive(Debug)]
pub(crate) enum Waker {
    Poll(mio::Waker),
    Ring(Arc<OwnedFd>),
    /// Of clients in memory: no thread waits for them.
    None,
}

impl Waker {
    pub(crate) fn wake(&self) -> std::io::Result<()> {
        match self {
            Waker::Poll(waker) => waker.wake(),
            Waker::Ring(bell) => ring::ring_bell(bell),
            Waker::None => Ok(()),
        }
    }
}

impl Sockets {
    /// Without sockets, and with a handle that wakes the waiting thread.
    pub(crate) fn new(backend: Backend) -> std::io::Result<(Sockets, Waker)> {
        Ok(match backend {
            Backend::Poll => {
                let (poll, waker) = Poll::new()?;
                (Sockets::Poll(poll), Waker::Poll(waker))
            }
            Backend::Uring => {
                let ring = Ring::new()?;
                let bell = ring.bell();
                (Sockets::Ring(Box::new(ring)), Waker::Ring(bell))
            }
        })
    }

    /// Waits until something happens, and adds the events to the list; returns whether it was woken.
    pub(crate) fn wait(&mut self, timeout: Duration, events: &mut Vec<Event>) -> std::io::Result<bool> {
        match self {
            Sockets::Poll(poll) => poll.wait(timeout, events),
            Sockets::Ring(ring) => ring.wait(timeout, events),
            Sockets::Memory(memory) => {
                memory.wait(events);
                Ok(false)
            }
        }
    }

    /// Takes a socket for the connection of a number that is free.
    pub(crate) fn add(&mut self, number: usize, stream: TcpStream) -> std::io::Result<()> {
        match self {
            Sockets::Poll(poll) => poll.add(number, stream),
            Sockets::Ring(ring) => ring.add(number, stream.into()),
            Sockets::Memory(_) => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    /// Closes a socket. Output just written is sent as far as the socket accepts it at once; the number becomes
    /// free.
    pub(crate) fn remove(&mut self, number: usize) {
        match self {
            Sockets::Poll(poll) => poll.remove(number),
            Sockets::Ring(ring) => ring.remove(number),
            // Its last answers can still be read.
            Sockets::Memory(_) => {}
        }
    }

    /// Input already received is still read, followed by an end, as if the client had closed.
    pub(crate) fn end_reading(&mut self, number: usize) {
        match self {
            Sockets::Poll(poll) => poll.end_reading(number),
            Sockets::Ring(ring) => ring.end_reading(number),
            Sockets::Memory(memory) => memory.end_reading(number),
        }
    }

    /// Bytes that were written and that the system has not taken.
    #[inline]
    pub(crate) fn unsent(&self, number: usize) -> usize {
        match self {
            Sockets::Poll(_) | Sockets::Memory(_) => 0,
            Sockets::Ring(ring) => ring.unsent(number),
        }
    }

    /// Requests an event when all output is accepted. A poll reports that in any case.
    #[inline]
    pub(crate) fn notify_when_sent(&mut self, number: usize) {
        if let Sockets::Ring(ring) = self {
            ring.notify_when_sent(number);
        }
    }

    /// One of them, to read from and to write to.
    #[inline]
    pub(crate) fn of(&mut self, number: usize) -> Socket<'_> {
        Socket { sockets: self, number }
    }
}

/// One socket, to read from and to write to. Neither waits.
#[derive(Debug)]
pub(crate) struct Socket<'a> {
    sockets: &'a mut Sockets,
    number: usize,
}

impl Socket<'_> {
    /// Takes all bytes at once, if the backend can, and leaves an empty buffer in their place.
    #[inline]
    pub(crate) fn take_all(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<bool> {
        match self.sockets {
            Sockets::Poll(_) => Ok(false),
            Sockets::Ring(ring) => ring.take_all(self.number, bytes).map(|()| true),
            Sockets::Memory(memory) => {
                memory.take_all(self.number, bytes);
                Ok(true)
            }
        }
    }
}

impl Read for Socket<'_> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.sockets {
            Sockets::Poll(poll) => poll.stream(self.number)?.read(buffer),
            Sockets::Ring(ring) => ring.read(self.number, buffer),
            Sockets::Memory(memory) => memory.read(self.number, buffer),
        }
    }
}

impl Write for Socket<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.sockets {
            Sockets::Poll(poll) => poll.stream(self.number)?.write(bytes),
            Sockets::Ring(ring) => ring.write(self.number, bytes),
            Sockets::Memory(memory) => Ok(memory.write(self.number, bytes)),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
