//! How many writes of a table this process has begun and ended, so that a program can tell whether rows that it holds are still those
//! of the table. One process writes to a store, so that no other one has to be asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;

/// The writes of one table.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    begun: AtomicU64,
    ended: AtomicU64,
    steps: OnceLock<Py<PyAny>>,
}

impl Writes {
    /// Counts a write from now until the answer is dropped.
    pub(crate) fn begin(&self) -> Write<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Write(self)
    }

    /// A lock of Python's for programs that read rows, change and put them, one at a time.
    pub(crate) fn steps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lock = match self.steps.get() {
            Some(lock) => lock,
            None => {
                // Made before, so that no Python runs while another thread waits for it.
                let made = py.import("threading")?.call_method0("RLock")?.unbind();
                self.steps.get_or_init(|| made)
            }
        };
        Ok(lock.bind(py).clone())
    }

    /// How many writes there were; `None` while one is under way.
    pub(crate) fn mark(&self) -> Option<u64> {
        // What had ended before has begun before. If the two are the same, no write was under way between the two loads.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended).then_some(begun)
    }
}

/// A write that is under way.
pub(crate) struct Write<'a>(&'a Writes);

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// The writes of all tables of a store, by the numbers of the tables.
#[derive(Debug, Default)]
pub(crate) struct AllWrites(Mutex<HashMap<u32, Arc<Writes>>>);

impl AllWrites {
    /// Those of the table with this number.
    pub(crate) fn of(&self, table: u32) -> Arc<Writes> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(table).or_default())
    }
}
