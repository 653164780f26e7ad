//! The server of Warpkeep: a persistent store for memcached and Redis clients.
//!
//! One port takes memcached's text protocol, with its meta commands, and RESP2 and RESP3; the first byte of a connection
//! distinguishes them. Each thread drains its sockets, parses whole pipelines into one batch, has the store execute
//! it, and answers in order with one write a connection. See [`Server`].

mod backups;
mod batch;
mod buffers;
mod command;
mod commits;
mod connection;
mod counters;
mod databases;
mod device_report;
mod entries;
mod error;
mod eviction;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod housekeeping;
mod http;
mod item;
mod keyspace;
mod lifetime;
mod live;
mod memcached;
mod memory_server;
mod misbehaviour;
mod outcome;
#[cfg(test)]
mod parse_tests;
mod pattern;
mod reads;
mod report;
mod resp;
mod scans;
mod server;
mod server_commands;
mod session;
mod settings;
mod sockets;
mod span;
mod stats;
mod stripes;
mod text;
mod tls;
mod touches;
mod traces;
mod transaction;
mod wire;
mod worker;
mod writes;

pub use error::ServerError;
pub use eviction::Eviction;
pub use live::Control;
pub use memory_server::{MemoryServer, MemoryWorker};
pub use server::Server;
pub use settings::{Access, Settings, chunk_size};
pub use sockets::Io;
pub use tls::TlsFiles;
