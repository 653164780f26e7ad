//! What only this index has, beside the suites that all indexes pass: shards built anew, collection, items that move on.

mod adversary;
mod checksums;
mod damage;
mod defects;
mod rig;
mod threads;
