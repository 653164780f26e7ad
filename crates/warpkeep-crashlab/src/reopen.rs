//! What a check is given: the machine after the crash.

use std::fmt;
use std::sync::Arc;

use crate::disk::LabDisk;
use crate::memory::{LabMemory, check_lengths};
use crate::model::Crash;
use crate::pool::Pool;
use crate::trace::Trace;

/// What a crash left, ready to be opened by the real recovery code.
///
/// Memory and disk record into a trace of their own, from which the explorer crashes the recovery; the check is
/// then called again with what that crash left. A check must therefore be a function of what it is given here.
///
/// A check may also go on working after it has recovered, and [`ack`](Reopen::ack) what it did: the marks are
/// in [`acked`](Reopen::acked) of the check that follows.
pub struct Reopen<'a> {
    pub(crate) trace: Trace,
    pub(crate) memory: Option<LabMemory>,
    pub(crate) disk: LabDisk,
    pub(crate) crash: Crash,
    pub(crate) power_lost: bool,
    pub(crate) acked: &'a [u64],
    pub(crate) pool: Pool,
}

impl Reopen<'_> {
    /// The memory that is left; `None` if it was lost, or had not been made when the crash came.
    pub fn memory(&self) -> Option<LabMemory> {
        self.memory.clone()
    }

    /// New memory, all zeros, where none is left.
    ///
    /// # Panics
    /// If there is memory, or a length is not a multiple of 64.
    pub fn new_memory(&self, len: u64, capacity: u64) -> LabMemory {
        check_lengths(len, capacity);
        let buffer = self.pool.take(capacity, len, |bytes| bytes.fill(0));
        LabMemory::made(&self.trace, Arc::clone(&buffer), &[], capacity)
    }

    /// The files that are left.
    pub fn disk(&self) -> LabDisk {
        self.disk.clone()
    }

    /// What went down, the last time if it was more than once.
    pub fn crash(&self) -> Crash {
        self.crash
    }

    /// Whether the power went, this time or before: what was promised to outlive the process only may be gone.
    pub fn power_lost(&self) -> bool {
        self.power_lost
    }

    /// The marks made before the crash, in order.
    pub fn acked(&self) -> &[u64] {
        self.acked
    }

    /// Marks something that a later crash must not undo.
    pub fn ack(&self, tag: u64) {
        self.trace.ack(tag);
    }

    /// The trace that memory and disk record into.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl fmt::Debug for Reopen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Reopen");
        f.field("crash", &self.crash).field("power_lost", &self.power_lost).field("acked", &self.acked);
        f.field("memory", &self.memory).field("disk", &self.disk).finish()
    }
}
