//! A trace like that of a recommendation model: a sample requests one row of each of its tables of embeddings.

use super::{Dice, Scramble, Workload, Zipf};
use crate::BenchError;

/// Rows of the 26 sparse features in the Criteo-Kaggle data set, as published with the model.
pub const CARDINALITIES: [u64; 26] = [
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27, 14_992,
    5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];
/// The fewest items that the tables can be scaled to.
const MIN_ITEMS: u64 = 1000;

/// The tables, scaled to the items of a workload, and the law by which their rows are requested.
///
/// ```
/// use warpkeep_bench::workload::{Dlrm, Workload};
///
/// let workload = Workload { items: 100_000, key_bytes: 8, value_bytes: 128, seed: 1 };
/// let dlrm = Dlrm::new(&workload, 0.99)?;
/// assert_eq!(dlrm.rows().sum::<u64>(), 100_000);
/// assert_eq!(dlrm.numbers(0).take(52).filter(|&number| number < 100_000).count(), 52);
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dlrm {
    features: Vec<Feature>,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Feature {
    /// The number of its first row.
    base: u64,
    zipf: Zipf,
    scramble: Scramble,
}

impl Dlrm {
    /// Tables of a workload's items; the rows of each are drawn by Zipf's law.
    pub fn new(workload: &Workload, theta: f64) -> Result<Dlrm, BenchError> {
        let mut base = 0;
        let mut features = Vec::new();
        for (place, rows) in scaled(workload.items)?.into_iter().enumerate() {
            let scramble = Scramble::new(rows, workload.seed.wrapping_add(place as u64));
            features.push(Feature { base, zipf: Zipf::new(rows, theta)?, scramble });
            base += rows;
        }
        Ok(Dlrm { features, seed: workload.seed })
    }

    /// Rows of each table.
    pub fn rows(&self) -> impl Iterator<Item = u64> {
        self.features.iter().map(|feature| feature.zipf.ranks())
    }

    /// Numbers of items, sample by sample, feature by feature, endless.
    pub fn numbers(&self, stream: u64) -> impl Iterator<Item = u64> {
        let mut dice = Dice::new(self.seed, stream);
        self.features
            .iter()
            .cycle()
            .map(move |feature| feature.base + feature.scramble.apply(feature.zipf.rank(&mut dice)))
    }
}

/// The tables, each with the same share of `items` as of all rows, and at least one row.
fn scaled(items: u64) -> Result<Vec<u64>, BenchError> {
    if items < MIN_ITEMS {
        return Err(BenchError::Invalid(format!(
            "{items} items are too few for the 26 tables of the DLRM trace; take at least {MIN_ITEMS}"
        )));
    }
    let total: u64 = CARDINALITIES.iter().sum();
    let share = |rows: u64| (u128::from(rows) * u128::from(items) / u128::from(total)).max(1) as u64;
    let mut rows = CARDINALITIES.map(share).to_vec();
    // The largest takes the rounding remainder.
    let sum: u64 = rows.iter().sum();
    if let Some(largest) = rows.iter_mut().max() {
        *largest = *largest + items - sum;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fit;

    #[test]
    fn tables_share_the_items_as_in_the_data_set() {
        for items in [1000, 12_345, 33_762_577, 100_000_000] {
            let rows = scaled(items).expect("enough");
            assert_eq!(rows.iter().sum::<u64>(), items);
            assert!(rows.iter().all(|&rows| rows > 0));
        }
        assert_eq!(scaled(CARDINALITIES.iter().sum()).expect("enough"), CARDINALITIES);
        assert!(scaled(999).is_err());
    }

    #[test]
    fn every_sample_asks_each_table_once_by_its_law() {
        let workload = Workload { items: 20_000, key_bytes: 8, value_bytes: 8, seed: 4 };
        let dlrm = Dlrm::new(&workload, 0.9).expect("enough");
        let mut counts = vec![0_u64; 20_000];
        for (turn, number) in dlrm.numbers(3).take(26 * 50_000).enumerate() {
            let Feature { base, zipf, .. } = dlrm.features[turn % 26];
            assert!((base..base + zipf.ranks()).contains(&number), "{turn}");
            counts[number as usize] += 1;
        }
        for Feature { base, zipf, scramble } in &dlrm.features {
            let ranks = 0..zipf.ranks();
            let law: Vec<f64> = ranks.clone().map(|rank| ((rank + 1) as f64).powf(-0.9)).collect();
            let by_rank: Vec<u64> =
                ranks.map(|rank| counts[(base + scramble.apply(rank)) as usize]).collect();
            assert_eq!(by_rank.iter().sum::<u64>(), 50_000);
            assert!(by_rank.len() == 1 || fit::chi_square(&by_rank, &law) < 4.0, "{base}");
        }
    }
}
