//! Which way batches of gets go, from host memory to host memory, where a device works the table: measured as they come, for each size.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use warpkeep_record::Chooser;

/// How a batch of gets is done whose keys and answers are in host memory: [`StoreOptions::get_way`](crate::StoreOptions).
///
/// ```
/// use warpkeep::GetWay;
///
/// assert_eq!("gather".parse(), Ok(GetWay::Gather));
/// assert_eq!(GetWay::Fetch.to_string(), "fetch");
/// assert!("fly".parse::<GetWay>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GetWay {
    /// The CPU looks the keys up, with as many threads as the store may use.
    Cpu,
    /// The device says where the values lie, and the CPU copies them. Only tables that have a
    /// [mirror](crate::DeviceIndex::Mirrored); the CPU does it for others.
    Gather,
    /// The device fetches the values.
    Fetch,
    /// Both: the device fetches some of the values and writes them to where they are wanted, and the CPU copies the others meanwhile; so many each that they are done at
    /// the same time. Only to [memory that the device reaches](crate::Device::pin), and only tables that have a mirror; `Gather` for others.
    Both,
}

impl GetWay {
    /// All of them.
    pub const ALL: [GetWay; 4] = [GetWay::Cpu, GetWay::Gather, GetWay::Fetch, GetWay::Both];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            GetWay::Cpu => "cpu",
            GetWay::Gather => "gather",
            GetWay::Fetch => "fetch",
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
        found.ok_or_else(|| format!("`{text}` is no way to do gets; there are: cpu, gather, fetch, both"))
    }
}

/// What is known of one way for batches of one size: see [`Table::get_ways`](crate::Table::get_ways).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WayFigures {
    /// For batches of so many keys, to twice as many.
    pub keys: u64,
    /// The way.
    pub way: GetWay,
    /// How long a key took lately.
    pub nanos_per_key: f64,
    /// Batches that went this way.
    pub batches: u64,
    /// Whether it is the one that batches of this size take.
    pub chosen: bool,
}

/// The smallest batches that are told apart have so many keys, as a power of two; smaller ones are taken together with them.
const SMALLEST: u32 = 9;
/// Sizes that are told apart.
const CLASSES: usize = 16;

/// What is known of the ways of one table.
#[derive(Default)]
pub(crate) struct Ways {
    classes: [Mutex<Chooser<{ GetWay::ALL.len() }>>; CLASSES],
    /// Batches that went each way, and how many of them the recorder knows.
    batches: [AtomicU64; GetWay::ALL.len()],
    handed_on: [AtomicU64; GetWay::ALL.len()],
}

fn class_of(keys: usize) -> usize {
    (keys.max(1).ilog2().saturating_sub(SMALLEST) as usize).min(CLASSES - 1)
}

impl Ways {
    fn class(&self, number: usize) -> MutexGuard<'_, Chooser<{ GetWay::ALL.len() }>> {
        self.classes[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way of the next batch of so many keys, of those that are open.
    pub(crate) fn choose(&self, keys: usize, is_open: impl Fn(GetWay) -> bool) -> GetWay {
        GetWay::ALL[self.class(class_of(keys)).choose(GetWay::ALL.map(is_open))]
    }

    /// A batch of so many keys went this way.
    pub(crate) fn note(&self, way: GetWay, keys: usize, took: Duration) {
        self.batches[way as usize].fetch_add(1, Ordering::Relaxed);
        let nanos = took.as_nanos() as f64 / keys.max(1) as f64;
        self.class(class_of(keys)).note(way as usize, nanos);
    }

    pub(crate) fn figures(&self) -> Vec<WayFigures> {
        let mut figures = Vec::new();
        for number in 0..CLASSES {
            let class = self.class(number);
            for way in GetWay::ALL {
                let (nanos_per_key, batches) = class.known(way as usize);
                let chosen = class.chosen() == Some(way as usize);
                let keys = 1 << (SMALLEST as usize + number);
                figures.push(WayFigures { keys, way, nanos_per_key, batches, chosen });
            }
        }
        figures.retain(|figures| figures.batches > 0);
        figures
    }

    /// Tells the recorder how many batches have gone each way since the last time.
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
    fn sizes_are_told_apart() {
        let ways = Ways::default();
        for keys in [1, 512, 1023, 1024, 1 << 20, usize::MAX] {
            ways.note(GetWay::Gather, keys, Duration::from_micros(1));
        }
        let figures: Vec<(u64, u64)> =
            ways.figures().iter().map(|figures| (figures.keys, figures.batches)).collect();
        assert_eq!(figures, [(512, 3), (1024, 1), (1 << 20, 1), (1 << 24, 1)]);
    }
}
