//! The ways in which a batch can go to a device. A new one is added here, and set up where [`super::rig::Rig`] does.

use std::fmt;
use std::str::FromStr;

use warpkeep::{Durability, HostGetStrategy};

use super::Operation;

/// How a table that a device works is used.
///
/// ```
/// use warpkeep_bench::device::Strategy;
///
/// assert_eq!("cache".parse(), Ok(Strategy::BucketCache));
/// assert!("cloud".parse::<Strategy>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A thread an operation, each by itself, over the link: what the paper begins with. Gets only.
    Alone,
    /// A warp an operation, over the link: the paper's kernels without its cache.
    Image,
    /// The same, with copies of hot buckets in device memory. Gets only.
    BucketCache,
    /// The device index locates records, so that the link carries values only, in the order of the keys.
    Index,
    /// The same, with values fetched in address order.
    Ordered,
    /// Fused writes from device memory; the host publishes slot words and record trailers if it has the cores for it. Writes only.
    Fused,
    /// Fused writes whose slot words the device stores over the link.
    FusedLink,
    /// The same, with the values that are asked for most in device memory.
    Values,
    /// From host memory through the library, with a log: written when the image has it, and behind that to the log. Writes only.
    LibraryProcess,
    /// The same, written when the log has it durably.
    LibraryPower,
    /// From host memory to host memory through the library, as a program uses it: the device profile decides how gets
    /// run. Asking for this asks for those below, too.
    Library,
    /// The same, with keys of gets in pinned memory, which the device reaches, and values to it, so that it can have a part in bringing them.
    LibraryPinned,
    /// The same, with values of gets brought by both, the device and the host.
    LibrarySplit,
    /// To any memory, with the device saying where values lie and the host copying them.
    LibraryGather,
    /// The same, with gets done by the CPU.
    LibraryCpu,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Strategy; 15] = [
        Strategy::Alone,
        Strategy::Image,
        Strategy::BucketCache,
        Strategy::Index,
        Strategy::Ordered,
        Strategy::Fused,
        Strategy::FusedLink,
        Strategy::Values,
        Strategy::LibraryProcess,
        Strategy::LibraryPower,
        Strategy::Library,
        Strategy::LibraryPinned,
        Strategy::LibrarySplit,
        Strategy::LibraryGather,
        Strategy::LibraryCpu,
    ];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Alone => "alone",
            Strategy::Image => "image",
            Strategy::BucketCache => "cache",
            Strategy::Index => "index",
            Strategy::Ordered => "ordered",
            Strategy::Fused => "fused",
            Strategy::FusedLink => "fused-link",
            Strategy::Values => "values",
            Strategy::LibraryProcess => "library-process",
            Strategy::LibraryPower => "library-power",
            Strategy::Library => "library",
            Strategy::LibraryPinned => "library-pinned",
            Strategy::LibrarySplit => "library-split",
            Strategy::LibraryGather => "library-gather",
            Strategy::LibraryCpu => "library-cpu",
        }
    }

    /// Whether it is one of the library.
    pub const fn is_library(self) -> bool {
        matches!(self, Strategy::Library | Strategy::LibraryPinned | Strategy::LibrarySplit)
            || matches!(self, Strategy::LibraryGather | Strategy::LibraryCpu)
            || self.is_logged()
    }

    /// Whether its store has a log.
    pub const fn is_logged(self) -> bool {
        matches!(self, Strategy::LibraryProcess | Strategy::LibraryPower)
    }

    /// Whether its gets have keys and values in pinned memory.
    pub(crate) const fn is_pinned(self) -> bool {
        matches!(self, Strategy::LibraryPinned | Strategy::LibrarySplit)
    }

    /// The durability of its writes.
    pub(crate) const fn durability(self) -> Durability {
        match self {
            Strategy::LibraryPower => Durability::Power,
            _ => Durability::Process,
        }
    }

    /// The way that the library's gets are to go; `None` if it chooses, or it is not the library.
    pub(crate) const fn host_gets(self) -> Option<HostGetStrategy> {
        match self {
            Strategy::LibrarySplit => Some(HostGetStrategy::Split),
            Strategy::LibraryGather => Some(HostGetStrategy::Gather),
            Strategy::LibraryCpu => Some(HostGetStrategy::Cpu),
            _ => None,
        }
    }

    /// The variants that a request for it includes.
    pub(crate) fn with_kin(self) -> &'static [Strategy] {
        let found = Strategy::ALL.iter().position(|&strategy| strategy == self).unwrap_or(0);
        match self {
            Strategy::Library => &Strategy::ALL[found..],
            _ => &Strategy::ALL[found..=found],
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        let found = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text);
        found.ok_or_else(|| {
            format!(
                "`{text}` is no strategy of a device; there are: alone, image, cache, index, ordered, fused, fused-link, values, \
                 library-process, library-power, library, library-pinned, library-split, library-gather, library-cpu"
            )
        })
    }
}

/// A way with its settings: a compared variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) strategy: Strategy,
    /// The share of the buckets that have copies, or of the values that are in device memory, from 0 to 1.
    pub(crate) share: f64,
}

impl Variant {
    pub(crate) fn name(self) -> String {
        match self.strategy {
            Strategy::Alone => "over the link, a thread each".to_owned(),
            Strategy::Image => "over the link".to_owned(),
            Strategy::BucketCache => format!("bucket cache, {:.0} %", 100.0 * self.share),
            Strategy::Index => "index".to_owned(),
            Strategy::Ordered => "index, values in order".to_owned(),
            Strategy::Fused => "fused writes".to_owned(),
            Strategy::FusedLink => "fused writes, words over the link".to_owned(),
            // Shares of a small cache differ after the decimal point.
            Strategy::Values => format!("value cache, {} %", (1000.0 * self.share).round() / 10.0),
            Strategy::LibraryProcess => "library, logged, process".to_owned(),
            Strategy::LibraryPower => "library, logged, power".to_owned(),
            Strategy::Library => "library, host to host".to_owned(),
            Strategy::LibraryPinned => "library, pinned memory to pinned memory".to_owned(),
            Strategy::LibrarySplit => "library, pinned memory, split".to_owned(),
            Strategy::LibraryGather => "library, gathered by the host".to_owned(),
            Strategy::LibraryCpu => "library, by the CPU".to_owned(),
        }
    }

    /// Whether the device has the record of every key.
    pub(crate) fn has_index(self) -> bool {
        matches!(self.strategy, Strategy::Index | Strategy::Ordered)
            || matches!(self.strategy, Strategy::Fused | Strategy::FusedLink | Strategy::Values)
    }

    /// Whether it does such operations.
    pub(crate) fn does(self, operation: Operation) -> bool {
        match self.strategy {
            Strategy::Alone | Strategy::BucketCache => operation.only_reads(),
            Strategy::Fused | Strategy::FusedLink | Strategy::LibraryProcess | Strategy::LibraryPower => {
                !operation.only_reads()
            }
            Strategy::Library => operation != Operation::Locate,
            Strategy::LibraryPinned
            | Strategy::LibrarySplit
            | Strategy::LibraryGather
            | Strategy::LibraryCpu => {
                matches!(operation, Operation::Get | Operation::AbsentGet)
            }
            Strategy::Image | Strategy::Index | Strategy::Ordered | Strategy::Values => true,
        }
    }

    /// Whether keys and answers of gets lie in device memory.
    pub(crate) fn is_on_device(self) -> bool {
        !self.strategy.is_library()
    }
}
