//! What the figures share.

use warpkeep_device::Device;

use super::Options;
use super::dictionary::{Dictionary, OURS, Ours, Pairs};
use super::link_tree::{LinkTree, TREE};
use super::sorted_runs::SortedRuns;
use super::version_tree::{Form, IN_PLACE, OUT_OF_PLACE, VersionTree};
use crate::gpu::ordered::{Batch, Items};
use crate::gpu::{Clock, RATE, relate_variant};
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// What figures are measured with.
pub(super) struct Bench<'b> {
    pub(super) options: &'b Options,
    pub(super) device: &'b Device,
    pub(super) clock: &'b Clock,
    pub(super) progress: &'b dyn Progress,
}

impl<'b> Bench<'b> {
    pub(super) fn items(&self, count: usize) -> Items<u32, u32> {
        Items::new(self.options.seed, count as u64)
    }

    /// Our map and the paper's tree, with room for this many pairs.
    pub(super) fn trees(&self, pairs: usize) -> Result<Vec<Box<dyn Dictionary + 'b>>, BenchError> {
        Ok(vec![
            Box::new(Ours::new(self.device, self.clock)?),
            Box::new(LinkTree::new(self.device, self.clock, pairs)?),
        ])
    }

    /// The same, and the paper's multiversion trees.
    pub(super) fn versions(&self, pairs: usize) -> Result<Vec<Box<dyn Dictionary + 'b>>, BenchError> {
        let mut all = self.trees(pairs)?;
        for form in [Form::InPlace, Form::OutOfPlace] {
            all.push(Box::new(VersionTree::new(self.device, self.clock, form, pairs)?));
        }
        Ok(all)
    }

    /// Our map and the paper's tree, and the structures that the paper compares it with.
    pub(super) fn all(&self, pairs: usize) -> Result<Vec<Box<dyn Dictionary + 'b>>, BenchError> {
        let mut all = self.trees(pairs)?;
        all.push(Box::new(SortedRuns::new(self.device, self.clock, false)?));
        all.push(Box::new(SortedRuns::new(self.device, self.clock, true)?));
        Ok(all)
    }

    /// Runs a batch and adds its rate.
    pub(super) fn add(
        &self,
        report: &mut Report,
        case: &str,
        round: u32,
        dictionary: &mut dyn Dictionary,
        batch: &Pairs,
    ) -> Result<(), BenchError> {
        self.progress.check()?;
        let seconds = dictionary.run(batch)?;
        self.add_rate(report, case, dictionary.name(), round, batch.len() as f64 / seconds);
        Ok(())
    }

    pub(super) fn add_rate(&self, report: &mut Report, case: &str, name: &str, round: u32, rate: f64) {
        report.add(case, name, round, RATE, Unit::PerSecond, rate);
    }

    /// Adds published rates, in millions a second, and relates our map and the multiversion trees to the paper's tree, and our map to the
    /// multiversion trees.
    pub(super) fn published(&self, report: &mut Report, case: &str, rates: &[(&str, f64)]) {
        for &(name, millions) in rates {
            self.add_rate(report, case, name, 0, 1e6 * millions);
        }
        for variant in [OURS, IN_PLACE, OUT_OF_PLACE] {
            relate_variant(report, case, variant, ("", 0.0), Some(TREE));
        }
        for version in [IN_PLACE, OUT_OF_PLACE] {
            report.compare(case, RATE, OURS, version, None);
        }
    }

    /// The pairs of these ranks in a random order.
    pub(super) fn pairs(&self, items: &Items<u32, u32>, numbers: std::ops::Range<u64>) -> Pairs {
        Batch::build(items, numbers.map(|number| items.shuffled(number)))
    }
}

/// The ranks of these numbers in a random order.
pub(super) fn shuffled(items: &Items<u32, u32>, numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.map(|number| items.shuffled(number)).collect()
}
