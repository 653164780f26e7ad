//! What can go wrong with a server as a whole.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server did not start, or stopped. Each message says what to do next.
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
        /// What the system said.
        source: io::Error,
    },

    /// The address for `/metrics` cannot be listened on.
    #[error(
        "cannot answer HTTP on {address}: {what}; choose another address or port, or stop what listens there"
    )]
    Http {
        /// The address.
        address: SocketAddr,
        /// What was said.
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
        /// What is wrong with it.
        what: String,
    },

    /// There is a table of the server's name that it did not make.
    #[error("the table '{name}' does not hold what this server stores; rename it, or serve another store")]
    ForeignTable {
        /// Its name.
        name: String,
    },

    /// io_uring was asked for and cannot be used.
    #[error("cannot use io_uring: {what} ({source}); {remedy}, or take --io poll")]
    Uring {
        /// What is in the way.
        what: String,
        /// What removes it.
        remedy: String,
        /// What the system said.
        source: io::Error,
    },

    /// The operating system refused.
    #[error("cannot {doing}: {source}; check the limits of the process (ulimit -a)")]
    Io {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> ServerError {
        move |source| ServerError::Io { doing, source }
    }
}
