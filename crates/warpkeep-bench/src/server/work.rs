//! The next request.

use crate::workload::{Dice, Picks};

/// A connection's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Values; the numbers are in the buffer.
    Get,
    /// To have a value stored.
    Set(u32),
}

/// The work of one connection.
#[derive(Debug)]
pub(super) enum Work {
    /// Every number that is its own, once.
    Load { next: u64, step: u64, items: u64 },
    /// Gets and sets, endless.
    Mix(Mix),
}

impl Work {
    /// The next turn; `None` if all is done.
    #[inline]
    pub(super) fn next(&mut self, numbers: &mut Vec<u32>) -> Option<Turn> {
        match self {
            Work::Load { next, step, items } => {
                let number = *next;
                *next += *step;
                (number < *items).then_some(Turn::Set(number as u32))
            }
            Work::Mix(mix) => Some(mix.next(numbers)),
        }
    }
}

/// Gets of any key, and sets of the keys that belong to this connection.
#[derive(Debug)]
pub(super) struct Mix {
    pub(super) picks: Picks,
    pub(super) coin: Coin,
    /// Keys of a get.
    pub(super) many: usize,
    pub(super) items: u64,
    /// The number of this connection, and the number of connections.
    pub(super) place: (u64, u64),
}

impl Mix {
    #[inline]
    fn next(&mut self, numbers: &mut Vec<u32>) -> Turn {
        if self.coin.is_get() {
            numbers.clear();
            numbers.extend(self.picks.by_ref().take(self.many).map(|number| number as u32));
            return Turn::Get;
        }
        let number = self.picks.next().unwrap_or(0);
        Turn::Set(owned(number, self.items, self.place) as u32)
    }
}

/// The number near this one that belongs to a connection: every key has one writer, so that its writes have an
/// order.
#[inline]
fn owned(number: u64, items: u64, (place, of): (u64, u64)) -> u64 {
    let owned = number - number % of + place;
    if owned < items { owned } else { owned - of }
}

/// Decides between get and set.
#[derive(Debug)]
pub(super) struct Coin {
    dice: Dice,
    gets_below: u64,
}

impl Coin {
    /// `read_share` of all keys are read, with `many` to a get and one to a set.
    pub(super) fn new(read_share: f64, many: usize, dice: Dice) -> Coin {
        let share = Coin::get_share(read_share, many);
        // 1.0 saturates: always a get.
        Coin { dice, gets_below: (share * 2_f64.powi(64)) as u64 }
    }

    /// The share of gets among requests.
    fn get_share(read_share: f64, many: usize) -> f64 {
        read_share / (read_share + many as f64 * (1.0 - read_share))
    }

    /// Keys of a request, on average.
    pub(super) fn keys_a_request(read_share: f64, many: usize) -> f64 {
        let gets = Coin::get_share(read_share, many);
        gets * many as f64 + (1.0 - gets)
    }

    #[inline]
    fn is_get(&mut self) -> bool {
        self.gets_below == u64::MAX || self.dice.word() < self.gets_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_owner_and_stays_in_range() {
        for of in [1, 3, 7] {
            for number in 0..100 {
                for place in 0..of {
                    let owned = owned(number, 100, (place, of));
                    assert!(owned < 100 && owned % of == place, "{number} {place} of {of}: {owned}");
                }
            }
        }
    }

    #[test]
    fn the_share_is_of_keys() {
        for (share, many) in [(0.0, 1), (0.5, 1), (0.95, 16), (1.0, 4)] {
            let mut coin = Coin::new(share, many, Dice::new(1, 0));
            let gets = (0..100_000).filter(|_| coin.is_get()).count() as f64;
            let (read, written) = (gets * many as f64, 100_000.0 - gets);
            assert!((read / (read + written) - share).abs() < 0.01, "{share} of {many}");
            let mean = (read + written) / 100_000.0;
            assert!((mean / Coin::keys_a_request(share, many) - 1.0).abs() < 0.02, "{share} of {many}");
        }
    }
}
