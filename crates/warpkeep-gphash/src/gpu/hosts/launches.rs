//! Launches of a batch, as the threads see them that fill in their keys, and that wait for what each of them brings.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use warpkeep_device::{DeviceError, DevicePtr, Stream};

use super::filling::Filling;
use crate::TableError;
use crate::gpu::columns::Column;

/// Turns that a thread looks whether somebody else has seen a launch arrive, before it waits itself: to sleep and be woken takes as long as
/// most launches.
const LOOKS: u32 = 4096;

/// One of them: where its keys and its records lie, for the device, and its stream.
#[derive(Clone, Copy)]
pub(super) struct Site<'p> {
    pub(super) count: usize,
    pub(super) keys: DevicePtr,
    pub(super) records: DevicePtr,
    pub(super) stream: &'p Stream,
    /// The column that has the records, on the host.
    pub(super) column: &'p Column,
}

/// Launches that come to be while others wait for them already.
pub(super) struct Launches<'p>(Vec<Launch<'p>>);

struct Launch<'p> {
    site: Site<'p>,
    /// Keys to be filled in, of which everybody takes the next; and how many are.
    shares: Vec<Mutex<Option<Filling<'p>>>>,
    next: AtomicUsize,
    filled: AtomicUsize,
    /// Whether it is under way, or never will be.
    is_under_way: OnceLock<bool>,
    is_waited_for: AtomicBool,
    arrived: OnceLock<Result<(), DeviceError>>,
}

/// Whoever waits for a launch that has not come by now waits no longer, whatever has happened.
pub(super) struct End<'l, 'p>(&'l Launches<'p>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        for launch in &self.0.0 {
            let _ = launch.is_under_way.set(false);
        }
    }
}

/// Counts a share as done, also if it was not: nobody waits for what a panic has ended.
struct Done<'d>(&'d AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<'p> Launches<'p> {
    pub(super) fn new() -> Launches<'p> {
        Launches(Vec::new())
    }

    /// One more, whose keys are filled in by these.
    pub(super) fn add(&mut self, site: Site<'p>, shares: Vec<Filling<'p>>) {
        self.0.push(Launch {
            site,
            shares: shares.into_iter().map(|share| Mutex::new(Some(share))).collect(),
            next: AtomicUsize::new(0),
            filled: AtomicUsize::new(0),
            is_under_way: OnceLock::new(),
            is_waited_for: AtomicBool::new(false),
            arrived: OnceLock::new(),
        });
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// In how many shares the keys of one are filled in.
    pub(super) fn shares(&self, number: usize) -> usize {
        self.0[number].shares.len()
    }

    /// Fills in some keys of a launch; `false` if others have all that is left.
    pub(super) fn fill(&self, number: usize) -> bool {
        let Launch { shares, next, filled, .. } = &self.0[number];
        let Some(share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) else { return false };
        let _done = Done(filled);
        let share = share.lock().unwrap_or_else(PoisonError::into_inner).take();
        share.into_iter().for_each(Filling::fill);
        true
    }

    /// Fills in all keys of a launch that nobody else does, waits for those who do others, and says what to launch.
    pub(super) fn filled(&self, number: usize) -> Site<'p> {
        let Launch { shares, filled, site, .. } = &self.0[number];
        while self.fill(number) {}
        let mut looks = 0;
        while filled.load(Ordering::Acquire) < shares.len() {
            looks += 1;
            // Somebody who has taken a share may have lost his core.
            if looks % LOOKS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        *site
    }

    /// To be dropped by whoever launches, when it is done with that.
    pub(super) fn end(&self) -> End<'_, 'p> {
        End(self)
    }

    /// A launch is in its stream.
    pub(super) fn under_way(&self, number: usize) {
        let _ = self.0[number].is_under_way.set(true);
    }

    /// The records of a launch that has arrived; `None` if it failed. Whoever comes first waits for the device, the others look at what it saw.
    pub(super) fn wait_for(&self, number: usize) -> Option<&'p [u64]> {
        let Launch { site, is_under_way, is_waited_for, arrived, .. } = &self.0[number];
        look_for(is_under_way);
        if !*is_under_way.wait() {
            return None;
        }
        if is_waited_for.swap(true, Ordering::Relaxed) {
            look_for(arrived);
        }
        // Two may wait for one stream; both see the same.
        let arrived = arrived.get_or_init(|| site.stream.synchronize());
        arrived.is_ok().then(|| site.column.fetched::<u64>(site.count))
    }

    /// The first error, if there was one. Nothing is under way by then.
    pub(super) fn finish(self) -> Result<(), TableError> {
        let launches = self.0.into_iter().filter_map(|Launch { site, is_under_way, arrived, .. }| {
            let is_under_way = is_under_way.into_inner().unwrap_or(false);
            arrived.into_inner().or_else(|| is_under_way.then(|| site.stream.synchronize()))
        });
        // All of them, also after an error.
        let arrived: Vec<Result<(), DeviceError>> = launches.collect();
        arrived.into_iter().try_for_each(|arrived| arrived.map_err(TableError::from))
    }
}

/// Looks for a while whether something has come.
pub(super) fn look_for<T>(coming: &OnceLock<T>) {
    for _ in 0..LOOKS {
        if coming.get().is_some() {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use warpkeep_core::HostCells;

    use super::*;
    use crate::gpu::engine::Workplace;

    fn places(count: usize) -> Vec<Workplace> {
        let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        (0..count).map(|_| Workplace::new(&device).unwrap()).collect()
    }

    fn launches(places: &[Workplace]) -> Launches<'_> {
        let mut launches = Launches::new();
        for Workplace { stream, columns, .. } in places {
            let (keys, records) = (DevicePtr::NULL, DevicePtr::NULL);
            let site = Site { count: 0, keys, records, stream, column: &columns.records };
            launches.add(site, Vec::new());
        }
        launches
    }

    #[test]
    fn nobody_waits_for_what_never_comes() {
        let places = places(3);
        let launches = launches(&places);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn({
                        let launches = &launches;
                        move || launches.wait_for(number).is_none()
                    })
                })
                .collect();
            drop(launches.end());
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
        launches.finish().unwrap();
    }

    #[test]
    fn what_is_under_way_arrives_for_everybody() {
        let places = places(2);
        let launches = launches(&places);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| launches.wait_for(0).is_some())).collect();
            let end = launches.end();
            launches.under_way(0);
            drop(end);
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
            assert!(launches.wait_for(1).is_none());
        });
        launches.finish().unwrap();
    }

    /// Whoever launches goes on when the last share is there, whoever fills it in.
    #[test]
    fn keys_are_filled_in_by_whoever_comes() {
        let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let mut place = Workplace::new(&device).unwrap();
        let numbers: Vec<u64> = (0..10_000).collect();
        let cells = HostCells::Fixed { len: 8, bytes: bytemuck::cast_slice(&numbers) };
        {
            let Workplace { stream, columns, .. } = &mut place;
            let shares = Filling::values(&device, &mut columns.keys, cells, (0, 10_000), 1).unwrap();
            let (keys, records) = (DevicePtr::NULL, DevicePtr::NULL);
            let mut launches = Launches::new();
            launches.add(Site { count: 0, keys, records, stream, column: &columns.records }, shares);
            assert_eq!((launches.len(), launches.shares(0)), (1, 3));
            std::thread::scope(|scope| {
                scope.spawn(|| launches.fill(0));
                launches.filled(0);
            });
            assert!(!launches.fill(0), "there are no more");
            drop(launches.end());
            launches.finish().unwrap();
        }
        assert_eq!(place.columns.keys.fetched::<u64>(10_000), numbers);
    }
}
