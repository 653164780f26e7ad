//! Words of the index that the host stores, for batches that the device writes in parts; and tails of their records, where they lie in tiles.
//!
//! A word goes anywhere in the index, and over the link that costs as much as sixty bytes of a record, which go one after the other. So does
//! the tail of a record in a tile whose block was used before. The host's cores are nearer. So the device tells the host what goes where, in a
//! [list](super::list) beside the records; and while it writes the records of the next part, threads of the host store the tails
//! and words of this one.
//!
//! A word is stored when its record is whole. The device writes the value, and fences it before the launch ends that the host waits for.
//! Whoever takes a share of a part stores and fences all its tails before the first of its words.

use std::sync::{Arc, Mutex, PoisonError};

use warpkeep_device::Device;
use warpkeep_record::Pool;

use super::beside::Tools;
use crate::TableError;

/// Threads that store words, at the most, one of them the caller's. All of sixteen cores are about as fast as the link brings records, fewer are not.
const MOST_THREADS: usize = 16;
/// Cores that a machine has at least if its host is to store words: with fewer the device has done it sooner.
const LEAST_CORES: usize = 8;

/// Who stores the words of batches that are written in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordsBy {
    /// The device, over the link.
    Device,
    /// The host, with so many threads.
    Host(usize),
}

impl WordsBy {
    /// What suits this machine.
    pub fn usual() -> WordsBy {
        match std::thread::available_parallelism().map_or(1, usize::from) {
            cores if cores >= LEAST_CORES => WordsBy::Host(cores.min(MOST_THREADS)),
            _ => WordsBy::Device,
        }
    }
}

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

/// How words are stored.
pub(super) struct Words {
    settings: Mutex<Settings>,
    /// Kept from one batch to the next.
    tools: Mutex<Option<Tools>>,
}

struct Settings {
    by: WordsBy,
    /// Started with the first batch that needs it.
    pool: Option<Arc<Pool>>,
    observer: Option<Observer>,
}

/// Who stores the words of a batch.
#[derive(Clone)]
pub(super) struct Hands {
    pub(super) pool: Arc<Pool>,
    pub(super) observer: Option<Observer>,
}

impl Default for Words {
    fn default() -> Words {
        let settings = Settings { by: WordsBy::usual(), pool: None, observer: None };
        Words { settings: Mutex::new(settings), tools: Mutex::default() }
    }
}

impl Words {
    pub(super) fn store_by(&self, by: WordsBy, observer: Option<Observer>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Settings { by, pool: None, observer };
    }

    /// The host's hands, if it is the host that stores them.
    pub(super) fn hands(&self) -> Option<Hands> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let WordsBy::Host(threads) = settings.by else { return None };
        let pool = Arc::clone(settings.pool.get_or_insert_with(|| Arc::new(Pool::new(threads.max(1)))));
        Some(Hands { pool, observer: settings.observer.clone() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_leave_words_to_the_device() {
        match WordsBy::usual() {
            WordsBy::Device => assert!(std::thread::available_parallelism().unwrap().get() < LEAST_CORES),
            WordsBy::Host(threads) => assert!((LEAST_CORES..=MOST_THREADS).contains(&threads)),
        }
    }
}
