//! How the values of batches of gets in device memory are fetched: as they come, in the order of their addresses, or by the cores of the host.
//! Measured, for it depends on the link, the image, the keys and the cores.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use warpkeep_device::{Device, DeviceChoice, DeviceError, Event, Stream};
use warpkeep_record::Chooser;

use crate::TableError;

/// Batches from this size on are ordered where it is not measured: what that costs is less than what it saves. A simulator has no link, and tests of small
/// batches want both.
const USUALLY_FROM: usize = 1 << 12;
const SIMULATED_FROM: usize = 1 << 16;
/// Those from this size on always are, as a power of two.
const ALWAYS_ORDERED: u32 = 20;
/// Of smaller ones than this values are fetched as they come, by the device. Sizes that are told apart are each twice the one before; what is larger
/// counts as the last of them.
const SMALLEST: u32 = 10;
const CLASSES: usize = 16;
/// Of batches that go the usual way one in so many is measured.
const SAMPLE: u64 = 16;
/// Nobody has said from which size on.
const MEASURED: usize = usize::MAX;
/// The largest size that can be said.
const NEVER: usize = usize::MAX - 1;

/// Who fetches the values of batches of gets whose keys and answers lie in device memory, where both could:
/// [`DeviceEngine::fetch_values_by`](super::DeviceEngine::fetch_values_by).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ValuesBy {
    /// The device, over the link.
    #[default]
    Device,
    /// The cores of the host: the device says which records they are, and copies up what the host has gathered while its kernel waits; what it
    /// waits for in vain it fetches itself. Only from tables that have a [mirror](super::DeviceEngine::load_mirror) which tells keys apart, of values
    /// of whole words, and while there is no value cache.
    Host,
    /// Whichever is faster for batches of that size, as they come.
    Faster,
}

/// How the values of a batch are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetching {
    /// By the device, in the order of the batch.
    AsTheyCome,
    /// By the device, in the order of their addresses.
    Ordered,
    /// By the host.
    ByHost,
}

const WAYS: [Fetching; 3] = [Fetching::AsTheyCome, Fetching::Ordered, Fetching::ByHost];
const AS_THEY_COME: usize = Fetching::AsTheyCome as usize;
const ORDERED: usize = Fetching::Ordered as usize;
const BY_HOST: usize = Fetching::ByHost as usize;

/// How values are fetched.
pub(super) struct Order {
    from: AtomicUsize,
    by: AtomicU8,
    classes: [Mutex<Chooser<{ WAYS.len() }>>; CLASSES],
}

/// What is to be measured of a batch.
pub(super) struct Measured {
    class: usize,
    way: usize,
    keys: usize,
    begun: Event,
    done: Event,
}

impl Order {
    /// Measured on a GPU. The simulator takes no time that says anything.
    pub(super) fn on(device: &Device) -> Order {
        let from = match device.choice() {
            DeviceChoice::Cuda(_) => MEASURED,
            DeviceChoice::Cpu | DeviceChoice::Sim => SIMULATED_FROM,
        };
        // The host only on request: it has to wake its threads, and its batches then differ in how long they take.
        let by = AtomicU8::new(ValuesBy::Device as u8);
        Order { from: AtomicUsize::new(from), by, classes: Default::default() }
    }

    /// From so many keys on, from now on.
    pub(super) fn set_from(&self, keys: usize) {
        self.from.store(keys.min(NEVER), Ordering::Relaxed);
    }

    /// As is measured, from now on.
    pub(super) fn measure(&self) {
        self.from.store(MEASURED, Ordering::Relaxed);
    }

    /// By these, from now on.
    pub(super) fn set_by(&self, by: ValuesBy) {
        self.by.store(by as u8, Ordering::Relaxed);
    }

    fn by(&self) -> ValuesBy {
        let by = self.by.load(Ordering::Relaxed);
        let all = [ValuesBy::Device, ValuesBy::Host];
        all.into_iter().find(|one| *one as u8 == by).unwrap_or(ValuesBy::Faster)
    }

