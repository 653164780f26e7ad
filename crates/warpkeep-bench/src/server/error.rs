//! Errors of a server under load.

use std::io;

use crate::BenchError;

/// Why a run against a server gave no result. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Not of the server.
    #[error(transparent)]
    Bench(#[from] BenchError),

    /// No server answers there.
    #[error("cannot connect to {address}: {source}; start the server, or give its address with --address")]
    Connect {
        /// Where.
        address: String,
        /// The system's error.
        source: io::Error,
    },

    /// A connection failed.
    #[error("cannot {doing} {address}: {source}; look at the server's log")]
    Io {
        /// Where.
        address: String,
        /// The failed action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// The server hung up.
    #[error("{address} closed a connection with {outstanding} requests unanswered; look at the server's log")]
    Closed {
        /// The server.
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
        /// The server.
        address: String,
        /// For how long.
        seconds: u64,
        /// Requests that had no answer.
        outstanding: usize,
    },

    /// The answer is invalid in this protocol.
    #[error("{address} answered with what is not {protocol}: {what}: {bytes:?}; check --protocol")]
    Malformed {
        /// The server.
        address: String,
        /// The protocol.
        protocol: &'static str,
        /// The fault.
        what: &'static str,
        /// Its first bytes.
        bytes: String,
    },

    /// A valid answer, but not to the request.
    #[error(
        "{address} answered out of order: {wanted} was asked, and {got} came; this is a bug of the server"
    )]
    OutOfOrder {
        /// The server.
        address: String,
        /// The request.
        wanted: String,
        /// The answer.
        got: String,
    },

    /// A value that was never written to that key.
    #[error(
        "{address} gave a wrong value for key {key:?}: {found} instead of {expected}; either others write to these keys, or the \
         server is wrong"
    )]
    WrongValue {
        /// The server.
        address: String,
        /// Of which key.
        key: String,
        /// The written value.
        expected: String,
        /// The returned value.
        found: String,
    },

    /// A value that had been replaced before it was requested.
    #[error(
        "{address} gave an old value for key {key:?}: write {found}, although write {acknowledged} was acknowledged before the \
         get was sent; an acknowledged write is lost, or others write to these keys"
    )]
    Stale {
        /// The server.
        address: String,
        /// Of which key.
        key: String,
        /// The number of the write that had been acknowledged.
        acknowledged: u32,
        /// The number of the returned write.
        found: u32,
    },

    /// A key that was stored is gone.
    #[error(
        "{address} has lost key {key:?}, which was stored; give the server more memory, or allow misses with --cache if it may \
         evict"
    )]
    Missing {
        /// The server.
        address: String,
        /// Which key.
        key: String,
    },

    /// The server does not support an operation that the measurement needs.
    #[error("{address} refused to {doing}: {answer:?}; give it more memory, or smaller or fewer items")]
    Refused {
        /// The server.
        address: String,
        /// The request.
        doing: &'static str,
        /// Its answer.
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
        /// The problem.
        what: String,
    },
}

/// The first bytes of an answer, for a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii().to_string();
    match bytes.len() > SHOWN {
        true => format!("{shown}... ({} bytes)", bytes.len()),
        false => shown,
    }
}
