//! Words of the index that the host stores, for batches that the device writes in parts.
//!
//! A word goes anywhere in the index, and over the link that costs as much as sixty bytes of a record, which go one after the other. The
//! host's cores are nearer. So the device tells the host where words go and what they are, beside the records; and while it
//! writes the records of the next part, threads of the host store the words of this one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpkeep_device::{Device, Event};
use warpkeep_image::{Image, Persist};
use warpkeep_record::{Pool, prefetch};

use super::params::MOST_PARTS;
use crate::TableError;

/// Threads that store words, at the most: that many are several times as fast as the link brings records.
const MOST_THREADS: usize = 8;
/// Cores that a machine has at least if its host is to store words: with fewer the device has done it sooner.
const LEAST_CORES: usize = 8;
/// Words that a thread stores at a time.
const SHARE: u64 = 2048;
/// Words ahead of the one that is stored: their lines are on their way meanwhile.
const AHEAD: usize = 24;
/// Looks at what others do before a thread lets others run.
const LOOKS: u32 = 1 << 12;

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
            cores if cores >= LEAST_CORES => WordsBy::Host((cores / 2).min(MOST_THREADS)),
            _ => WordsBy::Device,
        }
    }
}

/// Told of each word before it is stored: where it goes, and what it is.
pub(super) type Observer = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// How words are stored.
pub(super) struct Words {
    settings: Mutex<Settings>,
    /// Events of parts, kept from one batch to the next.
    events: Mutex<Vec<Event>>,
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
    pool: Arc<Pool>,
    observer: Option<Observer>,
}

impl Default for Words {
    fn default() -> Words {
        let settings = Settings { by: WordsBy::usual(), pool: None, observer: None };
        Words { settings: Mutex::new(settings), events: Mutex::default() }
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

    /// Events for so many parts.
    pub(super) fn take_events(&self, device: &Device, count: usize) -> Result<Vec<Event>, TableError> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        while events.len() < count {
            events.push(device.event()?);
        }
        Ok(events)
    }

    /// Gives them back.
    pub(super) fn keep_events(&self, events: Vec<Event>) {
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }
}

/// The words of a batch, as the device tells them part by part, and how far they are stored.
pub(super) struct Told<'w, P: Persist> {
    image: &'w Image<P>,
    /// As `StraightParams::words` in `kernels/straight.h`, two words each.
    told: &'w [AtomicU64],
    hands: Hands,
    parts: usize,
    /// Parts that the device has told.
    ready: AtomicUsize,
    /// Nothing more comes.
    over: AtomicBool,
    progress: [Progress; MOST_PARTS],
}

/// Shares of a part that were taken, and that are stored.
#[derive(Default)]
struct Progress {
    taken: AtomicU64,
    stored: AtomicU64,
}

