//! Publishing by the host: host threads store the words of a batch, and the trailers of its records, while the device
//! sends.
//!
//! A word goes to a random slot of the index. Over the link that costs as much as 60 bytes of a record, which are sent
//! sequentially; so does the trailer of a record in a tile whose block is reused. The host's cores are nearer to both.
//! The device therefore sends values and a [store list](super::store_list), chunk by chunk, and while it sends a chunk,
//! host threads store the trailers and words of the one before.
//!
//! [`HostPipeline`] runs a batch on two streams. The workspace's stream sends chunks, on few SMs. A second stream keeps
//! the device index current, on the other SMs:
//!
//! 1. mark all index entries of the batch busy, so that readers go to the image;
//! 2. wait for each chunk to arrive, and let [`HostPublisher`] store it;
//! 3. set the index entries of each chunk that is stored.
//!
//! Invariants:
//! - no word is stored before its record is complete: the device fences its part of a chunk before it sets the chunk's
//!   completion flag, and a [`StoreTask`] fences its trailers before its first word;
//! - no word is stored before all entries of the batch are busy, and no entry is set before the words of its chunk are
//!   stored and fenced;
//! - after an error no work of the batch is in the second stream.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use warpkeep_device::{Device, DeviceError, Event, Grid, Stream, TimedBatch};
use warpkeep_image::{Image, Persist};
use warpkeep_record::Pool;

use crate::TableError;
use crate::gpu::engine::{DeviceEngine, THREADS, Workspace};
use crate::gpu::profile::PublishBy;
use crate::gpu::write::from_host::HostValues;
use crate::gpu::write::params::{FusedParams, MARK_BUSY, MOST_CHUNKS, SEND, SET_ENTRIES, StepParams};
use crate::gpu::write::pipeline::{Prefix, stores_per_step};
use crate::gpu::write::store_list::{StoreListForm, StoreTask};

/// What a host thread is about to do to the image.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStep {
    /// To store a word of the index or of a record: its offset, and the word.
    Store(u64, u64),
    /// To fence its stores.
    Fence,
}

/// Called before each step.
pub(super) type Observer = Arc<dyn Fn(HostStep) + Send + Sync>;

/// What an engine keeps for batches that the host publishes.
#[derive(Default)]
pub(super) struct HostThreads {
    threads: Mutex<Threads>,
    /// Batches whose values the host has stored.
    pub(super) batches_with_values: AtomicU64,
    /// Kept from one batch to the next.
    streams: Mutex<Option<PipelineStreams>>,
}

#[derive(Default)]
struct Threads {
    /// The number of threads, and the pool. Started for the first batch that needs it.
    pool: Option<(usize, Arc<Pool>)>,
    observer: Option<Observer>,
}

/// The host threads that publish a batch.
#[derive(Clone)]
pub(super) struct PublishThreads {
    pub(super) pool: Arc<Pool>,
    pub(super) observer: Option<Observer>,
}

impl HostThreads {
    pub(super) fn observe(&self, observer: Observer) {
        self.threads().observer = Some(observer);
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host's threads; `None` if the device publishes.
    pub(super) fn publish_threads(&self, by: PublishBy) -> Option<PublishThreads> {
        let PublishBy::Host(count) = by else { return None };
        let mut threads = self.threads();
        let pool = match threads.pool.take().filter(|(started, _)| *started == count) {
            Some((_, pool)) => pool,
            None => Arc::new(Pool::new(count.max(1))),
        };
        threads.pool = Some((count, Arc::clone(&pool)));
        Some(PublishThreads { pool, observer: threads.observer.clone() })
    }

    pub(super) fn take_streams(&self, device: &Device) -> Result<PipelineStreams, TableError> {
        let kept = self.streams.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| PipelineStreams::new(device), Ok)
    }

    pub(super) fn keep_streams(&self, streams: PipelineStreams) {
        *self.streams.lock().unwrap_or_else(PoisonError::into_inner) = Some(streams);
    }
}

