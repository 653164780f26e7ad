//! A failed growth of the image, so that not every allocation without space tries it again at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Heap, ImageError, Persist};

/// How long it is not tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The last growth, if it failed.
#[derive(Debug, Default)]
pub(crate) struct NoGrowth(Mutex<Option<Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    at: Instant,
    /// How many chunks in a row were wanted, and how many the image was to have for it.
    span: u64,
    chunks: u64,
    why: String,
}

impl NoGrowth {
    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a growth to this many chunks if one to as many or fewer has just failed.
    pub(super) fn check(&self, chunks: u64, wanted: u64) -> Result<(), ImageError> {
        match &*self.lock() {
            Some(failure) if failure.chunks <= chunks && failure.at.elapsed() < PAUSE => {
                Err(ImageError::OutOfSpace { wanted, why: failure.why.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Notes the result of a growth to `chunks` chunks for a run of `span`.
    pub(super) fn note(&self, span: u64, chunks: u64, grown: &Result<(), ImageError>) {
        match grown {
            Ok(()) => *self.lock() = None,
            Err(ImageError::OutOfSpace { why, .. }) => {
                *self.lock() = Some(Failure { at: Instant::now(), span, chunks, why: why.clone() });
            }
            Err(_) => {}
        }
    }
}

impl<P: Persist> Heap<P> {
    /// Why the image could not grow when it had to, if the last growth failed for lack of space on its medium.
    /// Reaching the image's own limit is not such a failure.
    pub fn growth_failure(&self) -> Option<String> {
        self.no_growth.lock().as_ref().map(|failure| failure.why.clone())
    }

    /// Tries the last growth again if it failed, unless the needed space has become free within the image.
    pub fn retry_growth(&self) {
        let Some(Failure { span, chunks, .. }) = self.no_growth.lock().clone() else { return };
        let (known, free) = {
            let map = self.chunk_map();
            (map.chunks(), map.free())
        };
        if free >= span || known >= chunks {
            *self.no_growth.lock() = None;
        } else {
            // Why it failed again is noted.
            let _ = self.grow_by(known, chunks - known, span);
        }
    }
}
