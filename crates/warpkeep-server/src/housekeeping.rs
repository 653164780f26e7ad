//! What is done behind the clients' backs: expired items are removed, room is made, checkpoints are taken that clients ask
//! for (the store takes others by itself), and it is noted whether there is space to write.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpkeep::ScanPosition;

use crate::ServerError;
use crate::item::Head;
use crate::lifetime::now;
use crate::server::Shared;

/// How often it is looked whether something is to be done.
const TICK: Duration = Duration::from_millis(20);
/// How often what there is is noted for those who watch.
const TELL: Duration = Duration::from_secs(1);
/// How long expired items are looked for in a tick, mostly.
const SLICE: Duration = Duration::from_micros(500);
/// The same while many are found.
const LONG_SLICE: Duration = Duration::from_millis(5);

/// Keeps house until the server stops.
pub(crate) fn run(shared: &Shared<'_>) {
    let mut sweep = Sweep::default();
    let mut told = Instant::now();
    tell(shared);
    if let Some(evictor) = &shared.keyspace.evictor {
        evictor.serve();
    }
    while !shared.is_stopping() {
        rest(shared);
        // Where nothing can be written, nothing is removed; clients do not see what has expired.
        if shared.counters.trouble().is_none()
            && let Err(error) = sweep.go_on(shared)
        {
            tracing::warn!(%error, "expired items were not removed");
        }
        if told.elapsed() > TELL {
            told = Instant::now();
            tell(shared);
        }
        if shared.saving.load(Ordering::Acquire) {
            let saved = shared.save();
            shared.saving.store(false, Ordering::Release);
            match saved {
                Ok(()) => tracing::info!("a checkpoint was taken"),
                Err(error) => tracing::error!(%error, "no checkpoint was taken"),
            }
        }
        shared.scans.lock().forget_old();
    }
}

/// Notes whether there is space to write, and logs it when that has changed.
fn look_for_space(shared: &Shared<'_>) {
    let trouble = shared.keyspace.store.status().refuses_writes;
    if shared.counters.set_trouble(trouble.clone()) {
        match trouble {
            Some(why) => tracing::error!("the disk is full: {why}"),
            None => tracing::info!("there is space again, writes go on"),
        }
    }
}

/// Notes what is told to those who watch.
fn tell(shared: &Shared<'_>) {
    look_for_space(shared);
    let keyspace = &shared.keyspace;
    let evicted = keyspace.evicted.load(Ordering::Relaxed);
    for (counter, value) in [
        (&shared.counters.items, keyspace.table().len()),
        (&shared.counters.used_bytes, keyspace.store.usage().used_bytes()),
        (&shared.counters.evicted, evicted),
    ] {
        counter.store(value, Ordering::Relaxed);
    }
}

/// Rests for a while; a cache makes room meanwhile, whenever a write finds none.
fn rest(shared: &Shared<'_>) {
    let until = Instant::now() + TICK;
    loop {
        if let Some(evictor) = &shared.keyspace.evictor {
            evictor.keep_room(&shared.keyspace);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.is_stopping() {
            return;
        }
        std::thread::park_timeout(left);
    }
}

/// Where the search for expired items stands.
#[derive(Default)]
struct Sweep {
    position: ScanPosition,
    /// Something that expires was met on this way round.
    met: bool,
    /// Much of what was met last had expired.
    many: bool,
}

impl Sweep {
    /// Looks on for a moment.
    fn go_on(&mut self, shared: &Shared<'_>) -> Result<(), ServerError> {
        let keyspace = &shared.keyspace;
        if !keyspace.expiring.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (begun, slice) = (Instant::now(), if self.many { LONG_SLICE } else { SLICE });
        let (mut looked, mut found) = (0_u64, 0_u64);
        while begun.elapsed() < slice {
            let mut expired: Vec<Vec<u8>> = Vec::new();
            let now = now();
            let more = keyspace.table().scan_some(&mut self.position, |item| {
                looked += 1;
                let Some(head) = Head::from_bytes(item.value) else { return };
                self.met |= head.expires != 0;
                if head.is_expired(now) {
                    expired.push(item.key.to_vec());
                }
            })?;
            for key in &expired {
                found += u64::from(keyspace.remove_expired(key, now)?);
            }
            if !more {
                self.position = ScanPosition::default();
                // If there was nothing to expire on the whole way, there is no need to go round again.
                if !std::mem::take(&mut self.met) {
                    keyspace.expiring.store(false, Ordering::Relaxed);
                }
                break;
            }
        }
        self.many = found * 10 > looked;
        shared.counters.expired.fetch_add(found, Ordering::Relaxed);
        Ok(())
    }
}
