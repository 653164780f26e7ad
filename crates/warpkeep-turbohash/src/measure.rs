//! How far searches walk in a shard, and how far they would if it were built anew.

use std::collections::VecDeque;

use crate::bucket::{Contents, Shape, filter_bit};
use crate::shard::{PROBING_SCOPE, Shard, home, locate};

/// The mean number of buckets that a search for an absent key reads, over all homes of a shard and the 64 bits of
/// filters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Walk {
    /// On the average, as things are.
    pub(crate) now: f64,
    /// The same without slots marked as deleted.
    pub(crate) best: f64,
}

impl Walk {
    /// Measures a shard that is held, with all it holds.
    pub(crate) fn of(shard: &Shard<'_>, shape: Shape, shards: usize) -> Walk {
        let now: Vec<u64> = shard.iter().map(|bucket| bucket.passable(shape)).collect();
        let mut items: Vec<(usize, u64)> = Vec::new();
        let mut some: Vec<Contents> = Vec::new();
        for bucket in shard.iter() {
            bucket.items(shape, &mut some);
            items.extend(
                some.iter()
                    .map(|item| (home(locate(item.hash, shards).1, shard.run.bits), filter_bit(item.hash))),
            );
        }
        items.sort_unstable_by_key(|&(home, _)| home);
        let best = afresh(&items, now.len(), shape.usable());
        Walk { now: mean(&distances(&now)), best: mean(&distances(&best)) }
    }

    /// Whether building the shard anew is worth it.
    pub(crate) fn is_long(self) -> bool {
        self.now > 1.1 * self.best + 0.1
    }
}

/// The filters if these items, home and bit each, in the order of homes, were inserted afresh, `usable` a bucket.
fn afresh(items: &[(usize, u64)], buckets: usize, usable: usize) -> Vec<u64> {
    let mut passable = vec![0; buckets];
    let mut carried: VecDeque<u64> = VecDeque::new();
    // Twice around: items carried past the end come back at the beginning.
    for _ in 0..2 {
        let mut next = items.iter().peekable();
        for (number, passable) in passable.iter_mut().enumerate() {
            while let Some(&(_, bit)) = next.next_if(|&&(home, _)| home == number) {
                carried.push_back(bit);
            }
            drop(carried.drain(..usable.min(carried.len())));
            *passable |= carried.iter().fold(0, |bits, bit| bits | bit);
        }
    }
    passable
}

/// How many searches for absent keys, 64 from each home, read one bucket, two, and so on, given the filters of full
/// buckets.
pub(crate) fn distances(passable: &[u64]) -> [u64; PROBING_SCOPE] {
    let mut counts = [0; PROBING_SCOPE];
    let scope = PROBING_SCOPE.min(passable.len());
    for home in 0..passable.len() {
        let mut under_way = u64::MAX;
        for (step, count) in counts[..scope].iter_mut().enumerate() {
            let on = under_way & passable[(home + step) % passable.len()];
            let on = if step + 1 == scope { 0 } else { on };
            *count += u64::from((under_way & !on).count_ones());
            under_way = on;
            if under_way == 0 {
                break;
            }
        }
    }
    counts
}

fn mean(counts: &[u64; PROBING_SCOPE]) -> f64 {
    let buckets: u64 = counts.iter().zip(1..).map(|(count, distance)| count * distance).sum();
    buckets as f64 / counts.iter().sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passable: &[u64]) -> Vec<u64> {
        let counts = distances(passable);
        let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        counts[..=last].to_vec()
    }

    #[test]
    fn distances_go_around_the_end() {
        assert_eq!(counts(&[0]), [64]);
        assert_eq!(counts(&[!0]), [64], "there is no more to look at");
        assert_eq!(counts(&[!0, 0, 0, !0]), [128, 64, 64]);
        assert_eq!(counts(&[0b11, 0b01, 0, 0]), [62 + 63 + 128, 1 + 1, 1]);
        assert_eq!(counts(&[!0; 40])[PROBING_SCOPE - 1], 40 * 64);
    }

    #[test]
    fn what_does_not_fit_is_carried_on() {
        let items = |home: usize, bits: &[u64]| bits.iter().map(|&bit| (home, bit)).collect::<Vec<_>>();
        assert_eq!(afresh(&items(0, &[1, 2]), 4, 2), [0, 0, 0, 0]);
        assert_eq!(afresh(&items(3, &[1, 2, 4, 8, 16]), 4, 2), [16, 0, 0, 4 | 8 | 16]);
    }
}
