//! A store's automatic care of its log: a checkpoint when the log has outgrown the items or filled its disk, and
//! space set aside for that checkpoint.

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::Persist;

use crate::tables::NamedTable;
use crate::{Error, Keeper, Result, Tables};

/// When a store takes checkpoints by itself. They are made in the background, one at a time, while writers
/// continue; a failed one is tried again after a pause, and [`Store::status`](crate::Store::status) reports the
/// reason.
///
/// ```
/// use warpkeep::{CheckpointOptions, Store, StoreOptions};
/// # let directory = tempfile::tempdir().unwrap();
/// // A log of at most about 16 MiB, or twice the items' bytes if that is more.
/// let checkpoints = CheckpointOptions { min_log_bytes: 16 << 20, live_share: 2.0, ..CheckpointOptions::default() };
/// let store = Store::open_with(directory.path(), StoreOptions { checkpoints, ..StoreOptions::default() })?;
/// # store.close()?;
/// # Ok::<(), warpkeep::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointOptions {
    /// Whether the store takes checkpoints by itself. Without it the log grows until
    /// [`Store::checkpoint`](crate::Store::checkpoint) is called.
    pub automatic: bool,
    /// A log that is shorter than this since the last checkpoint is left as it is.
    pub min_log_bytes: u64,
    /// So is one that is shorter than this share of the bytes that a checkpoint would take: 1.0 lets the log grow to
    /// the size of the items. A larger share costs disk space and a longer rebuild; a smaller one costs writers more,
    /// because all items are written that often. With the usual 4.0 a byte of log costs a quarter of a byte of checkpoint.
    pub live_share: f64,
    /// Whether disk space is set aside in the log directory for the next checkpoint, about as much as the items
    /// take. With it a store recovers from a full disk: the checkpoint, after which the log can be trimmed, has
    /// room, and so has an opening.
    pub reserve: bool,
}

impl Default for CheckpointOptions {
    fn default() -> CheckpointOptions {
        CheckpointOptions { automatic: true, min_log_bytes: 64 << 20, live_share: 4.0, reserve: true }
    }
}

impl CheckpointOptions {
    /// Only requested checkpoints, and no reserve.
    pub const OFF: CheckpointOptions =
        CheckpointOptions { automatic: false, min_log_bytes: u64::MAX, live_share: f64::MAX, reserve: false };

    pub(crate) fn check(&self) -> Result<()> {
        match self.live_share >= 0.0 {
            true => Ok(()),
            false => Err(Error::Invalid(format!(
                "live_share = {}: must be a number from 0 on; 4.0 is usual",
                self.live_share
            ))),
        }
    }
}

/// Bytes of a change in a checkpoint besides its key and value.
const CHANGE_HEADER: u64 = 24;
/// Bytes of a checkpoint that are not changes: its ends, and headers and padding of its blocks.
const ENDS: u64 = 64 << 10;
const BLOCKS: u64 = 256;

impl<P: Persist> Keeper<P, Tables<P>> {
    /// The most bytes that a checkpoint would take.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let (mut bytes, mut of_any_length) = (0_u64, false);
        for table in self.items().list() {
            let items = table.table.len();
            let of_one_length = item_bytes(&table);
            of_any_length |= of_one_length.is_none() && items > 0;
            // Parts of variable length are counted below, where their lengths are rounded up by less than 8.
            let each = CHANGE_HEADER + of_one_length.map_or(7, |bytes| bytes.next_multiple_of(8));
            bytes = bytes.saturating_add(items.saturating_mul(each));
        }
        if of_any_length {
            bytes = bytes.saturating_add(self.heap().usage().used_bytes());
        }
        bytes.saturating_add(bytes / BLOCKS).saturating_add(ENDS)
    }

    /// Whether the log has outgrown the items, or its disk.
    pub(crate) fn wants_checkpoint(&self, options: &CheckpointOptions) -> bool {
        let Some(log) = self.log().filter(|_| options.automatic) else { return false };
        let since = log.since_checkpoint();
        let is_long = since > options.min_log_bytes
            && since as f64 > options.live_share * self.checkpoint_bytes() as f64;
        is_long || log.no_segment().is_some() && log.is_trimmable()
    }

    /// Sets space aside for the next checkpoint.
    pub(crate) fn keep_reserve(&self, options: &CheckpointOptions) {
        if let Some(log) = self.log().filter(|_| options.reserve) {
            // The status reports the missing bytes, and the next call tries again.
            let _ = log.keep_reserve(self.checkpoint_bytes());
        }
    }
}

/// Bytes of key and value of each item, if they are always the same.
fn item_bytes<P: Persist>(table: &NamedTable<P>) -> Option<u64> {
    let key = match table.spec.key {
        KeySpec::U64 => 8,
        KeySpec::Fixed { len, .. } => u64::from(len),
        KeySpec::Variable { .. } => return None,
    };
    match table.spec.value {
        ValueSpec::Fixed { len, .. } => Some(key + u64::from(len)),
        ValueSpec::Variable { .. } => None,
    }
}
