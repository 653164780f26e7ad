//! What can go wrong with a server under load.

use std::io;

use crate::BenchError;

/// Why a run against a server gave no result. Each message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Not of the server.
    #[error(transparent)]
    Bench(#[from] BenchError),

    /// Nobody answers there.
    #[error("cannot connect to {address}: {source}; start the server, or give its address with --address")]
    Connect {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },

    /// A connection failed.
    #[error("cannot {doing} {address}: {source}; look at the server's log")]
    Io {
        /// Where.
        address: String,
        /// What was attempted.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// The server hung up.
    #[error("{address} closed a connection with {outstanding} requests unanswered; look at the server's log")]
    Closed {
        /// Who.
        address: String,
        /// Requests that had no answer.
        outstanding: usize,
    },

    /// The server went quiet.
    #[error(
        "{address} was silent for {seconds} s with {outstanding} requests unanswered; look whether it hangs, or give it \
         longer with --timeout"
    )]
    Silent {
        /// Who.
        address: String,
        /// For how long.
        seconds: u64,
        /// Requests that had no answer.
        outstanding: usize,
    },

    /// What came is no answer in this protocol.
    #[error("{address} answered with what is not {protocol}: {what}: {bytes:?}; check --protocol")]
    Malformed {
        /// Who.
        address: String,
        /// What was spoken.
        protocol: &'static str,
        /// What is wrong with it.
        what: &'static str,
        /// Its first bytes.
        bytes: String,
    },

    /// An answer that is good by itself, but not to what was asked.
    #[error(
        "{address} answered out of order: {wanted} was asked, and {got} came; this is a bug of the server"
    )]
    OutOfOrder {
        /// Who.
        address: String,
        /// What was asked.
        wanted: String,
        /// What came.
        got: String,
    },

    /// A value that was never written to that key.
    #[error(
        "{address} gave a wrong value for key {key:?}: {found} instead of {expected}; either others write to these keys, or the \
         server is wrong"
    )]
    WrongValue {
        /// Who.
        address: String,
        /// Of which key.
        key: String,
        /// What was written.
        expected: String,
        /// What came.
        found: String,
    },

    /// A value that had been replaced before it was asked for.
    #[error(
        "{address} gave an old value for key {key:?}: write {found}, although write {acknowledged} was acknowledged before the \
         get was sent; an acknowledged write is lost, or others write to these keys"
    )]
    Stale {
        /// Who.
        address: String,
        /// Of which key.
        key: String,
        /// The number of the write that had been acknowledged.
        acknowledged: u32,
        /// The number of the write that came.
        found: u32,
    },

    /// A key that was stored is gone.
    #[error(
        "{address} has lost key {key:?}, which was stored; give the server more memory, or allow misses with --cache if it may \
         evict"
    )]
    Missing {
        /// Who.
        address: String,
        /// Which key.
        key: String,
    },

    /// The server does not do what it must for anything to be measured.
    #[error("{address} refused to {doing}: {answer:?}; give it more memory, or smaller or fewer items")]
    Refused {
        /// Who.
        address: String,
        /// What it was asked.
        doing: &'static str,
        /// What it said.
        answer: String,
    },

    /// A program that should be started is not there.
    #[error("{program} is not on the PATH; install it, on Debian with: apt-get install {package}")]
    NotInstalled {
        /// Which program.
        program: &'static str,
        /// In which Debian package it is.
        package: &'static str,
    },

    /// A program was started and is of no use.
    #[error("{program} was started, but {what}; start it by hand and give its address with --address")]
    Spawn {
        /// Which program.
        program: &'static str,
        /// What is the matter.
        what: String,
    },
}

/// The first bytes of something, for a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    match bytes.len() > SHOWN {
        true => format!("{shown}... ({} bytes)", bytes.len()),
        false => shown,
    }
}
