//! TurboHash: a hash table of many small shards in a Warpkeep image, for the CPU.
//!
//! A key's hash names its shard and its home bucket there. Buckets have 256 bytes and lie side by side; a key is in the
//! first bucket from its home on that had room for it, so a search walks on only past full buckets, and only past those
//! whose filter says that something like the key was put further on. One word of a bucket, its commit word, says which slots count: every change is written beside what
//! counts and becomes visible with one 8-byte store. Shards grow one by one, each built anew aside.
//!
//! The table knows no log and no durability but that of the image. Whoever writes stages changes while their shards are
//! held ([`Table::stage`]), logs them if there is a log, and publishes them ([`Stage::publish`]).
//!
//! How many shards a table has is settled when it is created, by the capacity asked for or by
//! [`TableSpec::shards`]. There is no limit to how far it grows, but a table that outgrows its capacity a thousandfold
//! has shards a thousand times as large, and a shard's writers wait while it is built anew.
//!
//! | module | what it is about |
//! | --- | --- |
//! | `header`, `directory` | what a table is, and where its shards lie |
//! | `commit`, `bucket`, `matching` | the bytes of a bucket, and how its tags are compared |
//! | `shard`, `space`, `record`, `item` | a run of buckets; room for one; what does not fit a slot; what is found |
//! | `find`, `read`, `scan` | looking, without locks |
//! | `plan`, `stage` | writing |
//! | `displace` | room for a key among others that can move on |
//! | `rebuild`, `grow`, `upkeep`, `measure` | shards built anew: when, how large, and what it gains |
//! | `stats`, `inspect`, `defragment` | a look from outside; records moved together |
//! | `offered` | what all indexes offer |

mod bucket;
mod check;
mod commit;
mod defragment;
mod directory;
mod displace;
mod error;
mod find;
mod grow;
mod header;
mod inspect;
mod matching;
mod measure;
mod offered;
mod plan;
mod read;
mod rebuild;
mod salvage;
mod scan;
mod shard;
mod space;
mod stage;
mod stats;
mod table;
#[cfg(test)]
mod testing;
mod upkeep;

pub use error::TableError;
pub use grow::Seen;
pub use inspect::Inspection;
pub use scan::ScanPosition;
pub use shard::{PROBING_SCOPE, default_shards};
pub use stage::{Published, Seat, Stage};
pub use stats::{Distances, TableStats};
pub use table::{Table, TableSpec};
pub use warpkeep_record::{Progress, Value, hasten_freeing};
