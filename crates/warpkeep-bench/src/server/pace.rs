//! When a connection sends its next request.

/// Requests of an open loop that may be in flight on a connection: more would only fill buffers.
const MOST_OPEN: usize = 1 << 16;

/// The pace of a connection.
#[derive(Clone, Debug)]
pub(super) enum Pace {
    /// As soon as fewer than this many wait for an answer.
    Closed {
        /// Requests that wait at most.
        depth: usize,
    },
    /// At fixed times, whether or not there are answers. The latency of a late request counts from when it was due:
    /// a server that stalls is charged for all requests it delayed.
    Open {
        /// When the first is due.
        begin: f64,
        /// Nanoseconds between two.
        interval: f64,
        /// How many were sent.
        turn: u64,
    },
}

impl Pace {
    /// `rate` requests a second, over `of` connections in turns.
    pub(super) fn open(rate: f64, place: usize, of: usize) -> Pace {
        let all = 1e9 / rate;
        Pace::Open { begin: all * place as f64, interval: all * of as f64, turn: 0 }
    }

    /// The moment at which the next request is or was due, if it may be sent now.
    #[inline]
    pub(super) fn next(&mut self, now: u64, outstanding: usize) -> Option<u64> {
        match self {
            Pace::Closed { depth } => (outstanding < *depth).then_some(now),
            Pace::Open { begin, interval, turn } => {
                let intended = (*begin + *interval * *turn as f64) as u64;
                if intended > now || outstanding >= MOST_OPEN {
                    return None;
                }
                *turn += 1;
                Some(intended)
            }
        }
    }

    /// When the next is due; `None` if that depends on answers.
    pub(super) fn due(&self) -> Option<u64> {
        match self {
            Pace::Closed { .. } => None,
            Pace::Open { begin, interval, turn } => Some((begin + interval * *turn as f64) as u64),
        }
    }

    /// Whether it follows the clock.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Pace::Open { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_loops_are_on_time_and_late_ones_keep_their_time() {
        // 1000 a second over 2 connections: this one has the odd milliseconds.
        let mut pace = Pace::open(1000.0, 1, 2);
        assert_eq!(pace.next(999_999, 0), None);
        assert_eq!(pace.next(1_000_000, 0), Some(1_000_000));
        assert_eq!(pace.due(), Some(3_000_000));
        let late: Vec<u64> = std::iter::from_fn(|| pace.next(8_000_000, 5)).collect();
        assert_eq!(late, [3_000_000, 5_000_000, 7_000_000]);
        assert_eq!(pace.next(20_000_000, MOST_OPEN), None);
    }

    #[test]
    fn closed_loops_wait_for_answers() {
        let mut pace = Pace::Closed { depth: 2 };
        assert_eq!((pace.next(5, 1), pace.next(5, 2), pace.due()), (Some(5), None, None));
    }
}
