//! The figures that need a device: the gain of each technique, the bucket cache, and its loading.

mod cache;
mod curves;
mod factors;
mod loading;
mod mixes;

use warpkeep_device::{Device, DeviceChoice};
use warpkeep_gphash::{Geometry, Layout};

use super::{Options, VALUE_BYTES};
use crate::device::{Form, Lessons, Pool, Rig};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::workload::{Distribution, Workload};
use crate::{Amount, BenchError, Progress};

/// The paper's skew.
const SKEW: Distribution = Distribution::Zipfian(0.99);
/// Different batches, so that no round finds its data cached by the one before.
const BATCHES: usize = 4;

/// Measures one of these figures.
pub(super) fn run(
    number: u8,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    if matches!(number, 5 | 6) {
        return curves::run(number, options, progress, report);
    }
    let device = Device::open(options.device)?;
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let site = Site::new(options, &device, &scratch, progress)?;
    match number {
        9 => factors::run(&site, report),
        11 => cache::run(&site, report),
        _ => loading::run(&site, report),
    }
}

/// The setting of the figures: a device, and the keys that all of them request.
struct Site<'s> {
    options: &'s Options,
    device: &'s Device,
    scratch: &'s Scratch,
    progress: &'s dyn Progress,
    workload: Workload,
    pool: Pool,
}

impl<'s> Site<'s> {
    fn new(
        options: &'s Options,
        device: &'s Device,
        scratch: &'s Scratch,
        progress: &'s dyn Progress,
    ) -> Result<Site<'s>, BenchError> {
        let workload =
            Workload { items: options.items, key_bytes: 8, value_bytes: VALUE_BYTES, seed: options.seed };
        let drawn = BATCHES * largest_batch(options);
        let pool = Pool::drawn(device, workload, SKEW, false, drawn)?;
        Ok(Site { options, device, scratch, progress, workload, pool })
    }

    /// Keys that show which values are hot.
    fn lessons(&self) -> Result<Lessons, BenchError> {
        Lessons::drawn(self.device, self.workload, SKEW)
    }

    /// A table with this layout, loaded.
    fn rig(&self, layout: Layout) -> Result<Rig, BenchError> {
        let form = Form {
            workload: self.workload,
            keys: self.workload.into(),
            layout,
            geometry: Geometry::default(),
            load_factor: None,
            extra: self.batches().last().copied().unwrap_or(0) as u64,
            largest: largest_batch(self.options),
            fused: false,
        };
        self.progress.begin(&format!("loading, {layout}"), Amount::Count(self.workload.items));
        let rig = Rig::load(self.device, self.scratch.images(), &form, self.progress)?;
        self.progress.finish();
        Ok(rig)
    }

    /// Sizes of batches: the paper's, and one that a GPU of today wants.
    fn batches(&self) -> Vec<usize> {
        let largest = largest_batch(self.options);
        let mut sizes = vec![super::BATCH.min(largest), largest];
        sizes.dedup();
        sizes
    }
}

/// The largest batch: a million, or as many as the simulator handles in a moment; a quarter of the items at the
/// most.
fn largest_batch(options: &Options) -> usize {
    let most = if options.device == DeviceChoice::Sim { 1 << 8 } else { 1 << 20 };
    most.min((options.items / 4) as usize).max(1)
}
