//! Background work: removes expired items, makes room, takes the checkpoints that clients request (the store takes
//! others by itself), and checks whether there is space to write.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpkeep::ScanPosition;

use crate::ServerError;
use crate::item::Head;
use crate::keyspace::Keyspace;
use crate::lifetime::now;
use crate::server::Shared;

/// How often the thread checks for work.
const TICK: Duration = Duration::from_millis(20);
/// How often the gauges are updated.
const GAUGE_PERIOD: Duration = Duration::from_secs(1);
/// How long expired items are looked for in a tick, mostly.
const SLICE: Duration = Duration::from_micros(500);
/// The same while many are found.
const LONG_SLICE: Duration = Duration::from_millis(5);

/// Removes expired items, evicts and updates the gauges until the server stops.
pub(crate) fn run(shared: &Shared<'_>) {
    let mut sweep = Sweep::default();
    let mut updated = Instant::now();
    update_gauges(shared);
    if let Some(evictor) = &shared.keyspace.evictor {
        evictor.serve();
    }
    while !shared.is_stopping() {
        rest(shared);
        // A read-only store removes nothing; clients do not see expired items.
        if shared.counters.trouble().is_none()
            && let Err(error) = sweep.go_on(shared)
        {
            tracing::warn!(%error, "expired items were not removed");
        }
        if updated.elapsed() > GAUGE_PERIOD {
            updated = Instant::now();
            update_gauges(shared);
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

/// Checks whether there is space to write, and logs a change.
fn look_for_space(shared: &Shared<'_>) {
    let trouble = shared.keyspace.store.status().refuses_writes;
    if shared.counters.set_trouble(trouble.clone()) {
        match trouble {
            Some(why) => tracing::error!("writes are refused: {why}"),
            None => tracing::info!("writes are taken again"),
        }
    }
}

/// Updates the gauges for monitoring.
fn update_gauges(shared: &Shared<'_>) {
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
    /// A round has begun and has not ended.
    under_way: bool,
    /// This round has met an item that expires.
    met: bool,
    /// Many of the items met last had expired.
    many: bool,
}

impl Sweep {
    /// Looks on for a moment.
    fn go_on(&mut self, shared: &Shared<'_>) -> Result<(), ServerError> {
        let keyspace = &shared.keyspace;
        if !self.begin(keyspace) {
            return Ok(());
        }
        let (begun, slice) = (Instant::now(), if self.many { LONG_SLICE } else { SLICE });
        let (mut looked, mut found) = (0_u64, 0_u64);
        while begun.elapsed() < slice {
            if !self.look(keyspace, &mut looked, &mut found)? {
                self.end(keyspace);
                break;
            }
        }
        self.many = found * 10 > looked;
        shared.counters.expired.fetch_add(found, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a round, unless one is under way. Returns false if no item that expires was stored since the last round,
    /// which met none.
    fn begin(&mut self, keyspace: &Keyspace<'_>) -> bool {
        if !self.under_way {
            // At the beginning, so that an item which is stored behind the sweep's position sets it again.
            self.under_way = keyspace.expiring.swap(false, Ordering::AcqRel);
            self.met = false;
        }
        self.under_way
    }

    /// Removes the expired items of the next slice of the table; returns whether there are more slices.
    fn look(
        &mut self,
        keyspace: &Keyspace<'_>,
        looked: &mut u64,
        found: &mut u64,
    ) -> Result<bool, ServerError> {
        let mut expired: Vec<Vec<u8>> = Vec::new();
        let now = now();
        let more = keyspace.table().scan_some(&mut self.position, |item| {
            *looked += 1;
            let Some(head) = Head::from_bytes(item.value) else { return };
            self.met |= head.expires != 0;
            if head.is_expired(now) {
                expired.push(item.key.to_vec());
            }
        })?;
        for key in &expired {
            *found += u64::from(keyspace.remove_expired(key, now)?);
        }
        Ok(more)
    }

    /// Ends a round. If none of its items expires, and none that does was stored meanwhile, another is needless.
    fn end(&mut self, keyspace: &Keyspace<'_>) {
        self.position = ScanPosition::default();
        self.under_way = false;
        if self.met {
            keyspace.expiring.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpkeep::{Durability, Store, StoreOptions};

    use super::*;
    use crate::Settings;

    #[test]
    fn an_item_stored_behind_a_sweep_is_found_by_the_next() {
        let home = tempfile::tempdir().unwrap();
        let options = StoreOptions { without_log: true, ..StoreOptions::default() };
        let store = Store::open_with(home.path(), options).unwrap();
        let keyspace = Keyspace::open(&store, &Settings::default()).unwrap();
        let mut sweep = Sweep::default();
        let (mut looked, mut found) = (0, 0);
        // Items stored before the start may expire.
        assert!(sweep.begin(&keyspace));
        while sweep.look(&keyspace, &mut looked, &mut found).unwrap() {}
        // A client stores an item between the last slice and the end of the round.
        let head = Head { expires: 1, ..Head::default() };
        keyspace.table().put(b"short", &head.to_bytes(), Durability::Process).unwrap();
        keyspace.expiring.store(true, Ordering::Release);
        sweep.end(&keyspace);
        assert!(sweep.begin(&keyspace), "there is another round");
        while sweep.look(&keyspace, &mut looked, &mut found).unwrap() {}
        sweep.end(&keyspace);
        assert_eq!((found, keyspace.table().len()), (1, 0));
        // That round met it; the one after meets none, and is the last.
        assert!(sweep.begin(&keyspace));
        while sweep.look(&keyspace, &mut looked, &mut found).unwrap() {}
        sweep.end(&keyspace);
        assert!(!sweep.begin(&keyspace));
    }
}
