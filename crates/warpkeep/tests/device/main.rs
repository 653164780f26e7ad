//! Stores whose tables are worked by a device, here the simulator.

mod host_ways;
mod index;
mod logged;
mod logged_rig;
mod rows;
mod tables;
