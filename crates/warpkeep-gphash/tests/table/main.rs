//! What only this index has, beside the suites that all indexes pass: geometries, levels that are drained, items that move on.

mod adversary;
mod cells;
mod checksums;
mod damage;
mod oracle;
mod rig;
mod threads;
mod tiles;
