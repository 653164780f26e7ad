//! Where servers are, and connections to them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::error::ServerError;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Where a server listens.
///
/// ```
/// use warpkeep_bench::server::Address;
///
/// let address: Address = "localhost:11211".parse().expect("a host and a port");
/// assert_eq!(address.to_string(), "localhost:11211");
/// assert!("unix:/run/cache.sock".parse::<Address>().is_ok());
/// assert!("localhost".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let wrong = || format!("`{text}` is no address; write HOST:PORT or unix:PATH");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        match port.parse::<u16>() {
            Ok(_) if !host.is_empty() => Ok(Address::Tcp(text.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Address {
    /// Connects, with no delay for small packets.
    pub(super) fn connect(&self) -> Result<Stream, ServerError> {
        let failed = |source| ServerError::Connect { address: self.to_string(), source };
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix).map_err(failed),
            Address::Tcp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                for address in address.to_socket_addrs().map_err(failed)? {
                    match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
                        Ok(stream) => {
                            stream.set_nodelay(true).map_err(failed)?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(failed(last))
            }
        }
    }
}

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Reads and writes return at once from now on.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Reads wait no longer than this from now on.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}
