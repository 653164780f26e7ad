//! What the device tells the host of a batch, part by part, and how far the host is with it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use warpkeep_device::{DeviceError, Stream};
use warpkeep_image::{Image, Persist};

use super::host_values::HostValues;
use super::list::ListForm;
use super::params::MOST_PARTS;
use super::share::Share;
use super::words::Hands;

/// Acts that a thread takes at a time: a few microseconds, for nobody is to wait long for the slowest at the end.
const SHARE: u64 = 512;
/// Looks at what others do before a thread lets others run.
const LOOKS: u32 = 1 << 12;

/// The acts of a batch, as the device tells them, and how far they are stored.
pub(super) struct Told<'w, P: Persist> {
    image: &'w Image<P>,
    /// As `StraightParams::words` in `kernels/straight.h`.
    told: &'w [AtomicU64],
    form: ListForm,
    /// The values, if the host stores them, too.
    values: Option<HostValues<'w>>,
    hands: Hands,
    parts: usize,
    /// Parts that the device has told.
    ready: AtomicUsize,
    /// Nothing more comes.
    over: AtomicBool,
    /// A share was taken by somebody who panicked: it will never be stored.
    failed: AtomicBool,
    progress: [Progress; MOST_PARTS],
}

/// Shares of a part that were taken, and that are stored. With a line of its own: threads are at several parts at the same time.
#[derive(Default)]
#[repr(align(64))]
struct Progress {
    taken: AtomicU64,
    stored: AtomicU64,
}

