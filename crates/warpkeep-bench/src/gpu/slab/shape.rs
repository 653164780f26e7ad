//! How full chains of slabs are.

/// The share of the utilisation of full slabs up to which tables are made: chains have seven slabs on average there, and grow without bound above.
const ATTAINABLE: f64 = 0.93;

/// A layout of slabs: their bytes, the pairs of one, and the bytes of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slab_bytes: u32,
    pub(crate) pairs: u32,
    pub(crate) pair_bytes: u32,
}

impl Shape {
    /// Ours, of pairs of 32 bits.
    pub(crate) const fn of(slab_bytes: u32) -> Shape {
        Shape::of_pairs(slab_bytes, 8)
    }

    /// Ours: there is a pair less than there is room for.
    pub(crate) const fn of_pairs(slab_bytes: u32, pair_bytes: u32) -> Shape {
        Shape { slab_bytes, pairs: slab_bytes / pair_bytes - 1, pair_bytes }
    }

    /// The highest utilisation for which a table is made.
    pub(crate) fn most_utilisation(self) -> f64 {
        ATTAINABLE * f64::from(self.pairs * self.pair_bytes) / f64::from(self.slab_bytes)
    }

    /// The bytes of pairs in proportion to those of slabs, where the buckets have this many pairs on average, each in a random one.
    pub(crate) fn utilisation(self, pairs_a_bucket: f64) -> f64 {
        let pairs = f64::from(self.pairs);
        // How many buckets have k pairs follows a Poisson distribution.
        let most = (pairs_a_bucket + 12.0 * pairs_a_bucket.sqrt() + 20.0) as u32;
        let (mut slabs, mut logarithm) = (0.0, -pairs_a_bucket);
        for count in 0..=most {
            if count > 0 {
                logarithm += pairs_a_bucket.ln() - f64::from(count).ln();
            }
            slabs += logarithm.exp() * (f64::from(count) / pairs).ceil().max(1.0);
        }
        f64::from(self.pair_bytes) * pairs_a_bucket / (f64::from(self.slab_bytes) * slabs)
    }

    /// The pairs of a bucket, on average, for this utilisation.
    pub(crate) fn pairs_for(self, utilisation: f64) -> f64 {
        let (mut low, mut high) = (1e-3, 64.0 * f64::from(self.pairs));
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            // It rises with the pairs, apart from a dip where most buckets get their second slab.
            if self.utilisation(middle) < utilisation { low = middle } else { high = middle }
        }
        high
    }

    /// The number of buckets, a power of two, and of pairs, about as many as given, for this utilisation.
    pub(crate) fn fit(self, pairs: usize, utilisation: f64) -> (u32, u32) {
        self.fit_pairs(pairs, self.pairs_for(utilisation))
    }

    /// The same for this many pairs a bucket.
    pub(crate) fn fit_pairs(self, pairs: usize, pairs_a_bucket: f64) -> (u32, u32) {
        let bits = (pairs as f64 / pairs_a_bucket).log2().round().clamp(2.0, 28.0) as u32;
        let count = (pairs_a_bucket * f64::from(1_u32 << bits)).round().max(1.0);
        (1 << bits, count as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_is_that_of_the_paper() {
        // The paper: 0.7 slabs a bucket are 60 percent, and 94 percent is the most.
        let paper = Shape::of(128);
        assert!((paper.utilisation(0.7 * 15.0) - 0.6).abs() < 0.02);
        assert!(paper.utilisation(1e4) < 0.94);
        for utilisation in [0.1, 0.3, 0.5, 0.6, 0.8, 0.9] {
            for shape in [Shape::of(64), paper] {
                let pairs = shape.pairs_for(utilisation);
                let most: f64 = if shape.pairs == 7 { 0.85 } else { 0.93 };
                let reached = shape.utilisation(pairs);
                assert!(
                    (reached - utilisation.min(most)).abs() < 0.05,
                    "{shape:?}: {reached} for {utilisation}"
                );
            }
        }
        let (buckets, pairs) = paper.fit(1 << 22, 0.6);
        assert!(buckets.is_power_of_two() && (1 << 21..1 << 23).contains(&pairs));
    }

    #[test]
    fn attainable_utilisations_have_short_chains() {
        for shape in [64, 128].into_iter().flat_map(|bytes| [Shape::of(bytes), Shape::of_pairs(bytes, 16)]) {
            let most = shape.most_utilisation();
            let pairs = shape.pairs_for(most);
            assert!((shape.utilisation(pairs) - most).abs() < 0.01, "{shape:?}");
            assert!(pairs < 8.0 * f64::from(shape.pairs), "{shape:?}: {pairs} pairs a bucket");
        }
        // Three pairs of 16 bytes fill three quarters of a slab of 64.
        assert!((0.65..0.75).contains(&Shape::of_pairs(64, 16).most_utilisation()));
    }
}