/// The second stream of a batch, and the events that order the two.
pub(super) struct PipelineStreams {
    /// Updates the device index while the workspace's stream sends.
    index_stream: Stream,
    /// The operations that are sent first are decided.
    begun: Event,
    /// All operations are decided.
    decided: Event,
    /// All entries are busy.
    busy: Event,
    /// All entries are set.
    settled: Event,
}

impl PipelineStreams {
    fn new(device: &Device) -> Result<PipelineStreams, TableError> {
        let event = || device.event();
        let (index_stream, begun, decided) = (device.stream()?, event()?, event()?);
        Ok(PipelineStreams { index_stream, begun, decided, busy: event()?, settled: event()? })
    }
}

/// A batch that the host publishes.
pub(super) struct HostPipeline<'b, P: Persist> {
    pub(super) engine: &'b DeviceEngine<P>,
    pub(super) image: &'b Image<P>,
    pub(super) workspace: &'b Workspace,
    pub(super) params: &'b FusedParams,
    pub(super) chunks: u64,
    /// The operations that are decided so far; `None` if all are.
    pub(super) prefix: Option<Prefix>,
    /// The values, if the host stores them.
    pub(super) values: Option<HostValues<'b>>,
    pub(super) streams: &'b PipelineStreams,
}

impl<P: Persist> HostPipeline<'_, P> {
    /// Launches the remaining kernels of the batch and publishes its chunks. When it returns, all words are stored, and
    /// the last kernel is ordered before the next work in the workspace's stream.
    pub(super) fn run(
        &self,
        (threads, form): (PublishThreads, StoreListForm),
        timed: &mut TimedBatch<'_>,
        mut launch_step: impl FnMut(&StepParams, u64, &Stream) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let (device, send_stream) = (self.engine.device(), &self.workspace.stream);
        let PipelineStreams { index_stream, begun, decided, busy, settled } = self.streams;
        let prefix_chunks = self.prefix.map_or(0, |prefix| prefix.chunks);
        let list = self.workspace.columns.store_list.shared_words();
        let publisher =
            HostPublisher::new(self.image, list, (form, self.values), threads, self.chunks as usize);
        let mut launch = |name,
                          (step, send_end): (u64, u64),
                          chunks,
                          work,
                          stream: &Stream,
                          timed: &mut TimedBatch<'_>| {
            let prefix_chunks = if chunks == self.chunks { prefix_chunks } else { 0 };
            let params = StepParams { batch: *self.params, step, chunks, work, prefix_chunks, send_end };
            timed.device(name, device, stream, || {
                launch_step(&params, stores_per_step(self.params, chunks), stream)
            })
        };
        let published = publisher.run_with_threads(|| {
            begun.record(send_stream)?;
            index_stream.wait_for(begun)?;
            if prefix_chunks > 0 {
                // Before the rest is decided: it needs a few SMs, and deciding takes all that are free.
                launch("send prefix", (0, prefix_chunks), self.chunks, SEND, send_stream, timed)?;
                self.decide_rest(timed)?;
                decided.record(index_stream)?;
                send_stream.wait_for(decided)?;
            }
            launch("mark busy", (0, 0), 1, MARK_BUSY, index_stream, timed)?;
            busy.record(index_stream)?;
            launch("send", (prefix_chunks, self.chunks), self.chunks, SEND, send_stream, timed)?;
            busy.synchronize()?;
            let mut stored = 0;
            for chunk in 0..self.chunks as usize {
                publisher.wait_for(chunk, send_stream)?;
                publisher.mark_ready(chunk);
                while publisher.is_stored(stored) {
                    let step = (stored as u64 + 2, 0);
                    launch("set entries", step, self.chunks, SET_ENTRIES, index_stream, timed)?;
                    stored += 1;
                }
            }
            let sent = Instant::now();
            if !publisher.finish() {
                // A thread has panicked: `run_with_threads` panics when this returns.
                return Ok(());
            }
            timed.add_host("host: publish after the last send", sent.elapsed());
            for chunk in stored as u64..self.chunks {
                launch("set entries", (chunk + 2, 0), self.chunks, SET_ENTRIES, index_stream, timed)?;
            }
            settled.record(index_stream)?;
            Ok(send_stream.wait_for(settled)?)
        });
        if published.is_err() {
            // Only the first error is reported.
            let _ = index_stream.synchronize();
        }
        published
    }

    /// Decides the operations behind the prefix while the prefix is sent.
    fn decide_rest(&self, timed: &mut TimedBatch<'_>) -> Result<(), TableError> {
        let (device, stream) = (self.engine.device(), &self.streams.index_stream);
        let first = self.prefix.map_or(self.params.count, |prefix| prefix.operations);
        let params = FusedParams { first, ..*self.params };
        let grid = Grid::covering((params.end - first).max(1), THREADS);
        // SAFETY: the parameters are those of the first launch, whose caller promised that the columns live until all
        // streams are synchronised.
        timed.device("decide rest", device, stream, || unsafe {
            Ok(self.engine.kernels.fused()?.decide.launch(grid, &params, stream)?)
        })
    }
}

