//! The fault model: the states that a crash may leave.
//!
//! # Which crash
//!
//! | [`Crash`] | the memory | the files |
//! | --- | --- | --- |
//! | `Process` | every store executed | every write issued |
//! | `PowerVolatile` | lost | as after a power cut |
//! | `PowerPersistent(model)` | as the model allows | as after a power cut |
//!
//! A process may also die in the middle of a write: then a prefix of the words (of a file write: of the
//! sectors) is there. Bytes that a dead process left in the caches and in the page cache are still at risk if the
//! power fails later, during recovery: the explorer tracks them.
//!
//! # Memory when the power goes
//!
//! The unit is the aligned 8-byte word, which is never torn. A store is *guaranteed* once the line it went to
//! was flushed after it, and the thread that flushed has fenced since; a sync of the memory guarantees
//! everything. Of the stores that are not guaranteed,
//!
//! - [`MemoryModel::X86Lines`] keeps, of each 64-byte line on its own, a prefix in program order: caches of x86
//!   write whole lines back, whenever they like;
//! - [`MemoryModel::Words`] keeps any subset: each word on its own is at its guaranteed value or at any that
//!   was stored since. Stores of a GPU over the link may behave so, and it includes the other model.
//!
//! The length a memory has grown to may be missing, with all stores beyond it, until it is synced.
//!
//! # Files when the power goes
//!
//! The unit is the 512-byte sector, which is never torn. Of the sectors written since their file's last sync,
//! each on its own is as it was or as it was after any of the writes to it. The length is what it was at the
//! last sync or any it has had since; bytes beyond the last durable one that were not kept read as zeros.
//! A sync that fails promises nothing, then or later: see [`LabDisk`](crate::LabDisk).
//!
//! Creations, renames and removals since the last sync of the directory may each be missing, except that one
//! is there only if those before it that touch the same name are. A rename is atomic: the file is
//! under the one name or under the other.
//!
//! # Not modelled
//!
//! A medium that reports a sync it did not do, bits that rot, and stores that bypass the recorder. The explorer
//! looks for the last, and reports them.

use std::fmt;

/// Bytes in a cache line.
pub(crate) const LINE: u64 = 64;
/// Bytes in a sector.
pub(crate) const SECTOR: u64 = 512;

/// How stores that were not made durable may survive a power cut on a persistent medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryModel {
    /// Of each 64-byte line a prefix, in program order.
    X86Lines,
    /// Of all words any subset.
    Words,
}

/// The part that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crash {
    /// The process.
    Process,
    /// The machine, and the memory is not persistent: only the files are left.
    PowerVolatile,
    /// The machine, and the memory is persistent.
    PowerPersistent(MemoryModel),
}

impl Crash {
    /// Whether it takes the machine down.
    pub fn is_power(self) -> bool {
        self != Crash::Process
    }

    /// Whether this can happen to a machine whose power failed like `earlier` before: a machine has one kind of
    /// memory.
    pub(crate) fn can_follow(self, earlier: Option<Crash>) -> bool {
        earlier.is_none_or(|earlier| !self.is_power() || self.class() == earlier.class())
    }

    /// How the power went last, if ever, given how it had gone before.
    pub(crate) fn power_after(self, earlier: Option<Crash>) -> Option<Crash> {
        if self.is_power() { Some(self) } else { earlier }
    }

    /// The distinction that a check can see: the same image is the same test under either memory model.
    pub(crate) fn class(self) -> u8 {
        match self {
            Crash::Process => 0,
            Crash::PowerVolatile => 1,
            Crash::PowerPersistent(_) => 2,
        }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Crash::Process => "the process died",
            Crash::PowerVolatile => "the power went, and the memory with it",
            Crash::PowerPersistent(MemoryModel::X86Lines) => "the power went (memory by lines)",
            Crash::PowerPersistent(MemoryModel::Words) => "the power went (memory by words)",
        })
    }
}
