//! What the threads that gather a batch spend their time on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::gpu::steps::Watch;

/// Times of all threads, if anybody wants to know.
pub(super) struct Clock {
    begun: Option<Instant>,
    /// Nanoseconds from the beginning to the first records that arrived.
    first: AtomicU64,
    waited: AtomicU64,
    copied: AtomicU64,
    longest: AtomicU64,
}

impl Clock {
    pub(super) fn begin(is_wanted: bool) -> Clock {
        let zero = AtomicU64::default;
        Clock {
            begun: is_wanted.then(Instant::now),
            first: AtomicU64::new(u64::MAX),
            waited: zero(),
            copied: zero(),
            longest: zero(),
        }
    }

    /// The time, if it is wanted.
    pub(super) fn now(&self) -> Option<Instant> {
        self.begun.map(|_| Instant::now())
    }

    /// A thread has waited for records since then.
    pub(super) fn waited(&self, since: Option<Instant>) {
        if let (Some(begun), Some(since)) = (self.begun, since) {
            self.waited.fetch_add(nanos(since.elapsed()), Ordering::Relaxed);
            self.first.fetch_min(nanos(begun.elapsed()), Ordering::Relaxed);
        }
    }

    /// A thread has copied the values of a part since then.
    pub(super) fn copied(&self, since: Option<Instant>) {
        let Some(took) = since.map(|since| nanos(since.elapsed())) else { return };
        self.copied.fetch_add(took, Ordering::Relaxed);
        self.longest.fetch_max(took, Ordering::Relaxed);
    }

    /// Tells what so many threads did.
    pub(super) fn tell(&self, watch: &mut Watch<'_>, threads: usize) {
        let all = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Ordering::Relaxed));
        let each = |nanos: &AtomicU64| all(nanos) / threads.max(1) as u32;
        if self.begun.is_some() {
            watch.note("gathering: until the first records are there", all(&self.first));
            watch.note("gathering: a thread waits for records", each(&self.waited));
            watch.note("gathering: a thread copies values", each(&self.copied));
            watch.note("gathering: the longest part", all(&self.longest));
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
