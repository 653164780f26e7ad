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
use std::time::Duration;

use warpkeep_core::Op;
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
    known: Mutex<[Chooser<{ WAYS }>; CLASSES]>,
    /// Parts of batches whose values the host has stored, too.
    pub(super) with_values: AtomicU64,
    /// Kept from one batch to the next.
    tools: Mutex<Option<Tools>>,
}

struct Settings {
    by: WordsBy,
    /// Started with the first batch that needs it.
    pool: Option<Arc<Pool>>,
    observer: Option<Observer>,
}

impl Settings {
    /// So many hands.
    fn hands(&mut self, threads: usize) -> Hands {
        let pool = Arc::clone(self.pool.get_or_insert_with(|| Arc::new(Pool::new(threads.max(1)))));
        Hands { pool, observer: self.observer.clone() }
    }
}

/// By the host, and by the device; and sizes that are told apart, each twice the one before.
const WAYS: usize = 2;
const BY_HOST: usize = 0;
const SIZES: usize = 32;
const CLASSES: usize = 4 * SIZES;
/// Nanoseconds an operation that are more than any batch takes.
const NEVER: f64 = 1e9;

/// What was chosen for a batch.
#[derive(Debug)]
pub(super) struct Choice {
    class: usize,
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
        Words {
            settings: Mutex::new(settings),
            known: Mutex::new([Chooser::default(); CLASSES]),
            with_values: AtomicU64::new(0),
            tools: Mutex::default(),
        }
    }
}

impl Words {
    pub(super) fn store_by(&self, by: WordsBy, observer: Option<Observer>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Settings { by, pool: None, observer };
    }

    /// Who stores the words of a batch of so many operations: the host's hands, if it is the host; and what is to be [noted](Words::note) of it.
    /// Deletes write no records, and of what is logged first less is measured: those are told apart.
    pub(super) fn choose(&self, count: u64, (op, logged): (Op, bool)) -> (Option<Hands>, Option<Choice>) {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let (threads, choice) = match settings.by {
            WordsBy::Device => return (None, None),
            WordsBy::Host(threads) => (threads, None),
            WordsBy::Faster(threads) => {
                let size = count.max(1).ilog2() as usize % SIZES;
                let class = size + SIZES * (usize::from(op == Op::Delete) + 2 * usize::from(logged));
                let way = self.known()[class].choose([true; WAYS]);
                (threads, Some(Choice { class, way, count }))
            }
        };
        if choice.as_ref().is_some_and(|choice| choice.way != BY_HOST) {
            return (None, choice);
        }
        (Some(settings.hands(threads)), choice)
    }

    /// The host's hands, whatever was measured; `None` if it is not to store words.
    pub(super) fn hands(&self) -> Option<Hands> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match settings.by {
            WordsBy::Device => None,
            WordsBy::Host(threads) | WordsBy::Faster(threads) => Some(settings.hands(threads)),
        }
    }

    /// A batch took so long, in which so many operations acted.
    pub(super) fn note(&self, choice: &Choice, acts: u64, took: Duration) {
        // Of one in which hardly anything happens the time says little of others.
        if acts >= choice.count / 8 {
            let nanos = took.as_nanos() as f64 / choice.count.max(1) as f64;
            self.known()[choice.class].note(choice.way, nanos);
        }
    }

    /// There was not enough memory to go that way: it is not to be tried again soon.
    pub(super) fn gave_up(&self, choice: &Choice) {
        self.known()[choice.class].note(choice.way, NEVER);
    }

    fn known(&self) -> MutexGuard<'_, [Chooser<{ WAYS }>; CLASSES]> {
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
                let (hands, choice) = words.choose(count, (Op::Put, false));
                let choice = choice.expect("it is measured");
                assert_eq!(hands.is_some(), choice.way == BY_HOST);
                words.note(&choice, count, Duration::from_nanos(count * nanos[choice.way]));
                hands.is_some()
            });
            went.count()
        };
        assert!(by_host(1 << 20, [4, 6]) > 180);
        // The cores have something else to do from now on.
        assert!(by_host(1 << 20, [12, 6]) < 40);
        assert!(by_host(1 << 18, [4, 6]) > 180, "of other batches nothing was known");
        assert!(words.hands().is_some(), "whoever has values to store is not asked what is faster");
        words.store_by(WordsBy::Host(1), None);
        assert!(
            matches!(words.choose(1 << 20, (Op::Put, false)), (Some(_), None)) && words.hands().is_some()
        );
        words.store_by(WordsBy::Device, None);
        assert!(matches!(words.choose(1 << 20, (Op::Put, false)), (None, None)) && words.hands().is_none());
    }

    /// Whoever finds no memory one way goes the other, and is not sent back with every batch.
    #[test]
    fn a_way_without_memory_is_left() {
        let words = Words::default();
        words.store_by(WordsBy::Faster(1), None);
        let gave_up = (0..200).filter(|_| {
            let (hands, choice) = words.choose(1 << 20, (Op::Delete, true));
            let choice = choice.expect("it is measured");
            match hands {
                Some(_) => words.note(&choice, 1 << 20, Duration::from_millis(4)),
                None => words.gave_up(&choice),
            }
            hands.is_none()
        });
        assert_eq!(gave_up.count(), 3);
    }

    /// What little happens in says nothing.
    #[test]
    fn batches_that_do_nothing_are_not_measured() {
        let words = Words::default();
        words.store_by(WordsBy::Faster(1), None);
        for _ in 0..50 {
            let (_, choice) = words.choose(1 << 20, (Op::Update, false));
            words.note(&choice.expect("it is measured"), 10, Duration::from_nanos(1));
        }
        assert!(words.known().iter().all(|known| known.chosen().is_none()));
    }
}
