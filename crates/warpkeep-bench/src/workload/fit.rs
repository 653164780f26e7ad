//! How well counts fit a law: for tests of distributions.

/// Chi-square of counts against a law, in standard deviations from its mean; `law` need not add up to 1. Neighbours with
/// small expectations are taken together.
pub(crate) fn chi_square(counts: &[u64], law: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let sum: f64 = law.iter().sum();
    let (mut chi, mut cells) = (0.0, 0.0);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (&count, share) in counts.iter().zip(law) {
        seen += count as f64;
        expected += total * share / sum;
        if expected >= 20.0 {
            chi += (seen - expected).powi(2) / expected;
            cells += 1.0;
            (seen, expected) = (0.0, 0.0);
        }
    }
    if expected > 0.0 {
        chi += (seen - expected).powi(2) / expected;
        cells += 1.0;
    }
    let freedom: f64 = cells - 1.0;
    (chi - freedom) / (2.0 * freedom).sqrt()
}

/// The largest distance between the two cumulative sums, times the root of the number of draws: above 1.63 in one
/// case of a hundred.
pub(crate) fn kolmogorov(counts: &[u64], law: &[f64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let sum: f64 = law.iter().sum();
    let (mut seen, mut expected, mut largest) = (0.0, 0.0, 0.0_f64);
    for (&count, share) in counts.iter().zip(law) {
        seen += count as f64 / total;
        expected += share / sum;
        largest = largest.max((seen - expected).abs());
    }
    largest * total.sqrt()
}
