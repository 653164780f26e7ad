//! The table against a plain map, under threads, through growth, up against the wall.

mod adversary;
mod oracle;
mod rig;
mod threads;
