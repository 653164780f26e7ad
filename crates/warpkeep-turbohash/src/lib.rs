//! TurboHash: a hash table of many small shards in a Warpkeep image, for the CPU.
//!
//! A key's hash determines its shard and its home bucket there. Buckets have 256 bytes and lie side by side; a key
//! is in the first bucket from its home on that had room for it, so a search continues only past full buckets, and
//! only past those whose filter indicates that a key with such a hash was put further on. One word of a bucket, its
//! commit word, determines which slots count: every change is written to a free slot and becomes visible with one
//! 8-byte store. Shards grow one by one, each rebuilt in new space.
//!
//! The table has no log and no durability but that of the image. A writer stages changes while their shards are
//! held ([`Table::stage`]), logs them if there is a log, and publishes them ([`Stage::publish`]).
//!
//! The number of shards is fixed when a table is created, by the requested capacity or by [`TableSpec::shards`].
//! There is no limit to its growth, but a table that outgrows its capacity a thousandfold has shards a thousand
//! times as large, and a shard's writers wait while it is rebuilt.
//!
//! | module | contents |
//! | --- | --- |
//! | `header`, `directory` | the immutable properties of a table, and the positions of its shards |
//! | `commit`, `bucket`, `matching` | the bytes of a bucket, and how its tags are compared |
//! | `shard`, `space`, `record`, `item` | a run of buckets; space for one; data that does not fit a slot; search results |
//! | `find`, `read`, `scan` | lock-free reads |
//! | `plan`, `stage` | writing |
//! | `displace` | room for a key by displacing others |
//! | `rebuild`, `grow`, `upkeep`, `measure` | rebuilding shards: when, how large, and the gain |
//! | `stats`, `inspect`, `defragment` | statistics and checks; moving records together |
//! | `offered` | the traits that all indexes share |

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
pub use shard::{PROBING_SCOPE, default_shards};
pub use stage::{Published, Seat, Stage};
pub use stats::{Distances, TableStats};
pub use table::{Table, TableSpec};
pub use warpkeep_record::{Inspection, Progress, ScanPosition, Value};
