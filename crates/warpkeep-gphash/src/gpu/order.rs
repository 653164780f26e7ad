//! From which size on batches of gets are put in the order of their addresses: measured, for it depends on the link, the image and the keys.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use warpkeep_device::{Device, DeviceChoice, Event, Stream};
use warpkeep_record::Chooser;

use crate::TableError;

/// Batches from this size on are ordered where it is not measured: what that costs is less than what it saves.
const USUALLY_FROM: usize = 1 << 16;
/// Smaller batches never are, and those of twice the largest of these always.
const SMALLEST: u32 = 12;
const CLASSES: usize = 8;
/// Of batches that go the usual way one in so many is measured.
const SAMPLE: u64 = 16;
/// Nobody has said from which size on.
const MEASURED: usize = usize::MAX;
/// The largest size that can be said.
const NEVER: usize = usize::MAX - 1;

const ORDERED: usize = 1;

/// When batches are put in order.
pub(super) struct Order {
    from: AtomicUsize,
    classes: [Mutex<Chooser<2>>; CLASSES],
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
            DeviceChoice::Cpu | DeviceChoice::Sim => USUALLY_FROM,
        };
        Order { from: AtomicUsize::new(from), classes: Default::default() }
    }

    /// From so many keys on, from now on.
    pub(super) fn set_from(&self, keys: usize) {
        self.from.store(keys.min(NEVER), Ordering::Relaxed);
    }

    fn class(keys: usize) -> Result<usize, bool> {
        let bits = keys.max(1).ilog2();
        match bits.checked_sub(SMALLEST) {
            None => Err(false),
            Some(class) if class as usize >= CLASSES => Err(true),
            Some(class) => Ok(class as usize),
        }
    }

    /// Whether a batch of so many keys is put in order, as far as is known.
    pub(super) fn usual(&self, keys: usize) -> bool {
        match (self.from.load(Ordering::Relaxed), Order::class(keys)) {
            (MEASURED, Err(always)) => always,
            (MEASURED, Ok(class)) => {
                let chosen = self.lock(class).chosen();
                chosen.map_or(keys >= USUALLY_FROM, |chosen| chosen == ORDERED)
            }
            (from, _) => keys >= from,
        }
    }

    /// The same, for a batch that may be measured, from here in the stream on.
    pub(super) fn choose(
        &self,
        keys: usize,
        device: &Device,
        stream: &Stream,
    ) -> Result<(bool, Option<Measured>), TableError> {
        let (MEASURED, Ok(class)) = (self.from.load(Ordering::Relaxed), Order::class(keys)) else {
            return Ok((self.usual(keys), None));
        };
        let (way, is_sample) = {
            let mut chooser = self.lock(class);
            let way = chooser.choose([true; 2]);
            (way, chooser.chosen() != Some(way) || chooser.seen().is_multiple_of(SAMPLE))
        };
        if !is_sample {
            return Ok((way == ORDERED, None));
        }
        let measured = Measured { class, way, keys, begun: device.event()?, done: device.event()? };
        measured.begun.record(stream)?;
        Ok((way == ORDERED, Some(measured)))
    }

    /// A batch that was measured is done.
    pub(super) fn note(&self, measured: &Measured) -> Result<(), TableError> {
        let took: Duration = measured.done.elapsed_since(&measured.begun)?;
        let nanos = took.as_nanos() as f64 / measured.keys.max(1) as f64;
        self.lock(measured.class).note(measured.way, nanos);
        Ok(())
    }

    /// The smallest batches that are put in order.
    pub(super) fn from(&self) -> usize {
        match self.from.load(Ordering::Relaxed) {
            MEASURED => {
                let sizes = (0..CLASSES).map(|class| 1 << (SMALLEST as usize + class));
                sizes.into_iter().find(|&keys| self.usual(keys)).unwrap_or(1 << (SMALLEST as usize + CLASSES))
            }
            from => from,
        }
    }

    fn lock(&self, class: usize) -> std::sync::MutexGuard<'_, Chooser<2>> {
        self.classes[class].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Measured {
    /// All of the batch is in the stream.
    pub(super) fn end(&self, stream: &Stream) -> Result<(), TableError> {
        Ok(self.done.record(stream)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Order {
        Order { from: AtomicUsize::new(MEASURED), classes: Default::default() }
    }

    #[test]
    fn small_ones_never_and_large_ones_always() {
        let order = measured();
        assert!(!order.usual(0) && !order.usual(4095) && order.usual(1 << 20) && order.usual(usize::MAX));
        assert!(!order.usual(4096) && order.usual(1 << 16), "until it is known, as usual");
        assert_eq!(order.from(), 1 << 16);
    }

    #[test]
    fn what_is_measured_counts() {
        let order = measured();
        for class in 0..CLASSES {
            let mut chooser = order.lock(class);
            for _ in 0..20 {
                let way = chooser.choose([true; 2]);
                // In order is better from the third on.
                chooser.note(way, if (way == ORDERED) == (class >= 2) { 10.0 } else { 20.0 });
            }
        }
        assert_eq!(order.from(), 1 << 14);
        assert!(!order.usual(8192) && order.usual(20_000));
    }

    #[test]
    fn what_is_said_counts_more() {
        let order = measured();
        order.set_from(10);
        assert!(order.usual(10) && !order.usual(9));
        order.set_from(usize::MAX);
        assert!(!order.usual(1 << 30));
    }
}
