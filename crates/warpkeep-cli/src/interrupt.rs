//! Ctrl-C: stop at the next good moment and clean up. A second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Whether a signal asked the program to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    wanted: Arc<AtomicBool>,
    /// The signal.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            let doing = || Failure::io("listen for signals");
            let wanted = || Arc::clone(&interrupt.wanted);
            // In this order: the first signal finds the flag unset and sets it, and only the second ends the
            // program.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, wanted())
                .map_err(doing())?;
            let number = Arc::clone(&interrupt.signal);
            signal_hook::flag::register_usize(signal, number, signal.unsigned_abs() as usize)
                .map_err(doing())?;
            signal_hook::flag::register(signal, wanted()).map_err(doing())?;
        }
        Ok(interrupt)
    }

    /// For work that cannot stop half way: no handler is installed, so that a signal ends the program at once, as
    /// by default.
    pub(crate) fn never() -> Interrupt {
        Interrupt::default()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// An error if the program should stop.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.check_or("nothing was left behind")
    }

    /// An error with the given progress, if the program should stop.
    pub(crate) fn check_or(&self, standing: &str) -> Result<(), Failure> {
        match self.is_wanted() {
            true => Err(Failure::Interrupted {
                message: format!("interrupted; {standing}"),
                signal: self.signal.load(Ordering::Relaxed) as u8,
            }),
            false => Ok(()),
        }
    }
}
