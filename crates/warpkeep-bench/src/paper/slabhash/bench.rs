//! What the figures share: tables of a size and utilisation, and how they are measured.

use warpkeep_device::Device;

use super::Options;
use super::cuckoo_table::{CUCKOO, CuckooTable};
use super::warp_table::{PAPER, SHAPE, WarpTable};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::gpu::slab::{Batch, Items, OurTable, Shape, Table, UTILISATION, name_of, run_batch};
use crate::gpu::{Clock, RATE, relate_variant};
use crate::limits::device::{Access, AccessLimits};
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// What figures are measured with.
pub(super) struct Bench<'b> {
    pub(super) options: &'b Options,
    pub(super) device: &'b Device,
    pub(super) clock: &'b Clock,
    pub(super) progress: &'b dyn Progress,
}

/// Our tables.
pub(super) const OURS: [Shape; 2] = [Shape::of(64), Shape::of(128)];

/// A table that takes part in a figure, and the pairs that it gets.
pub(super) struct Contestant {
    pub(super) table: Box<dyn Table>,
    pub(super) pairs: u32,
}

/// The names of our tables and of the paper's.
pub(super) fn slab_names() -> Vec<String> {
    OURS.map(name_of).into_iter().chain([PAPER.to_owned()]).collect()
}

impl Bench<'_> {
    pub(super) fn items(&self) -> Items {
        Items::new(self.options.seed)
    }

    /// Our tables and the paper's, with about this many pairs, of which a bucket has this many slabs on average; room for `more` times as many pairs.
    pub(super) fn slab_tables(
        &self,
        pairs: usize,
        slabs_a_bucket: f64,
        more: f64,
    ) -> Result<Vec<Contestant>, BenchError> {
        let seed = self.options.seed;
        let room = |pairs: u32| (f64::from(pairs) * more).ceil() as u32 + 64;
        let mut contestants = Vec::new();
        for shape in OURS {
            let (buckets, pairs) = shape.fit_pairs(pairs, slabs_a_bucket * f64::from(shape.pairs));
            let table = OurTable::new(self.device, shape, (buckets, room(pairs)), seed)?;
            contestants.push(Contestant { table: Box::new(table), pairs });
        }
        let buckets = (pairs as f64 / (slabs_a_bucket * f64::from(SHAPE.pairs))).ceil() as u64;
        let table = WarpTable::new(self.device, buckets, u64::from(room(pairs as u32)), seed)?;
        contestants.push(Contestant { table: Box::new(table), pairs: pairs as u32 });
        Ok(contestants)
    }

    /// The static table with about this many pairs, of which this share of the cells is full; `None` if it cannot be.
    pub(super) fn static_table(&self, pairs: usize, load: f64) -> Result<Option<Contestant>, BenchError> {
        if !(0.02..=0.9).contains(&load) {
            return Ok(None);
        }
        let cells = 1_u64 << (pairs as f64 / load).log2().round().clamp(4.0, 31.0) as u32;
        let table = CuckooTable::new(self.device, cells, self.options.seed)?;
        let pairs = (load * cells as f64) as u32;
        Ok(Some(Contestant { table: Box::new(table), pairs }))
    }

    /// The seconds of a batch, whose rate is added to the report.
    pub(super) fn add(
        &self,
        report: &mut Report,
        case: &str,
        round: u32,
        table: &mut dyn Table,
        batch: &Batch,
    ) -> Result<f64, BenchError> {
        self.progress.check()?;
        let seconds = run_batch(table, batch, self.clock)?;
        report.add(case, table.name(), round, RATE, Unit::PerSecond, batch.len() as f64 / seconds);
        Ok(seconds)
    }

    /// Adds how full the slabs are.
    pub(super) fn add_utilisation(
        &self,
        report: &mut Report,
        case: &str,
        round: u32,
        table: &dyn Table,
    ) -> Result<(), BenchError> {
        if let Some(share) = table.utilisation()? {
            report.add(case, table.name(), round, UTILISATION, Unit::Percent, 100.0 * share);
        }
        Ok(())
    }

    /// The limits of as much memory as this many pairs take in half-full slabs.
    pub(super) fn limits(&self, pairs: usize, report: &mut Report) -> Result<AccessLimits, BenchError> {
        let accesses = [Access::RandomRead(64), Access::RandomRead(128), Access::RandomSwap];
        let rounds = self.options.rounds;
        AccessLimits::measure(self.device, 16 * pairs as u64, &accesses, rounds, self.progress, report)
    }

    /// Relates all tables of a case to the limit that binds them, and ours to the paper's.
    pub(super) fn relate(&self, report: &mut Report, case: &str, limits: &AccessLimits, stores: bool) {
        let paper = PAPER.to_owned();
        let tables = OURS
            .map(|shape| (name_of(shape), shape.slab_bytes))
            .into_iter()
            .chain([(paper, SHAPE.slab_bytes)]);
        for (name, bytes) in tables.chain([(CUCKOO.to_owned(), 64)]) {
            let access = if stores { Access::RandomSwap } else { Access::RandomRead(bytes) };
            let limit = format!("device memory, {access}");
            let other = (name != PAPER).then_some(PAPER);
            relate_variant(report, case, &name, (&limit, limits.rate(access)), other);
        }
    }

    /// Adds a curve for each table: its rate over another metric of the same cases, or over a given number.
    pub(super) fn chart(
        &self,
        report: &mut Report,
        title: &str,
        axis: &str,
        names: &[String],
        cases: &[(String, Option<f64>)],
        scale: Scale,
    ) {
        let curve = |name: &String| {
            let point = |(case, x): &(String, Option<f64>)| {
                let rates = report.series(case, name, RATE);
                let x = x.unwrap_or_else(|| median(&report.series(case, name, UTILISATION)));
                (!rates.is_empty()).then(|| (x, 1e-6 * median(&rates)))
            };
            let mut points: Vec<(f64, f64)> = cases.iter().filter_map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Curve { name: name.clone(), points }
        };
        let curves: Vec<Curve> = names.iter().map(curve).filter(|curve| curve.points.len() > 1).collect();
        if !curves.is_empty() {
            let chart = Chart::new(title, axis, "million a second", Drawing::Curves(curves));
            report.charts.push(chart.with_scales(scale, Scale::Fitting));
        }
    }
}

/// The geometric mean.
pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    match values.is_empty() {
        true => 0.0,
        false => (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp(),
    }
}

/// The harmonic mean.
pub(super) fn harmonic_mean(values: &[f64]) -> f64 {
    match values.is_empty() {
        true => 0.0,
        false => values.len() as f64 / values.iter().map(|value| value.recip()).sum::<f64>(),
    }
}

/// Medians of the rates of a table in some cases; those it took part in.
pub(super) fn rates(report: &Report, cases: &[String], name: &str) -> Vec<f64> {
    let of = |case: &String| report.series(case, name, RATE);
    cases.iter().map(of).filter(|series| !series.is_empty()).map(|series| median(&series)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_arithmetic() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]) - 4.0).abs() < 1e-9);
        assert!((harmonic_mean(&[2.0, 6.0]) - 3.0).abs() < 1e-9);
        assert_eq!((geometric_mean(&[]), harmonic_mean(&[])), (0.0, 0.0));
    }
}
