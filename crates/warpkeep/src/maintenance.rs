//! The thread in the background: makes tables grow before they are full, frees blocks that were postponed, sees to it that a
//! checkpoint is taken when the log has outgrown the items and that there is space for it, and hands figures to the recorder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpkeep_image::Persist;
use warpkeep_record::{Progress, hasten_freeing, is_something_retired};

use crate::space::keep_reserve;
use crate::{CheckpointOptions, Keeper, Tables};

/// Buckets drained before others get a turn.
const SLICE: u64 = 256;
/// Blocks freed before others get a turn.
const FREED_AT_ONCE: usize = 1 << 12;
/// How long to rest when there is nothing to do.
const REST: Duration = Duration::from_millis(2);
/// How often it looks at the log.
const LOOK: Duration = Duration::from_millis(50);
/// How often figures are handed on.
const PUBLISH: Duration = Duration::from_millis(500);

/// The running thread.
pub(crate) struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Maintenance {
    /// Starts it; `None` if the system gives no thread. Then writers do the work themselves when a table is full.
    pub(crate) fn start<P: Persist>(
        keeper: &Arc<Keeper<P, Tables<P>>>,
        checkpoints: CheckpointOptions,
    ) -> Option<Maintenance> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("warpkeep-tables".into());
        let thread = thread.spawn({
            let (keeper, stop) = (Arc::clone(keeper), Arc::clone(&stop));
            move || maintain(&keeper, &checkpoints, &stop)
        });
        thread.ok().map(|thread| Maintenance { stop, thread })
    }

    /// Ends it, with all figures handed on.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // It has no result; had it panicked, writers would do its work.
        let _ = self.thread.join();
    }
}

fn maintain<P: Persist>(keeper: &Keeper<P, Tables<P>>, checkpoints: &CheckpointOptions, stop: &AtomicBool) {
    let (mut published, mut looked) = (Instant::now(), Instant::now());
    keeper.keep_reserve(checkpoints);
    publish(keeper);
    while !stop.load(Ordering::Acquire) {
        let mut working = false;
        for named in keeper.items().list() {
            // A full image is the business of whoever writes next, who is told.
            working |= named.maintain(SLICE).is_ok_and(|progress| progress == Progress::Working);
        }
        // Threads that rest do not free what they replaced, and what waits for readers is of no use to anyone.
        if is_something_retired() {
            hasten_freeing();
        }
        // What cannot be freed was damaged, which an inspection tells.
        working |= keeper.heap().free_postponed(FREED_AT_ONCE).is_ok_and(|freed| freed > 0);
        if looked.elapsed() >= LOOK {
            if keeper.wants_checkpoint(checkpoints) {
                keeper.checkpoints().request();
            }
            looked = Instant::now();
        }
        working |= keep_reserve(keeper);
        if published.elapsed() >= PUBLISH {
            keeper.keep_reserve(checkpoints);
            keeper.heap().retry_growth();
            publish(keeper);
            published = Instant::now();
        }
        if !working {
            keeper.heap().age_vacating();
            keeper.items().demolish_dropped();
            std::thread::park_timeout(REST);
        }
    }
    publish(keeper);
}

fn publish<P: Persist>(keeper: &Keeper<P, Tables<P>>) {
    if let Some(log) = keeper.log() {
        crate::metrics::log(log);
        let status = keeper.checkpoints().status();
        crate::metrics::checkpoint_progress(log.owes_checkpoint(), status.written, status.expected);
    }
    for named in keeper.items().list() {
        named.metrics.publish(&named.table.figures());
        named.engine.ways.publish(&named.name);
        if let Some(keys) = named.engine.ordered_from() {
            metrics::gauge!("warpkeep_ordered_from", "table" => named.name.clone()).set(keys as f64);
        }
        // A device that does not answer is the business of whoever uses it next.
        if let Ok(Some(stats)) = named.engine.device_stats() {
            named.metrics.publish_device(&stats);
        }
    }
}
