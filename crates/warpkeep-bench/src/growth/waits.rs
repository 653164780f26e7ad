//! Latencies, separated by whether the scheduler had given the processor to another thread: the rest is waiting for
//! locks, for memory, and for the host of a virtual machine.

use std::time::Duration;

use crate::measure::Latencies;

/// Latencies of one thread's operations.
pub(super) struct Waits {
    pub(super) all: Latencies,
    /// The latencies of operations that were not preempted.
    pub(super) undisturbed: Latencies,
}

impl Waits {
    pub(super) fn new() -> Waits {
        Waits { all: Latencies::new(), undisturbed: Latencies::new() }
    }

    pub(super) fn record(&mut self, took: Duration, preempted: bool) {
        self.all.record(took);
        if !preempted {
            self.undisturbed.record(took);
        }
    }
}

/// Detects whether this thread has been preempted since the last call.
pub(super) struct Scheduler {
    switches: i64,
}

impl Scheduler {
    pub(super) fn watch() -> Scheduler {
        Scheduler { switches: involuntary_switches() }
    }

    pub(super) fn preempted(&mut self) -> bool {
        let before = std::mem::replace(&mut self.switches, involuntary_switches());
        self.switches != before
    }
}

#[allow(unsafe_code, reason = "no safe wrapper knows threads")]
fn involuntary_switches() -> i64 {
    // SAFETY: all zeros is a value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the system writes to a struct that is ours. It cannot fail with these arguments.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preempted_operations_are_told_apart() {
        let mut waits = Waits::new();
        waits.record(Duration::from_micros(5), false);
        waits.record(Duration::from_millis(4), true);
        assert!(waits.all.micros(100.0) > 3000.0 && waits.undisturbed.micros(100.0) < 10.0);
    }

    #[test]
    fn a_thread_that_sleeps_is_not_preempted() {
        let mut scheduler = Scheduler::watch();
        // An attempt may be unlucky, but not all of them are.
        let calm = (0..50).any(|_| {
            std::thread::sleep(Duration::from_micros(100));
            !scheduler.preempted()
        });
        assert!(calm);
    }
}