    /// The size of a batch; `None` if it is too small for there to be a choice.
    fn class(keys: usize) -> Option<usize> {
        let class = keys.max(1).ilog2().checked_sub(SMALLEST)?;
        Some((class as usize).min(CLASSES - 1))
    }

    /// Whether a device that fetches the values of so many keys puts them in order, as far as is known.
    pub(super) fn usual(&self, keys: usize) -> bool {
        match (self.from.load(Ordering::Relaxed), Order::class(keys)) {
            (MEASURED, None) => false,
            (MEASURED, Some(_)) if keys.ilog2() >= ALWAYS_ORDERED => true,
            (MEASURED, Some(class)) => {
                let chooser = self.lock(class);
                chooser.chosen().map_or(keys >= USUALLY_FROM, |chosen| match chosen {
                    BY_HOST => chooser.known(ORDERED).0 < chooser.known(AS_THEY_COME).0,
                    chosen => chosen == ORDERED,
                })
            }
            (from, _) => keys >= from,
        }
    }

    /// How the values of so many keys are fetched; of a batch that is to be measured, from here in the stream on. `can` says whether the
    /// host could.
    pub(super) fn choose(
        &self,
        keys: usize,
        can: impl FnOnce() -> bool,
        device: &Device,
        stream: &Stream,
    ) -> Result<(Fetching, Option<Measured>), TableError> {
        let by = self.by();
        let usual = || if self.usual(keys) { Fetching::Ordered } else { Fetching::AsTheyCome };
        if by == ValuesBy::Host {
            return Ok((if can() { Fetching::ByHost } else { usual() }, None));
        }
        let (MEASURED, Some(class)) = (self.from.load(Ordering::Relaxed), Order::class(keys)) else {
            return Ok((usual(), None));
        };
        let bits = keys.ilog2();
        let open = [bits < ALWAYS_ORDERED, true, by == ValuesBy::Faster && can()];
        if open.into_iter().filter(|&open| open).count() == 1 {
            return Ok((usual(), None));
        }
        let (way, is_sample) = {
            let mut chooser = self.lock(class);
            let way = chooser.choose(open);
            (way, chooser.chosen() != Some(way) || chooser.seen().is_multiple_of(SAMPLE))
        };
        if !is_sample {
            return Ok((WAYS[way], None));
        }
        let measured = Measured { class, way, keys, begun: device.event()?, done: device.event()? };
        measured.begin(stream)?;
        Ok((WAYS[way], Some(measured)))
    }

    /// A batch that was measured is done.
    pub(super) fn note(&self, measured: &Measured) -> Result<(), TableError> {
        let took = measured.done.elapsed_since(&measured.begun)?;
        let nanos = took.as_nanos() as f64 / measured.keys.max(1) as f64;
        self.lock(measured.class).note(measured.way, nanos);
        Ok(())
    }

    /// The smallest batches that are put in order.
    pub(super) fn from(&self) -> usize {
        match self.from.load(Ordering::Relaxed) {
            MEASURED => {
                let mut sizes = (SMALLEST..ALWAYS_ORDERED).map(|bits| 1 << bits);
                sizes.find(|&keys| self.usual(keys)).unwrap_or(1 << ALWAYS_ORDERED)
            }
            from => from,
        }
    }

