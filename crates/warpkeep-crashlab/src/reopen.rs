//! The argument of a check: the machine after the crash.

use std::fmt;
use std::sync::Arc;

use crate::disk::LabDisk;
use crate::memory::{LabMemory, check_lengths};
use crate::model::Crash;
use crate::pool::Pool;
use crate::trace::Trace;

/// The state after a crash, ready to be opened by the real recovery code.
///
/// Memory and disk record into a trace of their own, from which the explorer crashes the recovery; the check is
/// then called again with the state after that crash. A check must therefore depend only on its argument.
///
/// A check may also continue to work after it has recovered, and [`ack`](Reopen::ack) the work: the marks are in
/// [`acked`](Reopen::acked) of the next check.
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
    /// The remaining memory; `None` if it was lost, or did not exist at the crash.
    pub fn memory(&self) -> Option<LabMemory> {
        self.memory.clone()
    }

    /// New memory, all zeros, if none is left.
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

    /// The part that failed; in the last crash if there were several.
    pub fn crash(&self) -> Crash {
        self.crash
    }

    /// Whether the power failed, this time or before: writes promised to survive only the process may be lost.
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
