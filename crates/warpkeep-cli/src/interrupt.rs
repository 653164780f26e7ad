//! Ctrl-C: stop at the next good moment and clean up. A second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether somebody wants the program to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let doing = || Failure::io("listen for signals");
            // In this order: the first signal finds the flag down, sets it, and only the second ends the program.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&wanted))
                .map_err(doing())?;
            signal_hook::flag::register(signal, Arc::clone(&wanted)).map_err(doing())?;
        }
        Ok(Interrupt(wanted))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error if the program should stop.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.check_or("nothing was left behind")
    }

    /// An error if the program should stop that says how things stand.
    pub(crate) fn check_or(&self, standing: &str) -> Result<(), Failure> {
        match self.is_wanted() {
            true => Err(Failure::error(format!("interrupted; {standing}"))),
            false => Ok(()),
        }
    }
}
