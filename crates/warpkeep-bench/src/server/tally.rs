//! The counts of a thread.

use std::time::Duration;

use crate::measure::Latencies;

/// Which answers count, in nanoseconds since the round began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// The warm-up ends.
    pub(super) from: u64,
    /// The round ends.
    pub(super) to: u64,
}

impl Window {
    #[inline]
    pub(super) fn has(self, moment: u64) -> bool {
        (self.from..self.to).contains(&moment)
    }

    pub(super) fn seconds(self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }
}

/// Answers, by kind, and the latencies of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Keys whose value was returned.
    pub(super) hits: u64,
    /// Keys that were not there.
    pub(super) misses: u64,
    /// Values stored.
    pub(super) sets: u64,
    /// Keys of requests that the server refused.
    pub(super) refused: u64,
    /// Requests that were due, but that there was no room to send.
    pub(super) unsent: u64,
    /// From when a request was sent, or should have been, until its answer was there.
    pub(super) latencies: Latencies,
    /// The server's message when it first refused.
    pub(super) first_refusal: Option<String>,
}

impl Tally {
    /// Adds a request's latency.
    #[inline]
    pub(super) fn record(&mut self, sent: u64, now: u64) {
        self.latencies.record(Duration::from_nanos(now.saturating_sub(sent)));
    }

    /// Operations that were done.
    pub(super) fn done(&self) -> u64 {
        self.hits + self.misses + self.sets
    }

    /// Adds another thread's.
    pub(super) fn add(&mut self, other: Tally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.sets += other.sets;
        self.refused += other.refused;
        self.unsent += other.unsent;
        self.latencies.add(&other.latencies);
        self.first_refusal = self.first_refusal.take().or(other.first_refusal);
    }
}
