//! How a long benchmark reports its progress, and is asked to stop.

use crate::BenchError;

/// The unit of an amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Things.
    Count(u64),
}

/// An observer of a benchmark.
pub trait Progress: Sync {
    /// A piece of work begins.
    fn begin(&self, name: &str, total: Amount);

    /// Some of it is done, in the unit it was begun with.
    fn advance(&self, amount: u64);

    /// It is finished.
    fn finish(&self);

    /// Whether the benchmark should stop and clean up.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// An error if the benchmark should stop.
    fn check(&self) -> Result<(), BenchError> {
        if self.is_cancelled() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}

/// No observer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn begin(&self, _name: &str, _total: Amount) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}
}
