//! Progress bars, shown on a terminal only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use warpkeep::WorkProgress;
use warpkeep_bench::{Amount, Progress};

use crate::interrupt::Interrupt;

const COUNTED: &str = "{msg} [{bar:30}] {human_pos}/{human_len} {eta}";
const BYTES: &str = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const WAITING: &str = "{msg} {spinner} {elapsed}";

/// One bar at a time on standard error.
pub(crate) struct Bars {
    bar: Mutex<ProgressBar>,
    interrupt: Interrupt,
    shown: bool,
}

impl Bars {
    /// `shown` has no effect without a terminal.
    pub(crate) fn new(shown: bool, interrupt: &Interrupt) -> Bars {
        Bars { bar: Mutex::new(ProgressBar::hidden()), interrupt: interrupt.clone(), shown }
    }

    /// A bar for work that reports its progress in bytes.
    pub(crate) fn bytes(&self, name: &'static str) -> ByteProgress<'_> {
        ByteProgress { bars: self, name, begun: false, done: 0 }
    }

    /// A bar for work of the library that reports how far it is.
    pub(crate) fn watching(self: &Arc<Bars>, name: &'static str) -> WorkProgress {
        let (bars, begun) = (Arc::clone(self), AtomicBool::new(false));
        WorkProgress::new(move |done, total| {
            if !begun.swap(true, Ordering::Relaxed) {
                bars.begin(name, Amount::Count(total.max(2)));
            }
            let bar = bars.bar();
            bar.set_length(total);
            bar.set_position(done);
        })
    }

    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Bars {
    fn begin(&self, name: &str, total: Amount) {
        if !self.shown {
            return;
        }
        let (total, template) = match total {
            Amount::Count(1) => (1, WAITING),
            Amount::Count(total) => (total, COUNTED),
            Amount::Bytes(total) => (total, BYTES),
        };
        let bar = ProgressBar::new(total).with_message(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        std::mem::replace(&mut *self.bar(), bar).finish_and_clear();
    }

    fn advance(&self, amount: u64) {
        self.bar().inc(amount);
    }

    fn finish(&self) {
        self.bar().finish_and_clear();
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.is_wanted()
    }
}

/// Work that is counted in bytes; the total is known when it begins.
pub(crate) struct ByteProgress<'a> {
    bars: &'a Bars,
    name: &'static str,
    begun: bool,
    done: u64,
}

impl ByteProgress<'_> {
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        if !self.begun {
            self.bars.begin(self.name, Amount::Bytes(total));
            self.begun = true;
        }
        self.bars.advance(done.saturating_sub(self.done));
        self.done = done;
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.bar().finish_and_clear();
    }
}
