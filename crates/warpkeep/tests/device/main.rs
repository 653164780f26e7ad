//! Stores whose tables run on a device, here the simulator.

mod cuckoo;
mod host_gets;
#[path = "../common/in_log.rs"]
mod in_log;
mod index;
mod logged;
mod logged_rig;
mod power;
mod rows;
mod tables;
