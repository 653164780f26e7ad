//! The table against a plain map, under threads, through growth and collection, up against the wall.

mod adversary;
mod damage;
mod defects;
mod oracle;
mod rig;
mod threads;
