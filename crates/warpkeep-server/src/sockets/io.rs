//! Which way of waiting for clients is taken.

use std::fmt;
use std::str::FromStr;

use super::ring;
use crate::ServerError;

/// How a server waits for its clients, reads from them and writes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// The backend that was measured to be faster, if available; otherwise a poll.
    #[default]
    Auto,
    /// With a poll (epoll): works everywhere.
    Poll,
    /// With io_uring: one system call serves many connections. Linux 6.0 and later, unless it is disabled.
    Uring,
}

/// The choice of [`Io::Auto`] if available. Side by side io_uring was no more than a tenth faster (docs/server.md),
/// so the older of the two is preferred.
const PREFERRED: Backend = Backend::Poll;

/// The chosen backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Poll,
    Uring,
}

impl Io {
    /// Tries the requested backend.
    pub(crate) fn choose(self) -> Result<Backend, ServerError> {
        match self {
            Io::Poll => Ok(Backend::Poll),
            Io::Uring => ring::probe().map(|()| Backend::Uring),
            Io::Auto => Ok(match PREFERRED {
                Backend::Uring if let Err(error) = ring::probe() => {
                    tracing::info!(%error, "io_uring is not used");
                    Backend::Poll
                }
                preferred => preferred,
            }),
        }
    }

    /// Whether it would work here.
    pub fn check(self) -> Result<(), ServerError> {
        self.choose().map(drop)
    }

    /// As it is written in settings.
    pub fn name(self) -> &'static str {
        match self {
            Io::Auto => "auto",
            Io::Poll => "poll",
            Io::Uring => "uring",
        }
    }
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Poll => "poll",
            Backend::Uring => "uring",
        }
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Io {
    type Err = String;

    fn from_str(text: &str) -> Result<Io, String> {
        let known = [Io::Auto, Io::Poll, Io::Uring];
        let found = known.into_iter().find(|io| io.name() == text);
        found.ok_or_else(|| format!("'{text}' is no way to wait for clients; take auto, poll or uring"))
    }
}
