//! The ways in which a batch can go to a device. A new one is added here, and set up where [`super::rig::Rig`] does.

use std::fmt;
use std::str::FromStr;

use warpkeep::{Durability, HostGetStrategy};

use super::Operation;

/// How a table that a device works is used.
///
/// ```
/// use warpkeep_bench::device::Way;
///
/// assert_eq!("cache".parse(), Ok(Way::BucketCache));
/// assert!("cloud".parse::<Way>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A thread an operation, each by itself, over the link: what the paper begins with. Gets only.
    Alone,
    /// A warp an operation, over the link: the paper's kernels without its cache.
    Image,
    /// The same, with copies of hot buckets in device memory. Gets only.
    BucketCache,
    /// The record of every key in device memory, so that the link carries values alone, as they are asked for.
    Mirror,
    /// The same as the mirror, with values fetched in the order of their addresses.
    Ordered,
    /// The same, and writes go from device memory straight through: what they need is chosen there; the host stores words and
    /// tails, if it has the cores for it. Writes only.
    Straight,
    /// The same, with the words of the index stored by the device, over the link, also where the host's cores would do it.
    StraightLink,
    /// The same, with the values that are asked for most in device memory.
    Values,
    /// From host memory through the library, with a log: written when the image has it, and behind that to the log. Writes only.
    LibraryProcess,
    /// The same, written when the log has it durably.
    LibraryPower,
    /// From host memory to host memory through the library, as a program uses it: gets go the way that their number
    /// decides. Asking for this asks for those below, too.
    Library,
    /// The same, with keys of gets in pinned memory, which the device reaches, and values to it, so that it can have a part in bringing them.
    LibraryPinned,
    /// The same, with values of gets brought by both, the device and the host.
    LibraryBoth,
    /// To any memory, with the device saying where values lie and the host copying them.
    LibraryGather,
    /// The same, with gets done by the CPU.
    LibraryCpu,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 15] = [
        Way::Alone,
        Way::Image,
        Way::BucketCache,
        Way::Mirror,
        Way::Ordered,
        Way::Straight,
        Way::StraightLink,
        Way::Values,
        Way::LibraryProcess,
        Way::LibraryPower,
        Way::Library,
        Way::LibraryPinned,
        Way::LibraryBoth,
        Way::LibraryGather,
        Way::LibraryCpu,
    ];

    /// Its name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Alone => "alone",
            Way::Image => "image",
            Way::BucketCache => "cache",
            Way::Mirror => "mirror",
            Way::Ordered => "ordered",
            Way::Straight => "straight",
            Way::StraightLink => "straight-link",
            Way::Values => "values",
            Way::LibraryProcess => "library-process",
            Way::LibraryPower => "library-power",
            Way::Library => "library",
            Way::LibraryPinned => "library-pinned",
            Way::LibraryBoth => "library-both",
            Way::LibraryGather => "library-gather",
            Way::LibraryCpu => "library-cpu",
        }
    }

    /// Whether it is one of the library.
    pub const fn is_library(self) -> bool {
        matches!(self, Way::Library | Way::LibraryPinned | Way::LibraryBoth)
            || matches!(self, Way::LibraryGather | Way::LibraryCpu)
            || self.is_logged()
    }

    /// Whether its store has a log.
    pub const fn is_logged(self) -> bool {
        matches!(self, Way::LibraryProcess | Way::LibraryPower)
    }

    /// Whether its gets have keys and values in pinned memory.
    pub(crate) const fn is_pinned(self) -> bool {
        matches!(self, Way::LibraryPinned | Way::LibraryBoth)
    }

    /// The durability of its writes.
    pub(crate) const fn durability(self) -> Durability {
        match self {
            Way::LibraryPower => Durability::Power,
            _ => Durability::Process,
        }
    }

    /// The way that the library's gets are to go; `None` if it chooses, or it is not the library.
    pub(crate) const fn get_way(self) -> Option<HostGetStrategy> {
        match self {
            Way::LibraryBoth => Some(HostGetStrategy::Split),
            Way::LibraryGather => Some(HostGetStrategy::Gather),
            Way::LibraryCpu => Some(HostGetStrategy::Cpu),
            _ => None,
        }
    }

    /// The variants that a request for it includes.
    pub(crate) fn with_kin(self) -> &'static [Way] {
        let found = Way::ALL.iter().position(|&way| way == self).unwrap_or(0);
        match self {
            Way::Library => &Way::ALL[found..],
            _ => &Way::ALL[found..=found],
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        let found = Way::ALL.into_iter().find(|way| way.name() == text);
        found.ok_or_else(|| {
            format!(
                "`{text}` is no way to use a device; there are: alone, image, cache, mirror, ordered, straight, straight-link, values, \
                 library-process, library-power, library, library-pinned, library-both, library-gather, library-cpu"
            )
        })
    }
}

/// A way with its settings: a compared variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) way: Way,
    /// The share of the buckets that have copies, or of the values that are in device memory, from 0 to 1.
    pub(crate) share: f64,
}

impl Variant {
    pub(crate) fn name(self) -> String {
        match self.way {
            Way::Alone => "over the link, a thread each".to_owned(),
            Way::Image => "over the link".to_owned(),
            Way::BucketCache => format!("bucket cache, {:.0} %", 100.0 * self.share),
            Way::Mirror => "mirror".to_owned(),
            Way::Ordered => "mirror, values in order".to_owned(),
            Way::Straight => "mirror, written straight".to_owned(),
            Way::StraightLink => "mirror, written straight, words over the link".to_owned(),
            // Shares of a small cache differ after the decimal point.
            Way::Values => format!("value cache, {} %", (1000.0 * self.share).round() / 10.0),
            Way::LibraryProcess => "library, logged, process".to_owned(),
            Way::LibraryPower => "library, logged, power".to_owned(),
            Way::Library => "library, host to host".to_owned(),
            Way::LibraryPinned => "library, pinned memory to pinned memory".to_owned(),
            Way::LibraryBoth => "library, pinned memory, by both".to_owned(),
            Way::LibraryGather => "library, gathered by the host".to_owned(),
            Way::LibraryCpu => "library, by the CPU".to_owned(),
        }
    }

    /// Whether the device has the record of every key.
    pub(crate) fn has_mirror(self) -> bool {
        matches!(self.way, Way::Mirror | Way::Ordered)
            || matches!(self.way, Way::Straight | Way::StraightLink | Way::Values)
    }

    /// Whether it does such operations.
    pub(crate) fn does(self, operation: Operation) -> bool {
        match self.way {
            Way::Alone | Way::BucketCache => operation.only_reads(),
            Way::Straight | Way::StraightLink | Way::LibraryProcess | Way::LibraryPower => {
                !operation.only_reads()
            }
            Way::Library => operation != Operation::Locate,
            Way::LibraryPinned | Way::LibraryBoth | Way::LibraryGather | Way::LibraryCpu => {
                matches!(operation, Operation::Get | Operation::AbsentGet)
            }
            Way::Image | Way::Mirror | Way::Ordered | Way::Values => true,
        }
    }

    /// Whether keys and answers of gets lie in device memory.
    pub(crate) fn is_on_device(self) -> bool {
        !self.way.is_library()
    }
}
