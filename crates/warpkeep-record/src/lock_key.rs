//! The keys that writers lock and sort by.

/// The key by which an index locks a key, and sorts the keys of a batch: see
/// [`Staging::lock_key`](crate::Staging::lock_key). Equal keys have equal lock keys; different keys may share one.
/// Locks are taken in the order of lock keys, so that two batches never deadlock.
///
/// A hash index uses the hash of a key, an ordered one would use its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey(u64);

impl LockKey {
    /// The lock key that an index makes of a key.
    #[inline]
    pub fn new(bits: u64) -> LockKey {
        LockKey(bits)
    }

    /// The index's bits for the key.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }
}
