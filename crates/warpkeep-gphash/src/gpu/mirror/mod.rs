//! The mirror: the record of every key of a table in device memory, so that the link carries values and nothing else.
//!
//! It is a hash table of its own, laid out for that memory: one look at 64 bytes finds a key, or that it is not there. Keys that are longer than
//! their hashes stand beside the entries, where there is memory for them: `kernels/keys.h`. It knows nothing
//! of slots, so a table that grows keeps it. What a device publishes reaches the image and the mirror, in an order that shows nobody
//! anything older than what he has seen; what the CPU writes is [recorded](super::change_feed::ChangeFeed) and told before the next kernel reads.
//! The image stays the truth: a mirror is made anew whenever a table is opened.

mod index;
mod load;
mod lookup;
mod reflect;
mod state;

pub(crate) use lookup::Lookup;
pub(crate) use state::{For, Mirror, Reflection};

use std::time::Duration;

/// What making a mirror came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorReport {
    /// Items that it has.
    pub items: u64,
    /// Device memory that it takes; 0 if there is no mirror, because it would not fit the device's budget.
    pub bytes: u64,
    /// How much of it keys take that are longer than their hashes; 0 if they are not kept there.
    pub key_bytes: u64,
    /// How long it took.
    pub took: Duration,
}