impl<'w, P: Persist> Told<'w, P> {
    pub(super) fn new(
        image: &'w Image<P>,
        told: &'w [AtomicU64],
        (form, values): (ListForm, Option<HostValues<'w>>),
        hands: Hands,
        parts: usize,
    ) -> Told<'w, P> {
        let progress = std::array::from_fn(|_| Progress::default());
        told[2 * MOST_PARTS..].iter().take(2 * MOST_PARTS).for_each(|sent| sent.store(0, Ordering::Relaxed));
        let (ready, over, failed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Told { image, told, form, values, hands, parts, ready, over, failed, progress }
    }

    /// Does something that makes parts [ready](Told::ready) and [finishes](Told::finish), with threads that store them beside it.
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

    /// Waits until the device has told a part, by what is in a stream, and what it writes of its records is in the image. Stores some of those
    /// before it meanwhile.
    pub(super) fn wait_for(&self, part: usize, stream: &Stream) -> Result<(), DeviceError> {
        let sent = &self.told[2 * (MOST_PARTS + part)];
        let mut helped = 0;
        loop {
            for _ in 0..LOOKS {
                if sent.load(Ordering::Acquire) != 0 {
                    return Ok(());
                }
                while helped < part && !self.store_share(helped) {
                    helped += 1;
                }
                std::hint::spin_loop();
            }
            // If there is nothing left to do, it was sent. And this is where one learns that it never will be.
            if stream.is_done()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// The device has told a part, and all before it; what it writes of their records is in the image. Whoever helps goes on with it.
    pub(super) fn ready(&self, part: usize) {
        self.ready.store(part + 1, Ordering::Release);
    }

    /// Whether a part is ready and all of it stored.
    pub(super) fn is_stored(&self, part: usize) -> bool {
        part < self.ready.load(Ordering::Relaxed)
            && self.progress[part].stored.load(Ordering::Acquire) == self.shares(part)
    }

    /// Stores what nobody has taken of the parts that are ready. Returns when all of them is stored; `false` if that will never be, because
    /// somebody has panicked, which [`Told::beside`] does then, too.
    pub(super) fn finish(&self) -> bool {
        let ready = self.ready.load(Ordering::Acquire);
        (0..ready).for_each(|part| self.store_shares(part));
        for part in 0..ready {
            // Those who have taken the last ones are at them.
            look_until(|| self.is_stored(part) || self.failed.load(Ordering::Relaxed));
        }
        !self.failed.load(Ordering::Relaxed)
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
        while self.store_share(part) {}
    }

    /// Stores a share that nobody has taken; whether there was one.
    fn store_share(&self, part: usize) -> bool {
        let ((first, count), shares) = (self.span(part), self.shares(part));
        let Progress { taken, stored } = &self.progress[part];
        if taken.load(Ordering::Relaxed) >= shares {
            return false;
        }
        let share = taken.fetch_add(1, Ordering::Relaxed);
        if share >= shares {
            return false;
        }
        /// Says so unless it is forgotten.
        struct Failed<'f>(&'f AtomicBool);
        impl Drop for Failed<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (begin, failed) = (share * SHARE, Failed(&self.failed));
        self.share(first + begin, SHARE.min(count - begin)).store(self.hands.observer.as_ref());
        std::mem::forget(failed);
        stored.fetch_add(1, Ordering::Release);
        true
    }

    /// Acts side by side.
    fn share(&self, first: u64, count: u64) -> Share<'_, P> {
        let len = self.form.len();
        let begin = 4 * MOST_PARTS + len * first as usize;
        let acts = &self.told[begin..begin + len * count as usize];
        // Only the device has those of values that are the device's.
        let told = self.form.digests_at(first).filter(|_| self.values.is_none());
        let digests = told.map_or(&[][..], |at| &self.told[4 * MOST_PARTS + at..]);
        Share { image: self.image, form: self.form, values: self.values, acts, digests }
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
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use warpkeep_image::{Coherent, Format, MIN_CHUNK, PlainMemory, Surroundings};
    use warpkeep_record::Pool;

    use super::super::words::HostStep;
    use super::*;

    fn image() -> Image<Coherent> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 8 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        image
    }

    /// What is told of one part with so many acts, which store words one after the other from `first` on.
    fn one_part(count: u64, first: u64) -> Vec<AtomicU64> {
        let mut words = vec![0; 4 * MOST_PARTS];
        words[1] = count;
        words.extend((0..count).flat_map(|word| [first + 8 * word, word + 1]));
        words.into_iter().map(AtomicU64::new).collect()
    }

    /// A thread beside the caller's, which does something with each step of its own; the caller waits before its first step until it has begun.
    fn two_hands(helps: impl Fn(&AtomicBool) + Send + Sync + 'static) -> (Hands, Arc<AtomicBool>) {
        let (lead, helped) = (std::thread::current().id(), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&helped);
        let observer = move |_| {
            if std::thread::current().id() != lead {
                return helps(&seen);
            }
            let begun = Instant::now();
            while !seen.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
        };
        (Hands { pool: Arc::new(Pool::new(2)), observer: Some(Arc::new(observer)) }, helped)
    }

    /// Somebody who helps is slow; whoever goes on would acknowledge, and set entries, before the words are there.
    #[test]
    fn all_is_stored_when_the_slowest_has_stored_his_share() {
        let image = image();
        // Two shares, somewhere in the image.
        let (count, first) = (SHARE + 5, 2 * MIN_CHUNK);
        let told = one_part(count, first);
        let (hands, helped) = two_hands(|begun| {
            if !begun.swap(true, Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let told = Told::new(&image, &told, (ListForm::words_only(), None), hands, 1);
        let stored = told.beside(|| {
            told.ready(0);
            told.finish();
            (0..count).filter(|word| image.load(first + 8 * word) == word + 1).count() as u64
        });
        assert!(helped.load(Ordering::SeqCst), "nobody helped");
        assert_eq!(stored, count);
    }

    /// Nobody waits for ever for what a helper has taken and dropped.
    #[test]
    fn a_helper_that_panics_is_told_of() {
        let image = image();
        let told = one_part(SHARE + 5, 2 * MIN_CHUNK);
        let (hands, helped) = two_hands(|begun| {
            begun.store(true, Ordering::SeqCst);
            panic!("no more");
        });
        let told = Told::new(&image, &told, (ListForm::words_only(), None), hands, 1);
        let is_stored = AtomicBool::new(true);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            told.beside(|| {
                told.ready(0);
                is_stored.store(told.finish(), Ordering::SeqCst);
            });
        }));
        assert!(helped.load(Ordering::SeqCst), "nobody helped");
        assert!(panicked.is_err() && !is_stored.into_inner());
    }

    /// Who is slow with one part holds nobody up who goes on with the next.
    #[test]
    fn nobody_waits_for_the_slowest_between_two_parts() {
        let image = image();
        let first = 2 * MIN_CHUNK;
        // Two parts of a share each.
        let mut words = vec![0; 4 * MOST_PARTS];
        words[..4].copy_from_slice(&[0, SHARE, SHARE, SHARE]);
        words.extend((0..2 * SHARE).flat_map(|word| [first + 8 * word, word + 1]));
        let told: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let (gone_on, waited) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let seen = (Arc::clone(&gone_on), Arc::clone(&waited));
        // Whoever has the first part waits for somebody else to be at the second.
        let observer = move |step| {
            let HostStep::Store(at, _) = step else { return };
            if at >= first + 8 * SHARE {
                seen.0.store(true, Ordering::SeqCst);
            } else if !seen.1.swap(true, Ordering::SeqCst) {
                let begun = Instant::now();
                while !seen.0.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
                assert!(seen.0.load(Ordering::SeqCst), "nobody has gone on with the second part");
            }
        };
        let hands = Hands { pool: Arc::new(Pool::new(3)), observer: Some(Arc::new(observer)) };
        let told = Told::new(&image, &told, (ListForm::words_only(), None), hands, 2);
        told.beside(|| {
            (0..2).for_each(|part| told.ready(part));
            told.finish();
            assert!((0..2 * SHARE).all(|word| image.load(first + 8 * word) == word + 1));
        });
    }
}
