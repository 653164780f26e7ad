//! Key locks: a worker that changes a key holds the key's stripe.

use parking_lot::{Mutex, MutexGuard};

/// Enough that batches of different workers seldom share one: a batch that waits for its `fdatasync` holds its
/// keys.
const STRIPES: usize = 1 << 16;

/// Locks for keys, many keys to a lock.
pub(crate) struct Stripes(Box<[Mutex<()>]>);

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// Holds the keys with these hashes. `numbers` is memory to work in.
    pub(crate) fn hold<'s>(
        &'s self,
        hashes: impl Iterator<Item = u64>,
        numbers: &mut Vec<u32>,
        held: &mut Vec<MutexGuard<'s, ()>>,
    ) {
        numbers.clear();
        numbers.extend(hashes.map(|hash| stripe_of(hash) as u32));
        // In one order for all, so that no two wait for each other.
        numbers.sort_unstable();
        numbers.dedup();
        held.extend(numbers.iter().map(|&number| self.0[number as usize].lock()));
    }

    /// Holds the key with this hash, if it is free.
    pub(crate) fn try_hold(&self, hash: u64) -> Option<MutexGuard<'_, ()>> {
        self.0[stripe_of(hash)].try_lock()
    }
}

fn stripe_of(hash: u64) -> usize {
    (hash >> 48) as usize % STRIPES
}