impl<'w, P: Persist> Told<'w, P> {
    pub(super) fn new(image: &'w Image<P>, told: &'w [AtomicU64], hands: Hands, parts: usize) -> Told<'w, P> {
        let progress = std::array::from_fn(|_| Progress::default());
        Told { image, told, hands, parts, ready: AtomicUsize::new(0), over: AtomicBool::new(false), progress }
    }

    /// Does something that makes parts [ready](Told::store_part), with threads that store their words beside it.
    pub(super) fn beside<R>(&self, lead: impl FnOnce() -> R) -> R {
        /// Whatever comes of it, those who wait for more are not to wait for ever.
        struct Over<'o>(&'o AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let help = |_| (0..self.parts).for_each(|part| self.help(part));
        self.hands.pool.run_beside(self.hands.pool.threads() - 1, help, || {
            let _over = Over(&self.over);
            lead()
        })
    }

    /// Stores the words of a part that the device has told, with whoever helps; parts come in their order. Returns when all are stored.
    pub(super) fn store_part(&self, part: usize) {
        self.ready.store(part + 1, Ordering::Release);
        self.store_shares(part);
        let shares = self.shares(part);
        // Those who have taken the last ones are at them.
        look_until(|| self.progress[part].stored.load(Ordering::Acquire) == shares);
    }

    /// Waits for a part and stores some of it.
    fn help(&self, part: usize) {
        look_until(|| self.ready.load(Ordering::Acquire) > part || self.over.load(Ordering::Acquire));
        if self.ready.load(Ordering::Acquire) > part {
            self.store_shares(part);
        }
    }

    /// The first act of a part, and how many it has.
    fn span(&self, part: usize) -> (u64, u64) {
        let of = |at: usize| self.told[at].load(Ordering::Relaxed);
        (of(2 * part), of(2 * part + 1))
    }

    fn shares(&self, part: usize) -> u64 {
        self.span(part).1.div_ceil(SHARE)
    }

    fn store_shares(&self, part: usize) {
        let ((first, count), shares) = (self.span(part), self.shares(part));
        let Progress { taken, stored } = &self.progress[part];
        loop {
            let share = taken.fetch_add(1, Ordering::Relaxed);
            if share >= shares {
                return;
            }
            let begin = share * SHARE;
            self.store_words(first + begin, SHARE.min(count - begin));
            stored.fetch_add(1, Ordering::Release);
        }
    }

    fn store_words(&self, first: u64, count: u64) {
        let begin = 2 * (MOST_PARTS + first as usize);
        let words = &self.told[begin..begin + 2 * count as usize];
        let near = |word: &AtomicU64| {
            let at = word.load(Ordering::Relaxed);
            if self.image.contains(at, 8) {
                prefetch::line_to_write(self.image.pointer(at, 8));
            }
        };
        words.iter().step_by(2).take(AHEAD).for_each(near);
        for index in (0..words.len()).step_by(2) {
            if let Some(later) = words.get(index + 2 * AHEAD) {
                near(later);
            }
            let (at, word) = (words[index].load(Ordering::Relaxed), words[index + 1].load(Ordering::Relaxed));
            if let Some(observer) = &self.hands.observer {
                observer(at, word);
            }
            self.image.store(at, word);
            self.image.flush("straight-words", at, 8);
        }
        // Before the acknowledgement, before entries, and before what they led to is used again.
        self.image.fence("straight-words");
    }
}

/// Looks again and again; after a while others are let run in between.
fn look_until(is_so: impl Fn() -> bool) {
    let mut looks = 0;
    while !is_so() {
        looks += 1;
        if looks % LOOKS == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use warpkeep_image::{Coherent, Format, MIN_CHUNK, PlainMemory, Surroundings};

    use super::*;

    /// Somebody who helps is slow; whoever goes on would acknowledge, and set entries, before the words are there.
    #[test]
    fn a_part_is_stored_when_the_slowest_has_stored_his_share() {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        // Two shares, somewhere in the image.
        let (count, first) = (SHARE + 5, 2 * MIN_CHUNK);
        let mut words = vec![0; 2 * MOST_PARTS];
        words[1] = count;
        words.extend((0..count).flat_map(|word| [first + 8 * word, word + 1]));
        let told: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let (lead, helped) = (std::thread::current().id(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&helped);
        let observer = move |_, _| {
            if std::thread::current().id() != lead {
                if !seen.swap(true, Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(50));
                }
                return;
            }
            let begun = Instant::now();
            while !seen.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
        };
        let hands = Hands { pool: Arc::new(Pool::new(2)), observer: Some(Arc::new(observer)) };
        let told = Told::new(&image, &told, hands, 1);
        let stored = told.beside(|| {
            told.store_part(0);
            (0..count).filter(|word| image.load(first + 8 * word) == word + 1).count() as u64
        });
        assert!(helped.load(Ordering::SeqCst), "nobody helped");
        assert_eq!(stored, count);
    }

    #[test]
    fn few_cores_leave_words_to_the_device() {
        match WordsBy::usual() {
            WordsBy::Device => assert!(std::thread::available_parallelism().unwrap().get() < LEAST_CORES),
            WordsBy::Host(threads) => assert!((LEAST_CORES / 2..=MOST_THREADS).contains(&threads)),
        }
    }
}
