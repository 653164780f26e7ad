//! The progress of long work.

use std::fmt;
use std::sync::Arc;

/// Steps between two reports: often enough for people, and too seldom to be felt.
const EVERY: u64 = 1 << 10;

/// Is called with how much of about how much is done.
type Tell = dyn Fn(u64, u64) + Send + Sync;

/// Receives the progress of long work: rebuilding an image, checking a store. Unused by default.
///
/// ```
/// use warpkeep::{Store, StoreOptions, WorkProgress, verify};
/// # let directory = tempfile::tempdir().unwrap();
/// Store::open(directory.path())?.close()?;
/// let progress = WorkProgress::new(|done, total| println!("{done} of about {total} items"));
/// verify(directory.path(), &StoreOptions { progress, ..StoreOptions::default() })?;
/// # Ok::<(), warpkeep::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct WorkProgress(Option<Arc<Tell>>);

impl WorkProgress {
    /// Reports to this function, from the thread that does the work.
    pub fn new(tell: impl Fn(u64, u64) + Send + Sync + 'static) -> WorkProgress {
        WorkProgress(Some(Arc::new(tell)))
    }

    /// Counts the steps of work; `total` is about how many it has.
    pub(crate) fn steps(&self, total: u64) -> Steps {
        let steps = Steps { progress: self.clone(), done: 0, total };
        steps.tell();
        steps
    }
}

impl fmt::Debug for WorkProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkProgress").field(&self.0.is_some()).finish()
    }
}

/// Steps that are counted, and reported now and then.
pub(crate) struct Steps {
    progress: WorkProgress,
    done: u64,
    total: u64,
}

impl Steps {
    /// One more is done.
    #[inline]
    pub(crate) fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(EVERY) {
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(tell) = &self.progress.0 {
            // The total is an estimate, and must not be less than the done part.
            tell(self.done, self.total.max(self.done));
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.tell();
    }
}
