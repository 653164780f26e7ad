//! GPHash: a level-based hash table in a Warpkeep image.
//!
//! Only the top level is addressed by hash; the buckets of each level below are shared by two of the one above. With
//! several hash locations a key has 32 possible slots. An item moves only when the table grows or shrinks, or to free
//! its slot for a key that has no other. A slot is one word, a tag and a reference; the key lies beside its value in a
//! record.
//!
//! The table has no log, and no durability but that of the image. A writer stages changes while their keys are locked
//! ([`Table::stage`]), logs them if there is a log, and publishes them ([`Stage::publish`]).

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
