//! What the bytes of a connection go through: a socket, or TLS over one.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use mio::net::TcpStream;
use rustls::{ServerConfig, ServerConnection};

/// A socket, or TLS over one. Neither waits.
#[derive(Debug)]
pub(crate) enum Wire {
    /// As it is.
    Plain(TcpStream),
    /// Over TLS.
    Secure(Box<Secure>),
}

/// TLS over a socket.
#[derive(Debug)]
pub(crate) struct Secure {
    stream: TcpStream,
    tls: ServerConnection,
    since: Instant,
}

impl Wire {
    /// TLS over a socket; the client has yet to say hello.
    pub(crate) fn secure(stream: TcpStream, config: &Arc<ServerConfig>) -> io::Result<Wire> {
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Wire::Secure(Box::new(Secure { stream, tls, since: Instant::now() })))
    }

    /// The socket.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        match self {
            Wire::Plain(stream) => stream,
            Wire::Secure(secure) => &mut secure.stream,
        }
    }

    /// Whether a read that gives less than was asked for has emptied the socket.
    #[inline]
    pub(crate) fn short_means_drained(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }

    /// Since when the two have been trying to agree, if they have not.
    pub(crate) fn shaking_hands_since(&self) -> Option<Instant> {
        match self {
            Wire::Secure(secure) if secure.tls.is_handshaking() => Some(secure.since),
            _ => None,
        }
    }

    /// Whether there are bytes that were taken by [`Wire::write`], or that TLS says of itself, and that the socket has not.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Wire::Plain(_) => false,
            Wire::Secure(secure) => secure.tls.wants_write(),
        }
    }

    /// Reads what there is.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(buffer),
            Wire::Secure(secure) => secure.read(buffer),
        }
    }

    /// Takes what can be sent, or soon.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Secure(secure) => secure.write(bytes),
        }
    }

    /// Sends what was taken.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(_) => Ok(()),
            Wire::Secure(secure) => secure.flush(),
        }
    }

    /// Says that no more will come, as far as the client can be told at once.
    pub(crate) fn say_goodbye(&mut self) {
        if let Wire::Secure(secure) = self {
            secure.tls.send_close_notify();
            // It is closed in any case.
            let _ = secure.flush();
        }
    }
}

impl Secure {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It went without a goodbye. Whether its last command is whole is seen by the parser.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            // The end of the stream is noted, and found by the reader above.
            self.tls.read_tls(&mut self.stream)?;
            if let Err(error) = self.tls.process_new_packets() {
                // What is wrong is told to the client, if it listens.
                let _ = self.flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            match self.flush() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // So that the layer between never holds more than it has to.
        self.flush()?;
        let taken = self.tls.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
