//! The background thread: grows tables before they are full, frees postponed blocks, has a checkpoint taken when
//! the log has outgrown the items and keeps space for it, and passes figures to the recorder.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpkeep_image::Persist;
use warpkeep_record::{Budget, Progress};

use crate::lease::Leases;
use crate::space::keep_reserve;
use crate::{CheckpointOptions, Keeper, Tables};

/// The work on one table before other tables get a turn.
const SLICE: Budget = Budget::items(2048);
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
        leases: &Arc<Leases<P>>,
        checkpoints: CheckpointOptions,
    ) -> Option<Maintenance> {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("warpkeep-tables".into());
        let thread = thread.spawn({
            let (keeper, leases, stop) = (Arc::clone(keeper), Arc::clone(leases), Arc::clone(&stop));
            move || maintain(&keeper, &leases, &checkpoints, &stop)
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

fn maintain<P: Persist>(
    keeper: &Keeper<P, Tables<P>>,
    leases: &Leases<P>,
    checkpoints: &CheckpointOptions,
    stop: &AtomicBool,
) {
    let (mut published, mut looked) = (Instant::now(), Instant::now());
    keeper.keep_reserve(checkpoints);
    publish(keeper);
    while !stop.load(Ordering::Acquire) {
        let mut working = false;
        for named in keeper.items().list() {
            // A full image is reported to the next writer.
            working |= named.maintain(SLICE).is_ok_and(|progress| progress == Progress::Working);
        }
        // Idle threads do not free their replaced records, and records that wait for readers are unusable space.
        if keeper.heap().has_deferred() {
            keeper.heap().reclaim();
        }
        // A block that cannot be freed is damaged, which an inspection reports.
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
            leases.release_dropped();
            // A block that cannot be freed is damaged, which an inspection reports.
            let _ = keeper.items().demolish_dropped(1);
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
        named.table.publish_host_gets(&named.name);
        // A device failure is reported to its next user.
        if let Ok(Some(stats)) = named.table.device_stats() {
            named.metrics.publish_device(&stats);
        }
    }
}
