//! The tests of `server`, over io_uring: all but those that the backend does not affect.

use warpkeep_server::Io;

const IO: Io = Io::Uring;

#[path = "../server/basics.rs"]
mod basics;
#[path = "../server/crowd.rs"]
mod crowd;
#[path = "../server/databases.rs"]
mod databases;
#[path = "../server/differential.rs"]
mod differential;
#[path = "../server/faults.rs"]
mod faults;
#[path = "../server/harness.rs"]
mod harness;
#[path = "../server/kill.rs"]
mod kill;
#[path = "../server/load.rs"]
mod load;
#[path = "../server/misbehaviour.rs"]
mod misbehaviour;
#[path = "../server/more_clients.rs"]
mod more_clients;
#[path = "../server/peers.rs"]
mod peers;
#[path = "../server/tls.rs"]
mod tls;
#[path = "../server/transactions.rs"]
mod transactions;
#[path = "../server/watch.rs"]
mod watch;
