//! What the indexes share: records of a key beside its value in the heap of an image, values as readers see them, lines fetched ahead,
//! walks over a whole table by all cores, and what they offer to whoever uses their tables.
//!
//! An index decides where a record is found; what it looks like is the same for all of them.

mod checksum;
mod chooser;
mod damage;
mod index;
mod item;
mod parallel;
mod pool;
pub mod prefetch;
mod record;
mod retire;
mod streaming;

pub use checksum::{Digest, checksum, checksum_of_words};
pub use chooser::Chooser;
pub use damage::{Damage, DamagedItem};
pub use index::{Expected, Full, Kept, Lookup, Progress, Seated, Staged, Staging, Upkeep, keys_at_once};
pub use item::{ItemRef, Value, ValueRef};
pub use parallel::in_parallel;
pub use pool::Pool;
pub use record::{CHECKSUMS, RecordForm, RecordKey, RecordLines, RecordRef, Tiling};
pub use retire::{hasten_freeing, is_something_retired, retire, when_unseen};
pub use streaming::Streaming;
