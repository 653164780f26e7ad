//! An observer that stops a benchmark early.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_bench::{Amount, Progress};

/// Stops a benchmark after this many calls.
pub(crate) struct Impatient(AtomicU64);

impl Impatient {
    pub(crate) fn after(questions: u64) -> Impatient {
        Impatient(AtomicU64::new(questions))
    }
}

impl Progress for Impatient {
    fn begin(&self, _name: &str, _total: Amount) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn is_cancelled(&self) -> bool {
        let left = |left: u64| Some(left.saturating_sub(1));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(0)
    }
}
