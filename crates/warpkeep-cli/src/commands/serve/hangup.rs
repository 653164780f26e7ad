//! SIGHUP: settings are to be read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGHUP;

use crate::failure::Failure;

/// Whether a signal requested that the settings be read again.
pub(super) struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Hangup, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).map_err(Failure::io("listen for signals"))?;
        Ok(Hangup(asked))
    }

    /// Whether it was requested since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
