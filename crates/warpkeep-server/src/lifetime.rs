//! The lifetime of an item, as commands specify it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::item::LAST;

/// memcached takes longer times for dates.
const MONTH: i64 = 60 * 60 * 24 * 30;

/// How long an item is to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As long as it would have.
    Keep,
    /// For ever.
    Never,
    /// Milliseconds from now.
    In(u64),
    /// Until then, in milliseconds since 1970.
    Until(u64),
    /// It is gone already.
    Gone,
}

impl Lifetime {
    /// Decodes memcached's expiry times.
    pub(crate) fn memcached(seconds: i64) -> Lifetime {
        match seconds {
            0 => Lifetime::Never,
            ..0 => Lifetime::Gone,
            1..=MONTH => Lifetime::In(seconds as u64 * 1000),
            _ => Lifetime::Until((seconds as u64).saturating_mul(1000)),
        }
    }

    /// The moment, in milliseconds since 1970; 0 is never. `before` is the item's current one.
    pub(crate) fn moment(self, now: u64, before: u64) -> u64 {
        match self {
            Lifetime::Keep => before,
            Lifetime::Never => 0,
            Lifetime::In(time) => now.saturating_add(time).min(LAST),
            // 0 would be for ever.
            Lifetime::Until(moment) => moment.clamp(1, LAST),
            Lifetime::Gone => 1,
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memcached_takes_long_times_for_dates() {
        assert_eq!(Lifetime::memcached(MONTH), Lifetime::In(2_592_000_000));
        assert_eq!(Lifetime::memcached(MONTH + 1), Lifetime::Until(2_592_001_000));
        assert_eq!(Lifetime::memcached(-1).moment(500, 0), 1);
        assert_eq!(Lifetime::memcached(0).moment(500, 7), 0);
        assert_eq!(Lifetime::Keep.moment(500, 7), 7);
        assert_eq!(Lifetime::In(5).moment(500, 7), 505);
    }
}
