//! SIGHUP: settings are to be read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGHUP;

use crate::failure::Failure;

/// Whether somebody wants the settings to be read again.
pub(super) struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// Listens from now on.
    pub(super) fn listen() -> Result<Hangup, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&asked)).map_err(Failure::io("listen for signals"))?;
        Ok(Hangup(asked))
    }

    /// Whether it was asked since the last time.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
