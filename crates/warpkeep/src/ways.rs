//! The strategy for batches of gets from host memory to host memory, for tables on a device.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use warpkeep_gphash::gpu::DeviceProfile;

/// How a batch of gets is done whose keys and answers are in host memory: [`StoreOptions::get_way`](crate::StoreOptions).
///
/// ```
/// use warpkeep::GetWay;
///
/// assert_eq!("gather".parse(), Ok(GetWay::Gather));
/// assert_eq!(GetWay::Both.to_string(), "both");
/// assert!("fly".parse::<GetWay>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GetWay {
    /// The CPU looks the keys up, with as many threads as the store may use.
    Cpu,
    /// The device says where the values lie, and the CPU copies them. Only tables that have a
    /// [mirror](crate::DeviceIndex::Mirrored), and tables whose values have any length, which come through the device; the CPU does it for
    /// others.
    Gather,
    /// Both: the device fetches some of the values and writes them to their destination, and the CPU copies the
    /// others meanwhile; the split is such that both finish at the same time. Only to [memory that the device
    /// reaches](crate::Device::pin), and only for tables with a mirror; `Gather` for others.
    Both,
}

impl GetWay {
    /// All of them.
    pub const ALL: [GetWay; 3] = [GetWay::Cpu, GetWay::Gather, GetWay::Both];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            GetWay::Cpu => "cpu",
            GetWay::Gather => "gather",
            GetWay::Both => "both",
        }
    }
}

impl fmt::Display for GetWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for GetWay {
    type Err = String;

    fn from_str(text: &str) -> Result<GetWay, String> {
        let found = GetWay::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| format!("`{text}` is no way to do gets; there are: cpu, gather, both"))
    }
}

/// How many batches were done by one strategy: see [`Table::get_ways`](crate::Table::get_ways).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WayFigures {
    /// The strategy.
    pub way: GetWay,
    /// Batches that it did.
    pub batches: u64,
}

/// Counts the batches of one table by strategy.
#[derive(Default)]
pub(crate) struct Ways {
    /// Batches of each strategy, and how many of them the recorder knows.
    batches: [AtomicU64; GetWay::ALL.len()],
    handed_on: [AtomicU64; GetWay::ALL.len()],
}

/// The strategy for a batch of gets of this many keys, of those available.
pub(crate) fn strategy(profile: &DeviceProfile, keys: usize, is_open: impl Fn(GetWay) -> bool) -> GetWay {
    match () {
        () if keys >= profile.shared_from && is_open(GetWay::Both) => GetWay::Both,
        () if keys >= profile.gathered_from && is_open(GetWay::Gather) => GetWay::Gather,
        () => GetWay::Cpu,
    }
}

impl Ways {
    /// Counts a batch.
    pub(crate) fn note(&self, way: GetWay) {
        self.batches[way as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The strategies that did at least one batch.
    pub(crate) fn figures(&self) -> Vec<WayFigures> {
        let of =
            |way: GetWay| WayFigures { way, batches: self.batches[way as usize].load(Ordering::Relaxed) };
        GetWay::ALL.map(of).into_iter().filter(|figures| figures.batches > 0).collect()
    }

    /// Passes the number of batches of each strategy since the last call to the recorder.
    pub(crate) fn publish(&self, table: &str) {
        for way in GetWay::ALL {
            let now = self.batches[way as usize].load(Ordering::Relaxed);
            let new = now - self.handed_on[way as usize].swap(now, Ordering::Relaxed);
            if new > 0 {
                let labels = [("table", table.to_owned()), ("way", way.name().to_owned())];
                metrics::counter!("warpkeep_get_batches_total", &labels).increment(new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strategy_follows_from_the_number_of_keys() {
        let profile = DeviceProfile::default();
        let of = |keys, open: &[GetWay]| strategy(&profile, keys, |way| open.contains(&way));
        let all = &GetWay::ALL[..];
        assert_eq!([0, 511].map(|keys| of(keys, all)), [GetWay::Cpu; 2]);
        assert_eq!([512, (1 << 18) - 1].map(|keys| of(keys, all)), [GetWay::Gather; 2]);
        assert_eq!(of(1 << 18, all), GetWay::Both);
        assert_eq!(of(1 << 18, &[GetWay::Cpu, GetWay::Gather]), GetWay::Gather);
        assert_eq!(of(1 << 20, &[GetWay::Cpu]), GetWay::Cpu);
    }

    #[test]
    fn batches_are_counted_by_strategy() {
        let ways = Ways::default();
        assert!(ways.figures().is_empty());
        [GetWay::Gather, GetWay::Cpu, GetWay::Gather].into_iter().for_each(|way| ways.note(way));
        let figures: Vec<_> = ways.figures().iter().map(|figures| (figures.way, figures.batches)).collect();
        assert_eq!(figures, [(GetWay::Cpu, 1), (GetWay::Gather, 2)]);
    }
}