/// Effects that a thread stores at a time: a few microseconds, so that at the end no thread waits long for the slowest.
const TASK_EFFECTS: u64 = 512;
/// Polls before a waiting thread yields.
const POLLS_BEFORE_YIELD: u32 = 1 << 12;

/// The chunks of a batch that the host publishes, and how far they are stored.
struct HostPublisher<'w, P: Persist> {
    image: &'w Image<P>,
    /// `FusedParams::words` in `kernels/write/fused.h`: the range of each chunk, the completion flag of each chunk, and
    /// the effects.
    list: &'w [AtomicU64],
    form: StoreListForm,
    /// The values, if the host stores them.
    values: Option<HostValues<'w>>,
    threads: PublishThreads,
    chunks: usize,
    /// Chunks that have arrived.
    ready: AtomicUsize,
    /// No more chunks will arrive.
    over: AtomicBool,
    /// A thread has panicked in a task, which will never be stored.
    failed: AtomicBool,
    progress: [Progress; MOST_CHUNKS],
}

/// Tasks of a chunk that are taken, and that are stored. On a cache line of its own, because threads work on several
/// chunks at a time.
#[derive(Default)]
#[repr(align(64))]
struct Progress {
    taken: AtomicU64,
    stored: AtomicU64,
}

impl<'w, P: Persist> HostPublisher<'w, P> {
    fn new(
        image: &'w Image<P>,
        list: &'w [AtomicU64],
        (form, values): (StoreListForm, Option<HostValues<'w>>),
        threads: PublishThreads,
        chunks: usize,
    ) -> HostPublisher<'w, P> {
        let progress = std::array::from_fn(|_| Progress::default());
        // The completion flags.
        list[2 * MOST_CHUNKS..]
            .iter()
            .take(2 * MOST_CHUNKS)
            .for_each(|sent| sent.store(0, Ordering::Relaxed));
        let (ready, over, failed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
        HostPublisher { image, list, form, values, threads, chunks, ready, over, failed, progress }
    }

    /// Runs `lead`, which [marks chunks ready](HostPublisher::mark_ready) and [finishes](HostPublisher::finish), while
    /// the other threads store what is ready. Panics if one of the threads does.
    fn run_with_threads<R>(&self, lead: impl FnOnce() -> R) -> R {
        /// Ends the waits of the other threads, also if `lead` panics.
        struct Over<'o>(&'o AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let help = |_| (0..self.chunks).for_each(|chunk| self.help(chunk));
        self.threads.pool.run_beside(self.threads.pool.threads() - 1, help, || {
            let _over = Over(&self.over);
            lead()
        })
    }

    /// Waits until a chunk has arrived through a stream: its list, and the device's part of its records. Stores tasks
    /// of earlier chunks meanwhile.
    fn wait_for(&self, chunk: usize, stream: &Stream) -> Result<(), DeviceError> {
        let sent = &self.list[2 * (MOST_CHUNKS + chunk)];
        let mut helped = 0;
        loop {
            for _ in 0..POLLS_BEFORE_YIELD {
                if sent.load(Ordering::Acquire) != 0 {
                    return Ok(());
                }
                while helped < chunk && !self.store_task(helped) {
                    helped += 1;
                }
                std::hint::spin_loop();
            }
            // An empty stream has sent the chunk. A lost device, which will never send it, is an error here.
            if stream.is_done()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// A chunk and all before it have arrived: the threads store it next.
    fn mark_ready(&self, chunk: usize) {
        self.ready.store(chunk + 1, Ordering::Release);
    }

    /// Whether all of a chunk is stored.
    fn is_stored(&self, chunk: usize) -> bool {
        chunk < self.ready.load(Ordering::Relaxed)
            && self.progress[chunk].stored.load(Ordering::Acquire) == self.tasks(chunk)
    }

    /// Stores the tasks of ready chunks that no thread has taken, and waits for the others. Returns `false` if a thread
    /// has panicked, so that its task is never stored; [`HostPublisher::run_with_threads`] then panics, too.
    fn finish(&self) -> bool {
        let ready = self.ready.load(Ordering::Acquire);
        (0..ready).for_each(|chunk| self.store_tasks(chunk));
        for chunk in 0..ready {
            spin_until(|| self.is_stored(chunk) || self.failed.load(Ordering::Relaxed));
        }
        !self.failed.load(Ordering::Relaxed)
    }

    /// Waits for a chunk and stores tasks of it.
    fn help(&self, chunk: usize) {
        spin_until(|| self.ready.load(Ordering::Acquire) > chunk || self.over.load(Ordering::Acquire));
        if self.ready.load(Ordering::Acquire) > chunk {
            self.store_tasks(chunk);
        }
    }

    /// The first effect of a chunk, and the number of its effects.
    fn span(&self, chunk: usize) -> (u64, u64) {
        let word = |at: usize| self.list[at].load(Ordering::Relaxed);
        (word(2 * chunk), word(2 * chunk + 1))
    }

    fn tasks(&self, chunk: usize) -> u64 {
        self.span(chunk).1.div_ceil(TASK_EFFECTS)
    }

    fn store_tasks(&self, chunk: usize) {
        while self.store_task(chunk) {}
    }

    /// Stores a task of a chunk; `false` if all are taken.
    fn store_task(&self, chunk: usize) -> bool {
        let ((first, count), tasks) = (self.span(chunk), self.tasks(chunk));
        let Progress { taken, stored } = &self.progress[chunk];
        if taken.load(Ordering::Relaxed) >= tasks {
            return false;
        }
        let number = taken.fetch_add(1, Ordering::Relaxed);
        if number >= tasks {
            return false;
        }
        /// Reports a panic, unless it is forgotten.
        struct Failed<'f>(&'f AtomicBool);
        impl Drop for Failed<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (begin, failed) = (number * TASK_EFFECTS, Failed(&self.failed));
        self.task(first + begin, TASK_EFFECTS.min(count - begin)).store(self.threads.observer.as_ref());
        std::mem::forget(failed);
        stored.fetch_add(1, Ordering::Release);
        true
    }

    /// The task of `count` effects from `first` on.
    fn task(&self, first: u64, count: u64) -> StoreTask<'_, P> {
        let words = self.form.effect_words();
        let begin = 4 * MOST_CHUNKS + words * first as usize;
        let effects = &self.list[begin..begin + words * count as usize];
        // The device sends digests of those values that it has.
        let digests_at = self.form.digests_at(first).filter(|_| self.values.is_none());
        let digests = digests_at.map_or(&[][..], |at| &self.list[4 * MOST_CHUNKS + at..]);
        StoreTask { image: self.image, form: self.form, values: self.values, effects, digests }
    }
}

fn spin_until(is_so: impl Fn() -> bool) {
    let mut polls = 0;
    while !is_so() {
        polls += 1;
        if polls % POLLS_BEFORE_YIELD == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use warpkeep_image::{Coherent, Format, MIN_CHUNK, PlainMemory, Surroundings};

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

    /// The store list of one chunk of `count` effects, which store consecutive words from `first` on.
    fn one_chunk(count: u64, first: u64) -> Vec<AtomicU64> {
        let mut words = vec![0; 4 * MOST_CHUNKS];
        words[1] = count;
        words.extend((0..count).flat_map(|word| [first + 8 * word, word + 1]));
        words.into_iter().map(AtomicU64::new).collect()
    }

    fn wait_for(flag: &AtomicBool) {
        let begun = Instant::now();
        while !flag.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
    }

    /// The caller and a second thread. The second calls `step` before each of its steps with a flag that `step` sets;
    /// the caller waits for the flag before its first step.
    fn two_threads(step: impl Fn(&AtomicBool) + Send + Sync + 'static) -> (PublishThreads, Arc<AtomicBool>) {
        let (caller, helped) = (std::thread::current().id(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&helped);
        let observer = move |_| match std::thread::current().id() == caller {
            true => wait_for(&flag),
            false => step(&flag),
        };
        (PublishThreads { pool: Arc::new(Pool::new(2)), observer: Some(Arc::new(observer)) }, helped)
    }

    /// Otherwise the batch would be acknowledged, and entries set, before all words are stored.
    #[test]
    fn finish_waits_for_the_slowest_thread() {
        let image = image();
        // Two tasks.
        let (count, first) = (TASK_EFFECTS + 5, 2 * MIN_CHUNK);
        let list = one_chunk(count, first);
        let (threads, helped) = two_threads(|begun| {
            if !begun.swap(true, Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let publisher = HostPublisher::new(&image, &list, (StoreListForm::words_only(), None), threads, 1);
        let stored = publisher.run_with_threads(|| {
            publisher.mark_ready(0);
            publisher.finish();
            (0..count).filter(|word| image.load(first + 8 * word) == word + 1).count() as u64
        });
        assert!(helped.load(Ordering::SeqCst), "the second thread stored nothing");
        assert_eq!(stored, count);
    }

    #[test]
    fn a_panic_of_a_thread_ends_the_wait_for_its_task() {
        let image = image();
        let list = one_chunk(TASK_EFFECTS + 5, 2 * MIN_CHUNK);
        let (threads, helped) = two_threads(|begun| {
            begun.store(true, Ordering::SeqCst);
            panic!("of the second thread");
        });
        let publisher = HostPublisher::new(&image, &list, (StoreListForm::words_only(), None), threads, 1);
        let is_stored = AtomicBool::new(true);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            publisher.run_with_threads(|| {
                publisher.mark_ready(0);
                is_stored.store(publisher.finish(), Ordering::SeqCst);
            });
        }));
        assert!(helped.load(Ordering::SeqCst), "the second thread stored nothing");
        assert!(panicked.is_err() && !is_stored.into_inner());
    }

    #[test]
    fn a_slow_thread_in_one_chunk_does_not_delay_the_next_chunk() {
        let image = image();
        let first = 2 * MIN_CHUNK;
        // Two chunks of a task each.
        let mut words = vec![0; 4 * MOST_CHUNKS];
        words[..4].copy_from_slice(&[0, TASK_EFFECTS, TASK_EFFECTS, TASK_EFFECTS]);
        words.extend((0..2 * TASK_EFFECTS).flat_map(|word| [first + 8 * word, word + 1]));
        let list: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let (in_second, in_first) = (AtomicBool::new(false), AtomicBool::new(false));
        // The thread that has the first chunk waits for another thread to be in the second.
        let observer = move |step| {
            let HostStep::Store(at, _) = step else { return };
            if at >= first + 8 * TASK_EFFECTS {
                in_second.store(true, Ordering::SeqCst);
            } else if !in_first.swap(true, Ordering::SeqCst) {
                wait_for(&in_second);
                assert!(in_second.load(Ordering::SeqCst), "the second chunk waits for the first");
            }
        };
        let threads = PublishThreads { pool: Arc::new(Pool::new(3)), observer: Some(Arc::new(observer)) };
        let publisher = HostPublisher::new(&image, &list, (StoreListForm::words_only(), None), threads, 2);
        publisher.run_with_threads(|| {
            (0..2).for_each(|chunk| publisher.mark_ready(chunk));
            publisher.finish();
            assert!((0..2 * TASK_EFFECTS).all(|word| image.load(first + 8 * word) == word + 1));
        });
    }
}
