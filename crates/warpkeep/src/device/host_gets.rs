//! The strategy for batches of gets from host memory to host memory, for tables on a device.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::DeviceProfile;

/// How a batch of gets is done whose keys and answers are in host memory:
/// [`StoreOptions::host_gets`](crate::StoreOptions).
///
/// ```
/// use warpkeep::HostGetStrategy;
///
/// assert_eq!("gather".parse(), Ok(HostGetStrategy::Gather));
/// assert_eq!(HostGetStrategy::Split.to_string(), "split");
/// assert!("fly".parse::<HostGetStrategy>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HostGetStrategy {
    /// The CPU looks the keys up, with as many threads as the store may use.
    Cpu,
    /// The device locates the records, and the CPU copies the values. Only for tables with an [index in device
    /// memory](crate::DeviceIndex::Full), and for tables whose values have any length, which the device copies; the CPU
    /// does it for others.
    Gather,
    /// The device locates the records and copies a share of the values to their destination, and the CPU copies the
    /// others meanwhile; the share is such that both finish at the same time. Only to [memory that the device
    /// reaches](crate::Device::pin), and only for tables with an index in device memory; `Gather` for others. It may
    /// also be written `both`.
    Split,
}

impl HostGetStrategy {
    /// All of them.
    pub const ALL: [HostGetStrategy; 3] =
        [HostGetStrategy::Cpu, HostGetStrategy::Gather, HostGetStrategy::Split];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            HostGetStrategy::Cpu => "cpu",
            HostGetStrategy::Gather => "gather",
            HostGetStrategy::Split => "split",
        }
    }
}

impl fmt::Display for HostGetStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for HostGetStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<HostGetStrategy, String> {
        let found = HostGetStrategy::ALL.into_iter().find(|strategy| strategy.name() == text);
        let found = found.or((text == "both").then_some(HostGetStrategy::Split));
        found.ok_or_else(|| format!("`{text}` is no strategy for gets; there are: cpu, gather, split"))
    }
}

/// How many batches one strategy did: see [`Table::host_get_batches`](crate::Table::host_get_batches).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostGetBatches {
    /// The strategy.
    pub strategy: HostGetStrategy,
    /// Batches that it did.
    pub batches: u64,
}

/// Counts the batches of one table by strategy.
#[derive(Default)]
pub(crate) struct HostGetCounts {
    batches: [AtomicU64; HostGetStrategy::ALL.len()],
    /// How many of them the metrics recorder knows.
    recorded: [AtomicU64; HostGetStrategy::ALL.len()],
}

/// The strategy for a batch of gets of this many keys, of those that are possible.
pub(crate) fn strategy(
    profile: &DeviceProfile,
    keys: usize,
    is_possible: impl Fn(HostGetStrategy) -> bool,
) -> HostGetStrategy {
    match () {
        () if keys >= profile.shared_from && is_possible(HostGetStrategy::Split) => HostGetStrategy::Split,
        () if keys >= profile.gathered_from && is_possible(HostGetStrategy::Gather) => {
            HostGetStrategy::Gather
        }
        () => HostGetStrategy::Cpu,
    }
}

impl HostGetCounts {
    /// Counts a batch.
    pub(crate) fn count(&self, strategy: HostGetStrategy) {
        self.batches[strategy as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The strategies that did at least one batch.
    pub(crate) fn batches(&self) -> Vec<HostGetBatches> {
        let of = |strategy: HostGetStrategy| HostGetBatches {
            strategy,
            batches: self.batches[strategy as usize].load(Ordering::Relaxed),
        };
        HostGetStrategy::ALL.map(of).into_iter().filter(|counted| counted.batches > 0).collect()
    }

    /// Passes the number of batches of each strategy since the last call to the metrics recorder.
    pub(crate) fn publish(&self, table: &str) {
        for strategy in HostGetStrategy::ALL {
            let now = self.batches[strategy as usize].load(Ordering::Relaxed);
            let new = now - self.recorded[strategy as usize].swap(now, Ordering::Relaxed);
            if new > 0 {
                let labels = [("table", table.to_owned()), ("strategy", strategy.name().to_owned())];
                metrics::counter!("warpkeep_get_batches_total", &labels).increment(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::HostGetStrategy::{Cpu, Gather, Split};

    #[test]
    fn the_strategy_follows_from_the_number_of_keys() {
        let profile = DeviceProfile::default();
        let of = |keys, possible: &[HostGetStrategy]| {
            strategy(&profile, keys, |strategy| possible.contains(&strategy))
        };
        let all = &HostGetStrategy::ALL[..];
        assert_eq!([0, 511].map(|keys| of(keys, all)), [Cpu; 2]);
        assert_eq!([512, (1 << 18) - 1].map(|keys| of(keys, all)), [Gather; 2]);
        assert_eq!(of(1 << 18, all), Split);
        assert_eq!(of(1 << 18, &[Cpu, Gather]), Gather);
        assert_eq!(of(1 << 20, &[Cpu]), Cpu);
    }

    #[test]
    fn batches_are_counted_by_strategy() {
        let counts = HostGetCounts::default();
        assert!(counts.batches().is_empty());
        [Gather, Cpu, Gather].into_iter().for_each(|strategy| counts.count(strategy));
        let batches: Vec<_> =
            counts.batches().iter().map(|counted| (counted.strategy, counted.batches)).collect();
        assert_eq!(batches, [(Cpu, 1), (Gather, 2)]);
    }

    #[test]
    fn the_former_name_of_split_is_accepted() {
        for strategy in HostGetStrategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
        }
        assert_eq!("both".parse(), Ok(Split));
    }
}
