//! Ranks by Zipf's law, in constant time whatever their number.

use super::Dice;
use crate::BenchError;

/// Ranks from 0, each with a probability in proportion to `1 / (rank + 1)^theta`.
///
/// Drawn by rejection-inversion: the bars of the law are covered by the area under the continuous curve, of which the integral
/// can be inverted; a draw takes one number, one logarithm and one exponential, and is seldom refused. No table, no sum
/// over all ranks, any `theta` from 0 (uniform) on.
///
/// ```
/// use warpkeep_bench::workload::{Dice, Zipf};
///
/// let zipf = Zipf::new(1_000_000, 0.99)?;
/// let mut dice = Dice::new(1, 0);
/// let first_ten = (0..10_000).filter(|_| zipf.rank(&mut dice) < 10).count();
/// assert!((1700..2300).contains(&first_ten));
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    ranks: u64,
    theta: f64,
    /// The area from the left end of the first bar to the right end of the last, as its two ends.
    area: (f64, f64),
    /// A point no further than this below its bar's centre lies in the bar, whichever the bar.
    surely_inside: f64,
}

impl Zipf {
    /// `ranks` ranks, skewed by `theta`.
    pub fn new(ranks: u64, theta: f64) -> Result<Zipf, BenchError> {
        if ranks == 0 || !(0.0..=10.0).contains(&theta) {
            return Err(BenchError::Invalid(format!(
                "there is no Zipf's law with a skew of {theta} over {ranks} ranks; take a skew from 0 to 10"
            )));
        }
        let mut zipf = Zipf { ranks, theta, area: (0.0, 0.0), surely_inside: 0.0 };
        // The first bar is taken whole: the area left of its centre is cut to its height.
        zipf.area = (zipf.integral(1.5) - 1.0, zipf.integral(ranks as f64 + 0.5));
        zipf.surely_inside = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.height(2.0));
        Ok(zipf)
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u64 {
        self.ranks
    }

    /// Draws a rank.
    #[inline]
    pub fn rank(&self, dice: &mut Dice) -> u64 {
        let (first, last) = self.area;
        loop {
            let at = last + dice.fraction() * (first - last);
            let x = self.inverse(at);
            let bar = x.round().clamp(1.0, self.ranks as f64);
            if bar - x <= self.surely_inside || at >= self.integral(bar + 0.5) - self.height(bar) {
                return (bar as u64).min(self.ranks) - 1;
            }
        }
    }

    #[inline]
    fn height(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// The area under the curve from 1 to `x`.
    #[inline]
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        let log = x.ln();
        if power == 0.0 { log } else { (power * log).exp_m1() / power }
    }

    /// Where the area from 1 is `area`.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        // Rounding can lead slightly below the domain of the logarithm.
        (if power == 0.0 { area } else { (power * area).max(-1.0).ln_1p() / power }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    #[test]
    fn ranks_follow_the_law() {
        for (ranks, theta) in
            [(1000_u32, 0.0), (1000, 0.5), (1000, 0.99), (1000, 1.0), (1000, 1.3), (100_000, 0.99)]
        {
            let law: Vec<f64> = (1..=ranks).map(|rank| f64::from(rank).powf(-theta)).collect();
            let zipf = Zipf::new(u64::from(ranks), theta).expect("a law");
            let mut dice = Dice::new(7, 1);
            let mut counts = vec![0; ranks as usize];
            (0..400_000).for_each(|_| counts[zipf.rank(&mut dice) as usize] += 1);
            let off = fit::chi_square(&counts, &law);
            assert!(off.abs() < 4.0, "{ranks} ranks, theta {theta}: {off}");
            let off = fit::kolmogorov(&counts, &law);
            assert!(off < 1.63, "{ranks} ranks, theta {theta}: {off}");
        }
    }

    #[test]
    fn another_law_is_noticed() {
        let law: Vec<f64> = (1..=1000).map(|rank| f64::from(rank).powf(-0.99)).collect();
        let zipf = Zipf::new(1000, 0.95).expect("a law");
        let mut dice = Dice::new(7, 1);
        let mut counts = vec![0; 1000];
        (0..400_000).for_each(|_| counts[zipf.rank(&mut dice) as usize] += 1);
        assert!(fit::chi_square(&counts, &law) > 20.0);
        assert!(fit::kolmogorov(&counts, &law) > 3.0);
    }

    #[test]
    fn the_largest_and_the_smallest() {
        let mut dice = Dice::new(1, 1);
        let one = Zipf::new(1, 0.99).expect("a law");
        assert!((0..100).all(|_| one.rank(&mut dice) == 0));
        for theta in [0.0, 0.99, 1.0, 3.0] {
            let many = Zipf::new(1 << 40, theta).expect("a law");
            assert!((0..1000).all(|_| many.rank(&mut dice) < 1 << 40));
        }
        assert!(
            Zipf::new(0, 0.99).is_err() && Zipf::new(5, -0.1).is_err() && Zipf::new(5, f64::NAN).is_err()
        );
    }
}
