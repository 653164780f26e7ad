//! How much device memory a handle may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{DeviceError, Result};

/// A count of bytes that must not pass a limit. What is charged here is charged to the budget above as well.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    above: Option<Arc<Budget>>,
}

impl Budget {
    pub(crate) fn unlimited() -> Arc<Self> {
        Arc::new(Self { limit: u64::MAX, used: AtomicU64::new(0), above: None })
    }

    pub(crate) fn inside(above: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), above: Some(above.clone()) })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What is left here and in every budget above.
    pub(crate) fn left(&self) -> u64 {
        let here = self.limit.saturating_sub(self.used());
        self.above.as_ref().map_or(here, |above| here.min(above.left()))
    }

    /// Takes `bytes`, and gives them back when the charge is dropped.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge> {
        if !self.take(bytes) {
            return Err(DeviceError::OutOfBudget { asked: bytes, left: self.left() });
        }
        Ok(Charge { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: u64) -> bool {
        let grown = |used: u64| used.checked_add(bytes).filter(|&used| used <= self.limit);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_err() {
            return false;
        }
        if self.above.as_ref().is_some_and(|above| !above.take(bytes)) {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.give_back(bytes);
        }
    }
}

/// Bytes taken from a budget for as long as this lives.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_counts_here_and_above_and_is_given_back() {
        let whole = Budget::inside(&Budget::unlimited(), 100);
        let part = Budget::inside(&whole, 60);
        let first = part.charge(50).unwrap();
        assert_eq!((part.left(), whole.left()), (10, 50));
        assert!(matches!(part.charge(11), Err(DeviceError::OutOfBudget { asked: 11, left: 10 })));
        drop(first);
        assert_eq!((part.left(), whole.left()), (60, 100));
    }

    #[test]
    fn what_the_budget_above_refuses_is_not_charged_below() {
        let whole = Budget::inside(&Budget::unlimited(), 10);
        let part = Budget::inside(&whole, 60);
        assert!(matches!(part.charge(11), Err(DeviceError::OutOfBudget { asked: 11, left: 10 })));
        assert_eq!((part.used(), whole.used()), (0, 0));
        assert!(Budget::unlimited().charge(u64::MAX).is_ok());
    }
}