    fn lock(&self, class: usize) -> std::sync::MutexGuard<'_, Chooser<{ WAYS.len() }>> {
        self.classes[class].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measured {
    /// The batch begins here in the stream, and not where it was chosen.
    pub(super) fn begin(&self, stream: &Stream) -> Result<(), DeviceError> {
        self.begun.record(stream)
    }

    /// All of the batch is in the stream.
    pub(super) fn end(&self, stream: &Stream) -> Result<(), DeviceError> {
        self.done.record(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Order {
        let by = AtomicU8::new(ValuesBy::Faster as u8);
        let from = AtomicUsize::new(MEASURED);
        Order { from, by, classes: Default::default() }
    }

    #[test]
    fn small_ones_never_and_large_ones_always() {
        let order = measured();
        assert!(!order.usual(0) && !order.usual(1023) && order.usual(1 << 20) && order.usual(usize::MAX));
        assert!(!order.usual(4095) && order.usual(4096), "until it is known, as usual");
        assert_eq!(order.from(), 4096);
    }

    /// Measures batches of each size, with what a key takes each way.
    fn measure(order: &Order, open: [bool; 3], nanos: impl Fn(usize, usize) -> f64) {
        for class in 0..CLASSES {
            let mut chooser = order.lock(class);
            for _ in 0..20 {
                let way = chooser.choose(open);
                chooser.note(way, nanos(class, way));
            }
        }
    }

    #[test]
    fn what_is_measured_counts() {
        let order = measured();
        // In order is better from the fifth on.
        measure(
            &order,
            [true, true, false],
            |class, way| {
                if (way == ORDERED) == (class >= 4) { 10.0 } else { 20.0 }
            },
        );
        assert_eq!(order.from(), 1 << 14);
        assert!(!order.usual(8192) && order.usual(20_000) && !order.usual(2000));
    }

    #[test]
    fn what_the_device_does_itself_is_known_where_the_host_is_faster() {
        let order = measured();
        measure(&order, [true; 3], |class, way| match way {
            BY_HOST => 5.0,
            ORDERED if class >= 5 => 10.0,
            AS_THEY_COME => 15.0,
            _ => 20.0,
        });
        assert_eq!(order.from(), 1 << 15);
    }

    #[test]
    #[cfg(not(no_simulator))]
    fn the_host_is_tried_where_it_can_and_taken_where_it_is_faster() {
        let device = Device::simulated(warpkeep_device::Mode::fast()).unwrap();
        let stream = device.stream().unwrap();
        let order = measured();
        let choose = |keys: usize, can: bool| order.choose(keys, || can, &device, &stream).unwrap();
        let ways = |keys: usize, can: bool| {
            // What the simulator measures says nothing: it is put in place of it.
            let (way, measured) = choose(keys, can);
            if let Some(measured) = measured {
                let nanos = [50.0, 100.0, if keys == 65_536 { 200.0 } else { 20.0 }][way as usize];
                order.lock(measured.class).note(measured.way, nanos);
            }
            way
        };
        for (keys, expected) in [(8192, Fetching::ByHost), (65_536, Fetching::AsTheyCome)] {
            let went: Vec<Fetching> = (0..60).map(|_| ways(keys, true)).collect();
            let tried = |way| went.iter().filter(|&&went| went == way).count();
            assert!(WAYS.into_iter().all(|way| tried(way) >= 3), "{went:?}");
            assert!(tried(expected) > 40, "{went:?}");
        }
        // Large ones never go as they come.
        for keys in [1 << 20, 1 << 30] {
            let went: Vec<Fetching> = (0..60).map(|_| ways(keys, true)).collect();
            assert!(!went.contains(&Fetching::AsTheyCome), "{went:?}");
            assert!(went.iter().filter(|&&went| went == Fetching::ByHost).count() > 40, "{went:?}");
            assert!((0..10).all(|_| ways(keys, false) == Fetching::Ordered));
        }
        // Where it cannot, or may not, it is not taken.
        assert!((0..40).all(|_| ways(8192, false) != Fetching::ByHost));
        let went: Vec<Fetching> = (0..10).map(|_| ways(1024, false)).collect();
        assert!([Fetching::AsTheyCome, Fetching::Ordered].iter().all(|way| went.contains(way)), "{went:?}");
        assert!((0..10).all(|_| ways(512, true) == Fetching::AsTheyCome));
        order.set_by(ValuesBy::Device);
        assert!((0..40).all(|_| ways(8192, true) != Fetching::ByHost));
        order.set_by(ValuesBy::Host);
        assert_eq!(choose(1, true).0, Fetching::ByHost);
        assert_eq!(choose(1 << 20, false).0, Fetching::Ordered);
    }

    #[test]
    fn what_is_said_counts_more() {
        let order = measured();
        order.set_from(10);
        assert!(order.usual(10) && !order.usual(9));
        order.set_from(usize::MAX);
        assert!(!order.usual(1 << 30));
        order.measure();
        assert!(order.usual(1 << 30));
    }
}
