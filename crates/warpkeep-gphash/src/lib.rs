//! GPHash: a level-based hash table in a Warpkeep image.
//!
//! Only the top level is addressed by hash; the buckets of each level below are shared by two of the one above. With
//! several hash locations a key has 32 slots it can be in, and no item ever moves except when the table grows, or to make
//! room for a key that has no other place. A slot is one word, a tag and a reference; the key lies beside its value in a
//! record.
//!
//! The table knows no log and no durability but that of the image. Whoever writes stages changes while their keys are
//! held ([`Table::stage`]), logs them if there is a log, and publishes them ([`Stage::publish`]).

mod bucket;
mod check;
mod defragment;
mod displace;
mod error;
mod find;
mod geometry;
pub mod gpu;
mod grow;
mod header;
mod inspect;
mod layout;
mod levels;
mod marking;
mod matching;
mod offered;
mod read;
mod slot;
mod stage;
mod stats;
mod table;

pub use error::TableError;
pub use geometry::{CANDIDATES, Geometry};
pub use grow::Seen;
pub use layout::Layout;
pub use stage::{Published, Seat, Stage};
pub use stats::{LevelStats, TableStats};
pub use table::{Table, TableSpec};
pub use warpkeep_record::{Inspection, Progress, ScanPosition, Value};
