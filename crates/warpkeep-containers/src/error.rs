//! What can go wrong with containers.

use std::io;
use std::path::PathBuf;

use warpkeep_device::DeviceError;

/// Why a container could not do something. Every message ends with what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The device said no.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file could not be read or written.
    #[error("{}: {source}; look at the path, its permissions and the space on its disk, and try again", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what was saved.
    #[error("{} is damaged: {what}; nothing was loaded from it, so take another copy of the file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file holds another kind of container, or one with other widths.
    #[error("{} holds {found}, and {expected} was to be loaded; load it as what it holds, or give another path", path.display())]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// What was to be loaded.
        expected: String,
    },
    /// Columns of one call have different lengths.
    #[error("{what}: {given} were given and {expected} are needed; give one for each key")]
    WrongLength {
        /// What there are too few or too many of.
        what: &'static str,
        /// How many were given.
        given: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A snapshot was asked to run operations that change keys, or that have kinds of their own.
    #[error("a snapshot cannot change and runs operations of one kind that only read; run these on the map")]
    ChangesSnapshot,
    /// Keys that were said to be sorted are not.
    #[error(
        "key {at} is less than the one before it; sort the keys, or use the call that takes them in any order"
    )]
    NotSorted {
        /// Where it is, counted from 0.
        at: usize,
    },
    /// Values that are no numbers are to be added or compared.
    #[error(
        "values of {bytes} bytes can be inserted and replaced, and neither added nor compared; use Upsert::Replace, or values of 4 or 8 bytes"
    )]
    NoNumbers {
        /// Bytes of a value.
        bytes: usize,
    },
    /// A container is to be larger than it can be.
    #[error(
        "{given} {what} were asked for and there can be {most}; ask for less, or make several containers"
    )]
    TooLarge {
        /// What there would be too many of.
        what: &'static str,
        /// How many were asked for.
        given: u64,
        /// How many there can be.
        most: u64,
    },
    /// A call that needs an empty container.
    #[error(
        "{what} needs an empty container, and this one has {len} keys; clear it first, or apply insertions"
    )]
    NotEmpty {
        /// The call.
        what: &'static str,
        /// How many keys there are.
        len: u64,
    },
    /// A call that needs data which the edges of a graph do not have.
    #[error(
        "{call} needs {what}, and the edges of this graph have none; make the graph with GraphOptions::{what}"
    )]
    NoEdgeData {
        /// The call.
        call: &'static str,
        /// What edges do not have.
        what: &'static str,
    },
    /// A sample whose options count from the times of seeds, of seeds that have none.
    #[error(
        "{call} was given seeds without times, and SampleOptions::{option} counts from the time of a seed; use sample_at or give DeviceSeeds::times, or leave the option out"
    )]
    NoSeedTimes {
        /// The call.
        call: &'static str,
        /// The option.
        option: &'static str,
    },
    /// A call that samples one hop was given another number of fan-outs.
    #[error(
        "sample_neighbours_on samples one hop and {given} fan-outs were given; give one, or use sample_on"
    )]
    OneHop {
        /// How many were given.
        given: usize,
    },
    /// A call for undirected graphs, of a directed one.
    #[error(
        "{call} needs an undirected graph, and this one is directed; make the graph with GraphOptions::undirected"
    )]
    Directed {
        /// The call.
        call: &'static str,
    },
    /// Ranks that an algorithm cannot begin with.
    #[error("{what}; give the ranks that an earlier call returned, or none")]
    BadRanks {
        /// What is wrong with them.
        what: String,
    },
    /// A call with device memory, of a container that has none.
    #[error("{what} works in device memory and this container is on the CPU; use the call that takes slices")]
    OnCpu {
        /// The call.
        what: &'static str,
    },
    /// A batch that would change a map which is open for kernels.
    #[error(
        "the map is open for kernels, which a batch cannot change beside; finish or drop the writer first"
    )]
    BeingWritten,
    /// The contents contradict themselves: a kernel wrote where it should not have, or there is a mistake in this crate.
    #[error(
        "the contents are not consistent: {what}; do not go on with them, load the last saved file and report this"
    )]
    Inconsistent {
        /// What was found.
        what: String,
    },
}

impl ContainerError {
    /// What the device said, if it was the device.
    pub fn device(&self) -> Option<&DeviceError> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}
