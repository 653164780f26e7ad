//! The change feed: what the CPU writes to a table whose index a device has in its memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::gpu::params::Told;

/// Words beyond this are not kept one by one: then the copies of all levels are made anew.
const MOST_WORDS: usize = 1 << 16;
/// Items beyond this are not kept one by one: then the device index is made anew.
const MOST_ITEMS: usize = 1 << 20;

/// Between a table and the engine that has its index in device memory. The CPU records here what it changes, and the engine applies it before
/// the next kernel reads.
#[derive(Debug, Default)]
pub(crate) struct ChangeFeed {
    /// Whether an engine reads it.
    subscribed: AtomicBool,
    /// How often the levels have changed.
    generation: AtomicU64,
    pending: Mutex<Pending>,
}

/// Changes that the engine has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    subscribed: bool,
    /// The record of each key that was written, or 0, in the order of the writes.
    items: Vec<Told>,
    too_many_items: bool,
    /// Offsets of words of slots that were written.
    words: Vec<u64>,
    too_many_words: bool,
}

impl ChangeFeed {
    /// To be held by the CPU from before it stores words until they are in the image; `None` if no engine reads the feed.
    pub(crate) fn record(&self) -> Option<MutexGuard<'_, Pending>> {
        self.subscribed.load(Ordering::Acquire).then(|| self.pending())
    }

    pub(in crate::gpu) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The levels are about to change: copies of their buckets are of no use from now on.
    pub(crate) fn levels_change(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::gpu) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Begins or ends to record changes. Nobody writes meanwhile.
    pub(in crate::gpu) fn subscribe(&self, subscribed: bool) {
        // Words that were written before are not known.
        *self.pending() = Pending { subscribed, too_many_words: true, ..Pending::default() };
        self.subscribed.store(subscribed, Ordering::Release);
    }
}

impl Pending {
    /// A word of a slot changes: its state, or what commits its item.
    pub(crate) fn word(&mut self, offset: u64) {
        if self.words.len() >= MOST_WORDS {
            (self.words, self.too_many_words) = (Vec::new(), true);
        }
        if self.subscribed && !self.too_many_words {
            self.words.push(offset);
        }
    }

    /// A key has another record, or none.
    pub(crate) fn item(&mut self, hash: u64, record: Option<u64>) {
        if self.items.len() >= MOST_ITEMS {
            (self.items, self.too_many_items) = (Vec::new(), true);
        }
        if self.subscribed && !self.too_many_items {
            self.items.push(Told { hash, record: record.unwrap_or_default() });
        }
    }

    /// The last change of each key since this was last called; `None` if there were too many.
    pub(in crate::gpu) fn take_items(&mut self) -> Option<Vec<Told>> {
        if self.too_many_items {
            return None;
        }
        let mut items = std::mem::take(&mut self.items);
        // Stable, so that the last change of a hash stays the last.
        items.sort_by_key(|item| item.hash);
        let mut last: Vec<Told> = Vec::with_capacity(items.len());
        for item in items {
            match last.last_mut() {
                Some(before) if before.hash == item.hash => *before = item,
                _ => last.push(item),
            }
        }
        Some(last)
    }

    /// Words that have changed since this was last called; `None` if there were too many.
    pub(in crate::gpu) fn take_words(&mut self) -> Option<Vec<u64>> {
        let words = std::mem::take(&mut self.words);
        (!std::mem::take(&mut self.too_many_words)).then_some(words)
    }

    /// Puts items back that could not be applied.
    pub(in crate::gpu) fn put_back(&mut self, items: Vec<Told>) {
        let since = std::mem::replace(&mut self.items, items);
        self.items.extend(since);
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
        assert_eq!(feed.pending().take_words(), None, "of what was written before nothing is known");
        feed.record().unwrap().word(8);
        assert_eq!(feed.pending().take_words(), Some(vec![8]));
        for offset in 0..2 * MOST_WORDS as u64 {
            feed.record().unwrap().word(offset);
        }
        assert!(feed.pending().words.is_empty(), "they take no space then");
        assert_eq!(feed.pending().take_words(), None);
        assert_eq!(feed.pending().take_words(), Some(Vec::new()));
        feed.subscribe(false);
        assert!(feed.record().is_none());
    }

    #[test]
    fn of_a_key_the_last_change_counts() {
        let feed = ChangeFeed::default();
        feed.subscribe(true);
        let mut pending = feed.record().unwrap();
        for (hash, record) in [(7, Some(80)), (5, Some(16)), (7, None), (5, Some(24))] {
            pending.item(hash, record);
        }
        let items = pending.take_items().unwrap();
        assert_eq!(items, [Told { hash: 5, record: 24 }, Told { hash: 7, record: 0 }]);
        pending.put_back(items);
        pending.item(5, None);
        assert_eq!(pending.take_items().unwrap()[0], Told { hash: 5, record: 0 });
        for hash in 0..2 * MOST_ITEMS as u64 {
            pending.item(hash, None);
        }
        assert_eq!(pending.take_items(), None);
    }
}
