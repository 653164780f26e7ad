//! Shared by the indexes: records of a key beside its value in the heap of an image, values as readers see them,
//! prefetching, walks over a whole table by all cores, and the interface of an index.
//!
//! An index decides where a record is found; the form of a record is the same for all of them.

mod checksum;
mod damage;
mod index;
mod inspection;
mod item;
mod lock_key;
mod parallel;
mod pool;
mod position;
pub mod prefetch;
mod record;
mod seat;
mod streaming;

pub use checksum::{Digest, checksum, checksum_of_words};
pub use damage::{Damage, DamagedItem};
pub use index::{Budget, Full, Kept, LockRequest, Lookup, Progress, Staged, Staging, Upkeep, keys_at_once};
pub use inspection::Inspection;
pub use item::{ItemRef, Value, ValueRef};
pub use lock_key::LockKey;
pub use parallel::in_parallel;
pub use pool::Pool;
pub use position::ScanPosition;
pub use record::{CHECKSUMS, RecordForm, RecordKey, RecordLines, RecordRef, Tiling};
pub use seat::{Located, Seat};
pub use streaming::Streaming;
