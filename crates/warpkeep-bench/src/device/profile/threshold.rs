//! The batch size at which one setting of a device profile takes over from another.

use std::time::Duration;

/// The times of batches of one size, under the setting for smaller batches and under the one for larger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) batch: usize,
    pub(super) below: Duration,
    pub(super) above: Duration,
}

/// Of ascending batch sizes, how many should use the setting for smaller batches.
///
/// It loses the least time against the faster setting of each size, as a share of that time and summed over all sizes:
/// one noisy size does not move it past several clear ones.
fn crossing(pairs: &[Pair]) -> usize {
    let loss = |split: usize| -> f64 {
        let lost = |(place, pair): (usize, &Pair)| {
            let (below, above) = (pair.below.as_secs_f64().max(1e-9), pair.above.as_secs_f64().max(1e-9));
            let chosen = if place < split { below } else { above };
            chosen / below.min(above) - 1.0
        };
        pairs.iter().enumerate().map(lost).sum()
    };
    (0..=pairs.len()).min_by(|&one, &other| loss(one).total_cmp(&loss(other))).unwrap_or(0)
}

/// The batch size from which on the second setting applies; the setting that is faster at an end of the measured sizes
/// applies beyond that end.
pub(super) fn from(pairs: &[Pair]) -> usize {
    match crossing(pairs) {
        0 => 0,
        split => pairs.get(split).map_or(usize::MAX, |pair| pair.batch),
    }
}

/// The same, but never less than the smallest size: it was measured, and smaller ones were not.
pub(super) fn from_measured(pairs: &[Pair]) -> usize {
    from(pairs).max(pairs.first().map_or(0, |pair| pair.batch))
}

/// The batch size up to which the first setting applies.
pub(super) fn to(pairs: &[Pair]) -> usize {
    match crossing(pairs) {
        split if split == pairs.len() => usize::MAX,
        0 => 0,
        split => pairs[split - 1].batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(times: &[(u64, u64)]) -> Vec<Pair> {
        let micros = Duration::from_micros;
        let pair = |(place, &(below, above)): (usize, &(u64, u64))| Pair {
            batch: 64 << place,
            below: micros(below),
            above: micros(above),
        };
        times.iter().enumerate().map(pair).collect()
    }

    #[test]
    fn threshold_lies_where_the_second_setting_becomes_faster() {
        let measured = pairs(&[(5, 20), (10, 22), (25, 24), (60, 30)]);
        assert_eq!((from(&measured), to(&measured)), (256, 128));
    }

    #[test]
    fn one_noisy_size_does_not_move_the_threshold() {
        let measured = pairs(&[(5, 20), (10, 9), (12, 22), (60, 30), (80, 81), (200, 90)]);
        assert_eq!((from(&measured), to(&measured)), (512, 256));
    }

    #[test]
    fn setting_that_is_always_faster_applies_to_all_sizes() {
        let first = pairs(&[(5, 20), (10, 22)]);
        assert_eq!((from(&first), to(&first)), (usize::MAX, usize::MAX));
        let second = pairs(&[(20, 5), (22, 10)]);
        assert_eq!((from(&second), to(&second)), (0, 0));
        assert_eq!((from_measured(&first), from_measured(&second)), (usize::MAX, 64));
    }
}
