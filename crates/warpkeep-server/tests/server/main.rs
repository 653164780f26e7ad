//! The server through its sockets: protocols, order, limits, restarts; and beside the servers whose protocols it speaks.

use warpkeep_server::Io;

/// How servers wait for their clients here; `server_uring` has the same tests with the other.
const IO: Io = Io::Poll;

mod as_one;
mod basics;
mod crowd;
mod databases;
mod differential;
mod eviction;
mod faults;
mod flush;
mod full_disk;
mod harness;
mod kill;
mod load;
mod memory;
mod misbehaviour;
mod more_clients;
mod peers;
mod real_clients;
mod tls;
mod transactions;
mod watch;
