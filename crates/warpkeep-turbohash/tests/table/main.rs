//! Features that only this index has, beside the suites that all indexes pass: rebuilt shards, collection,
//! displaced items.

mod adversary;
mod checksums;
mod damage;
mod defects;
mod rig;
mod threads;
