//! Properties of this index alone, beside the suites that all indexes pass: geometries, drained levels, displaced
//! items.

mod adversary;
mod cells;
mod checksums;
mod damage;
mod oracle;
mod rig;
mod threads;
mod tiles;
