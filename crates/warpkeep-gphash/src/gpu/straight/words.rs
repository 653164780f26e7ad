//! Words of the index that the host stores, for batches that the device writes in parts; and tails of their records, where they lie in tiles.
//!
//! A word goes anywhere in the index, and over the link that costs as much as sixty bytes of a record, which go one after the other. So does
//! the tail of a record in a tile whose block was used before. The host's cores are nearer. So the device tells the host what goes where, in a
//! [list](super::list) beside the records; and while it writes the records of the next part, threads of the host store the tails
//! and words of this one.
//!
//! A word is stored when its record is whole. The device writes the value, and fences it before it says that the part is sent, which the host waits for.
//! Whoever takes a share of a part stores and fences all its tails before the first of its words.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_device::Device;
use warpkeep_record::Pool;

use super::beside::Tools;
use crate::TableError;
use crate::gpu::PublishBy;

/// What a thread of the host is about to do to the image.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// To store a word of the index, or of a record's tail: where, and what.
    Store(u64, u64),
    /// To fence what it has stored.
    Fence,
}

/// Told of each before it is done.
pub(super) type Observer = Arc<dyn Fn(HostStep) + Send + Sync>;

/// Threads of the host that store words, and what they need.
#[derive(Default)]
pub(super) struct Words {
    threads: Mutex<Threads>,
    /// Parts of batches whose values the host has stored, too.
    pub(super) with_values: AtomicU64,
    /// Kept from one batch to the next.
    tools: Mutex<Option<Tools>>,
}

#[derive(Default)]
struct Threads {
    /// Started with the first batch that needs them.
    pool: Option<(usize, Arc<Pool>)>,
    observer: Option<Observer>,
}

/// Who stores the words of a batch.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) pool: Arc<Pool>,
    pub(super) observer: Option<Observer>,
}

impl Words {
    pub(super) fn observe(&self, observer: Observer) {
        self.threads().observer = Some(observer);
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host's threads; `None` if the device publishes.
    pub(super) fn hands(&self, by: PublishBy) -> Option<Hands> {
        let PublishBy::Host(count) = by else { return None };
        let mut threads = self.threads();
        let pool = match threads.pool.take().filter(|(started, _)| *started == count) {
            Some((_, pool)) => pool,
            None => Arc::new(Pool::new(count.max(1))),
        };
        threads.pool = Some((count, Arc::clone(&pool)));
        Some(Hands { pool, observer: threads.observer.clone() })
    }

    /// What a batch needs whose words the host stores.
    pub(super) fn take_tools(&self, device: &Device) -> Result<Tools, TableError> {
        let kept = self.tools.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| Tools::new(device), Ok)
    }

    /// Gives it back.
    pub(super) fn keep_tools(&self, tools: Tools) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Some(tools);
    }
}
