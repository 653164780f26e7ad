//! The server through its sockets: protocols, order, limits, restarts; and beside the servers whose protocols it speaks.

mod basics;
mod differential;
mod eviction;
mod faults;
mod harness;
mod kill;
mod peers;
mod real_clients;
mod watch;
