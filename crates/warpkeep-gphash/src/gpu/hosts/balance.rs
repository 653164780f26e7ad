//! How a batch is divided between a device and the host that answer it together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Sizes of batches that are told apart: powers of two.
const CLASSES: usize = 32;
/// What the device takes until more is known; and at least and at most, so that of both it is known how fast they are.
const FIRST: f64 = 0.4;
const LEAST: f64 = 0.05;
/// Keys that the device takes are a multiple of those of a warp.
const WARP: usize = 32;

/// The share of the keys that the device takes, for each size of batches: such that both are done at the same time.
#[derive(Debug, Default)]
pub(in crate::gpu) struct Balance(Mutex<Shares>);

#[derive(Debug, Default)]
struct Shares {
    set: Option<f64>,
    measured: [Option<f64>; CLASSES],
}

/// What one of the two has done: so many keys, in so long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) keys: usize,
    pub(super) took: Duration,
}

impl Done {
    /// Keys a second; `None` of nothing.
    fn rate(self) -> Option<f64> {
        let seconds = self.took.as_secs_f64();
        (self.keys > 0 && seconds > 0.0).then(|| self.keys as f64 / seconds)
    }
}

fn class_of(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}

impl Balance {
    fn shares(&self) -> std::sync::MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the device take this share, or what is measured.
    pub(in crate::gpu) fn set(&self, share: Option<f64>) {
        self.shares().set = share.map(|share| share.clamp(0.0, 1.0));
    }

    /// How many of so many keys the device takes.
    pub(super) fn part(&self, keys: usize) -> usize {
        let shares = self.shares();
        let share = shares.set.or(shares.measured[class_of(keys)]).unwrap_or(FIRST);
        ((keys as f64 * share) as usize).next_multiple_of(WARP).min(keys)
    }

    /// How long both took: half the way to what would have been right this time, since one batch in a few is held up by something else.
    pub(super) fn note(&self, device: Done, host: Done) {
        let (Some(device_rate), Some(host_rate)) = (device.rate(), host.rate()) else { return };
        let right = device_rate / (device_rate + host_rate);
        let measured = &mut self.shares().measured[class_of(device.keys + host.keys)];
        let before = measured.unwrap_or(right);
        *measured = Some(((before + right) / 2.0).clamp(LEAST, 1.0 - LEAST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device and a host of these rates, in keys a microsecond, for some batches; the share of the device in the end.
    fn after(batches: usize, keys: usize, device: f64, host: f64) -> f64 {
        let balance = Balance::default();
        for _ in 0..batches {
            let part = balance.part(keys);
            let done = |keys: usize, rate: f64| Done {
                keys,
                took: Duration::from_secs_f64(keys as f64 / rate / 1e6),
            };
            balance.note(done(part, device), done(keys - part, host));
        }
        balance.part(keys) as f64 / keys as f64
    }

    #[test]
    fn both_are_done_at_the_same_time_after_a_few_batches() {
        assert!((after(8, 1 << 20, 300.0, 300.0) - 0.5).abs() < 0.01);
        assert!((after(8, 1 << 20, 100.0, 300.0) - 0.25).abs() < 0.01);
        // Whoever is far slower keeps a little, and so can be found to have become faster.
        assert!((after(8, 1 << 20, 1.0, 300.0) - LEAST).abs() < 0.01);
        assert!((after(8, 1 << 20, 300.0, 1.0) - 1.0 + LEAST).abs() < 0.01);
    }

    #[test]
    fn what_is_set_counts_and_sizes_are_told_apart() {
        let balance = Balance::default();
        assert_eq!([0, 1, 31, 100, 1000].map(|keys| balance.part(keys)), [0, 0, 31, 64, 416]);
        let done = |keys, micros| Done { keys, took: Duration::from_micros(micros) };
        balance.note(done(500, 100), done(500, 300));
        assert_eq!(balance.part(1000), 768);
        assert_eq!(balance.part(100_000), 40_000);
        balance.set(Some(0.0));
        assert_eq!(balance.part(1000), 0);
        balance.set(Some(7.0));
        assert_eq!(balance.part(1000), 1000);
        balance.set(None);
        assert_eq!(balance.part(1000), 768);
        // Nothing is learnt of those who did nothing.
        balance.note(done(1000, 1), done(0, 1));
        balance.note(done(500, 0), done(500, 1));
        assert_eq!(balance.part(1000), 768);
    }
}
