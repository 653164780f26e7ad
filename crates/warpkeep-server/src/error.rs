//! Errors of the server as a whole.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server did not start, or stopped. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Of the store.
    #[error(transparent)]
    Store(#[from] warpkeep::Error),

    /// An address that cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; choose another address or port, or stop what listens there"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },

    /// The address for `/metrics` cannot be listened on.
    #[error(
        "cannot answer HTTP on {address}: {what}; choose another address or port, or stop what listens there"
    )]
    Http {
        /// The address.
        address: SocketAddr,
        /// The given text.
        what: String,
    },

    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),

    /// A file that TLS needs and that cannot be used.
    #[error("cannot use {} for TLS: {what}; name the right file, in PEM", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },

    /// A table has the server's table name, but was not made by it.
    #[error("the table '{name}' does not hold what this server stores; rename it, or serve another store")]
    ForeignTable {
        /// Its name.
        name: String,
    },

    /// io_uring was requested and cannot be used.
    #[error("cannot use io_uring: {what} ({source}); {remedy}, or take --io poll")]
    Uring {
        /// The obstacle.
        what: String,
        /// The remedy.
        remedy: String,
        /// The system's error.
        source: io::Error,
    },

    /// The operating system refused.
    #[error("cannot {doing}: {source}; check the limits of the process (ulimit -a)")]
    Io {
        /// The failed action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> ServerError {
        move |source| ServerError::Io { doing, source }
    }
}
