//! Words of the index that the host stores, for batches that the device writes in parts; and tails of their records, where they lie in tiles.
//!
//! A word goes anywhere in the index, and over the link that costs as much as sixty bytes of a record, which go one after the other. So does
//! the tail of a record in a tile whose block was used before. The host's cores are nearer. So the device tells the host what goes where, in a
//! [list](super::list) beside the records; and while it writes the records of the next part, threads of the host store the tails
//! and words of this one.
//!
//! A word is stored when its record is whole. The device writes the value, and fences it before the launch ends that the host waits for.
//! Whoever takes a share of a part stores and fences all its tails before the first of its words.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpkeep_device::Device;
use warpkeep_record::{Chooser, Pool};

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
    /// Whichever is faster for batches of that size, as they come: the host, with so many threads, if its cores are free, and the device if they
    /// are slow or have something else to do.
    Faster(usize),
}

impl WordsBy {
    /// What suits this machine.
    pub fn usual() -> WordsBy {
        match std::thread::available_parallelism().map_or(1, usize::from) {
            cores if cores >= LEAST_CORES => WordsBy::Faster(cores.min(MOST_THREADS)),
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
    /// How long batches took, by their size.
    known: Mutex<[Chooser<{ WAYS }>; SIZES]>,
    /// Kept from one batch to the next.
    tools: Mutex<Option<Tools>>,
}

struct Settings {
    by: WordsBy,
    /// Started with the first batch that needs it.
    pool: Option<Arc<Pool>>,
    observer: Option<Observer>,
}

/// By the host, and by the device; and sizes that are told apart, each twice the one before.
const WAYS: usize = 2;
const BY_HOST: usize = 0;
const SIZES: usize = 32;

/// What was chosen for a batch.
#[derive(Debug)]
pub(super) struct Choice {
    size: usize,
    way: usize,
    count: u64,
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
        Words { settings: Mutex::new(settings), known: Mutex::default(), tools: Mutex::default() }
    }
}

impl Words {
    pub(super) fn store_by(&self, by: WordsBy, observer: Option<Observer>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Settings { by, pool: None, observer };
    }

    /// Who stores the words of a batch of so many operations: the host's hands, if it is the host; and what is to be [noted](Words::note) of it.
    pub(super) fn choose(&self, count: u64) -> (Option<Hands>, Option<Choice>) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let (threads, choice) = match settings.by {
            WordsBy::Device => return (None, None),
            WordsBy::Host(threads) => (threads, None),
            WordsBy::Faster(threads) => {
                let size = count.max(1).ilog2() as usize % SIZES;
                let way = self.known()[size].choose([true; WAYS]);
                (threads, Some(Choice { size, way, count }))
            }
        };
        if choice.as_ref().is_some_and(|choice| choice.way != BY_HOST) {
            return (None, choice);
        }
        let pool = Arc::clone(settings.pool.get_or_insert_with(|| Arc::new(Pool::new(threads.max(1)))));
        (Some(Hands { pool, observer: settings.observer.clone() }), choice)
    }

    /// A batch took so long.
    pub(super) fn note(&self, choice: &Choice, took: Duration) {
        self.known()[choice.size].note(choice.way, took.as_nanos() as f64 / choice.count.max(1) as f64);
    }

    fn known(&self) -> MutexGuard<'_, [Chooser<{ WAYS }>; SIZES]> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
            WordsBy::Faster(threads) => assert!((LEAST_CORES..=MOST_THREADS).contains(&threads)),
            other => panic!("{other:?}"),
        }
    }

    /// Who is faster, with batches of one size, and what is tried of the other.
    #[test]
    fn whoever_is_faster_stores_them() {
        let words = Words::default();
        words.store_by(WordsBy::Faster(1), None);
        let by_host = |count: u64, nanos: [u64; WAYS]| {
            let went = (0..200).filter(|_| {
                let (hands, choice) = words.choose(count);
                let choice = choice.expect("it is measured");
                assert_eq!(hands.is_some(), choice.way == BY_HOST);
                words.note(&choice, Duration::from_nanos(count * nanos[choice.way]));
                hands.is_some()
            });
            went.count()
        };
        assert!(by_host(1 << 20, [4, 6]) > 180);
        // The cores have something else to do from now on.
        assert!(by_host(1 << 20, [12, 6]) < 40);
        assert!(by_host(1 << 18, [4, 6]) > 180, "of other batches nothing was known");
        words.store_by(WordsBy::Host(1), None);
        assert!(matches!(words.choose(1 << 20), (Some(_), None)));
        words.store_by(WordsBy::Device, None);
        assert!(matches!(words.choose(1 << 20), (None, None)));
    }
}
