//! Launches of a batch, as the threads see them that wait for what each of them brings.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use warpkeep_device::DeviceError;

use crate::TableError;
use crate::gpu::engine::Workplace;

/// Turns that a thread looks whether somebody else has seen a launch arrive, before it waits itself: to sleep and be woken takes as long as
/// most launches.
const LOOKS: u32 = 4096;

/// Launches that come to be while others wait for them already.
pub(super) struct Launches<'p>(Vec<Launch<'p>>);

#[derive(Default)]
struct Launch<'p> {
    /// Where it is under way; `None` if it never will be.
    place: OnceLock<Option<&'p Workplace>>,
    is_waited_for: AtomicBool,
    arrived: OnceLock<Result<(), DeviceError>>,
}

/// Whoever waits for a launch that has not come by now waits no longer, whatever has happened.
pub(super) struct End<'l, 'p>(&'l Launches<'p>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        for launch in &self.0.0 {
            let _ = launch.place.set(None);
        }
    }
}

impl<'p> Launches<'p> {
    /// So many.
    pub(super) fn new(count: usize) -> Launches<'p> {
        Launches((0..count).map(|_| Launch::default()).collect())
    }

    /// To be dropped by whoever launches, when it is done with that.
    pub(super) fn end(&self) -> End<'_, 'p> {
        End(self)
    }

    /// A launch is in the stream of its place.
    pub(super) fn under_way(&self, number: usize, place: &'p Workplace) {
        let _ = self.0[number].place.set(Some(place));
    }

    /// The place of a launch that has arrived; `None` if it failed. Whoever comes first waits for the device, the others look at what it saw.
    pub(super) fn wait_for(&self, number: usize) -> Option<&'p Workplace> {
        let Launch { place, is_waited_for, arrived } = &self.0[number];
        look_for(place);
        let place = (*place.wait())?;
        if is_waited_for.swap(true, Ordering::Relaxed) {
            look_for(arrived);
        }
        // Two may wait for one stream; both see the same.
        arrived.get_or_init(|| place.stream.synchronize()).is_ok().then_some(place)
    }

    /// The first error, if there was one. Nothing is under way by then.
    pub(super) fn finish(self) -> Result<(), TableError> {
        let launches = self.0.into_iter().filter_map(|Launch { place, arrived, .. }| {
            let place = place.into_inner().flatten();
            arrived.into_inner().or_else(|| place.map(|place| place.stream.synchronize()))
        });
        // All of them, also after an error.
        let arrived: Vec<Result<(), DeviceError>> = launches.collect();
        arrived.into_iter().try_for_each(|arrived| arrived.map_err(TableError::from))
    }
}

/// Looks for a while whether something has come.
fn look_for<T>(coming: &OnceLock<T>) {
    for _ in 0..LOOKS {
        if coming.get().is_some() {
            return;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_never_comes() {
        let launches = Launches::new(3);
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
    #[cfg(not(no_simulator))]
    fn what_is_under_way_arrives_for_everybody() {
        let device = warpkeep_device::Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let place = Workplace::new(&device).unwrap();
        let launches = Launches::new(2);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4).map(|_| scope.spawn(|| launches.wait_for(0).is_some())).collect();
            let end = launches.end();
            launches.under_way(0, &place);
            drop(end);
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
            assert!(launches.wait_for(1).is_none());
        });
        launches.finish().unwrap();
    }
}
