//! The change feed: changes that the CPU makes to a table with a device index.
//!
//! The device index and the copies of the levels in device memory must not miss a write of the CPU. The CPU records
//! each change here, and the engine applies it before the next kernel reads. The CPU holds the feed from before it
//! stores a word until the word is in the image, so that no reader sees a change in the image that is neither in the
//! feed nor applied.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::gpu::params::IndexChange;

/// With more words than this the feed drops them all, and the copies of all levels are made again.
const MOST_WORDS: usize = 1 << 16;
/// With more items than this the feed drops them all, and the device index is built again.
const MOST_ITEMS: usize = 1 << 20;

/// Changes of the CPU for the engine that has the table's index in device memory.
#[derive(Debug, Default)]
pub(crate) struct ChangeFeed {
    /// Whether an engine reads the feed.
    subscribed: AtomicBool,
    /// Incremented before the levels change.
    generation: AtomicU64,
    pending: Mutex<Pending>,
}

/// Changes that the engine has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    subscribed: bool,
    /// The record of each key that was written, or 0, in the order of the writes.
    items: Vec<IndexChange>,
    too_many_items: bool,
    /// Offsets of slot words that were written.
    words: Vec<u64>,
    too_many_words: bool,
}

impl ChangeFeed {
    /// For the CPU, to be held from before it stores words until they are in the image; `None` if no engine reads the
    /// feed.
    pub(crate) fn record(&self) -> Option<MutexGuard<'_, Pending>> {
        self.subscribed.load(Ordering::Acquire).then(|| self.pending())
    }

    pub(in crate::gpu) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels are about to change: copies of their buckets are invalid from now on.
    pub(crate) fn levels_change(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::gpu) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Starts or stops recording. The caller holds the write lock.
    pub(in crate::gpu) fn subscribe(&self, subscribed: bool) {
        // Words that were written before are unknown.
        *self.pending() = Pending { subscribed, too_many_words: true, ..Pending::default() };
        self.subscribed.store(subscribed, Ordering::Release);
    }
}

impl Pending {
    /// Records a slot word that changes: the state, or the word that publishes the item.
    pub(crate) fn word(&mut self, offset: u64) {
        if self.words.len() >= MOST_WORDS {
            (self.words, self.too_many_words) = (Vec::new(), true);
        }
        if self.subscribed && !self.too_many_words {
            self.words.push(offset);
        }
    }

    /// Records that a key has another record, or none.
    pub(crate) fn item(&mut self, hash: u64, record: Option<u64>) {
        if self.items.len() >= MOST_ITEMS {
            (self.items, self.too_many_items) = (Vec::new(), true);
        }
        if self.subscribed && !self.too_many_items {
            self.items.push(IndexChange { hash, record: record.unwrap_or_default() });
        }
    }

    /// Takes the last change of each hash; `None` if there were too many.
    pub(in crate::gpu) fn take_items(&mut self) -> Option<Vec<IndexChange>> {
        if self.too_many_items {
            return None;
        }
        let mut items = std::mem::take(&mut self.items);
        // Stable, so that the last change of a hash stays the last.
        items.sort_by_key(|item| item.hash);
        let mut last: Vec<IndexChange> = Vec::with_capacity(items.len());
        for item in items {
            match last.last_mut() {
                Some(previous) if previous.hash == item.hash => *previous = item,
                _ => last.push(item),
            }
        }
        Some(last)
    }

    /// Drops the items, for an index that is about to be built from the image.
    pub(in crate::gpu) fn forget_items(&mut self) {
        (self.items, self.too_many_items) = (Vec::new(), false);
    }

    /// Takes the words that have changed; `None` if there were too many.
    pub(in crate::gpu) fn take_words(&mut self) -> Option<Vec<u64>> {
        let words = std::mem::take(&mut self.words);
        (!std::mem::take(&mut self.too_many_words)).then_some(words)
    }

    /// Puts items back that could not be applied.
    pub(in crate::gpu) fn put_back(&mut self, items: Vec<IndexChange>) {
        let later = std::mem::replace(&mut self.items, items);
        self.items.extend(later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_recorded_for_subscribers_up_to_a_limit() {
        let feed = ChangeFeed::default();
        assert!(feed.record().is_none());
        feed.subscribe(true);
        assert_eq!(feed.pending().take_words(), None, "words written before the subscription are unknown");
        feed.record().unwrap().word(8);
        assert_eq!(feed.pending().take_words(), Some(vec![8]));
        for offset in 0..2 * MOST_WORDS as u64 {
            feed.record().unwrap().word(offset);
        }
        assert!(feed.pending().words.is_empty(), "dropped words take no memory");
        assert_eq!(feed.pending().take_words(), None);
        assert_eq!(feed.pending().take_words(), Some(Vec::new()));
        feed.subscribe(false);
        assert!(feed.record().is_none());
    }

    #[test]
    fn last_change_of_a_key_wins() {
        let feed = ChangeFeed::default();
        feed.subscribe(true);
        let mut pending = feed.record().unwrap();
        for (hash, record) in [(7, Some(80)), (5, Some(16)), (7, None), (5, Some(24))] {
            pending.item(hash, record);
        }
        let items = pending.take_items().unwrap();
        assert_eq!(items, [IndexChange { hash: 5, record: 24 }, IndexChange { hash: 7, record: 0 }]);
        pending.put_back(items);
        pending.item(5, None);
        assert_eq!(pending.take_items().unwrap()[0], IndexChange { hash: 5, record: 0 });
        for hash in 0..2 * MOST_ITEMS as u64 {
            pending.item(hash, None);
        }
        assert_eq!(pending.take_items(), None);
    }
}
