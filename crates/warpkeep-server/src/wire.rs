//! The layer between a connection and its socket: none, or TLS.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::{ServerConfig, ServerConnection};

use crate::sockets::Socket;

/// The layer between a connection and its socket. It never blocks.
#[derive(Debug)]
pub(crate) enum Wire {
    /// Nothing.
    Plain,
    /// TLS.
    Secure(Box<Secure>),
}

/// TLS over a socket.
#[derive(Debug)]
pub(crate) struct Secure {
    tls: ServerConnection,
    since: Instant,
}

impl Wire {
    /// TLS over a socket; the handshake is still to come.
    pub(crate) fn secure(config: &Arc<ServerConfig>) -> io::Result<Wire> {
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Wire::Secure(Box::new(Secure { tls, since: Instant::now() })))
    }

    /// Whether bytes reach the socket unchanged, so that a short read has emptied it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Wire::Plain)
    }

    /// Since when the two have been trying to agree, if they have not.
    pub(crate) fn shaking_hands_since(&self) -> Option<Instant> {
        match self {
            Wire::Secure(secure) if secure.tls.is_handshaking() => Some(secure.since),
            _ => None,
        }
    }

    /// Whether there are bytes, accepted by [`Wire::write`] or TLS's own, that the socket has not accepted yet.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Wire::Plain => false,
            Wire::Secure(secure) => secure.tls.wants_write(),
        }
    }

    /// Reads the available bytes.
    #[inline]
    pub(crate) fn read(&mut self, socket: &mut Socket<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain => socket.read(buffer),
            Wire::Secure(secure) => secure.read(socket, buffer),
        }
    }

    /// Accepts bytes that can be sent now or soon.
    #[inline]
    pub(crate) fn write(&mut self, socket: &mut Socket<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain => socket.write(bytes),
            Wire::Secure(secure) => secure.write(socket, bytes),
        }
    }

    /// Sends the accepted bytes.
    #[inline]
    pub(crate) fn flush(&mut self, socket: &mut Socket<'_>) -> io::Result<()> {
        match self {
            Wire::Plain => Ok(()),
            Wire::Secure(secure) => secure.flush(socket),
        }
    }

    /// Signals the end of the output, as far as the socket accepts it at once.
    pub(crate) fn say_goodbye(&mut self, socket: &mut Socket<'_>) {
        if let Wire::Secure(secure) = self {
            secure.tls.send_close_notify();
            // It is closed in any case.
            let _ = secure.flush(socket);
        }
    }
}

impl Secure {
    fn read(&mut self, socket: &mut Socket<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It went without a goodbye. Whether its last command is whole is seen by the parser.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            // The end of the stream is noted, and found by the reader above.
            self.tls.read_tls(socket)?;
            if let Err(error) = self.tls.process_new_packets() {
                // The client is sent the reason, if it still reads.
                let _ = self.flush(socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            match self.flush(socket) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    fn write(&mut self, socket: &mut Socket<'_>, bytes: &[u8]) -> io::Result<usize> {
        // So that the layer between never holds more than it has to.
        self.flush(socket)?;
        let taken = self.tls.writer().write(bytes)?;
        match self.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self, socket: &mut Socket<'_>) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
