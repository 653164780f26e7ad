//! Tables on a device: their speed by batch size, skew and bucket cache, beside the limits of the link and of
//! device memory.
//!
//! Keys and answers of gets lie in device memory, as they do for a program whose other half runs there; the library is measured from host
//! memory to host memory. Every answer is checked, and everything that is written is read back. Compared are [strategies](Strategy).

mod answers;
mod bounds;
mod cell;
mod charts;
mod keys;
mod lessons;
mod library;
mod operation;
mod options;
mod pool;
mod profile;
mod rig;
mod scale;
mod steps;
mod strategy;

use warpkeep_device::Device;
use warpkeep_gphash::gpu::PublishBy;
pub use warpkeep_gphash::gpu::paper::CachePolicy;

pub(crate) use self::answers::Expected;
use self::cell::{Cell, Worker};
pub(crate) use self::lessons::Lessons;
use self::library::Library;
pub use self::operation::Operation;
pub use self::options::Options;
use self::options::batches_in_row;
pub(crate) use self::pool::Pool;
pub use self::profile::{ProfileOptions, run_profile};
pub(crate) use self::rig::{Form, Rig, Written};
pub use self::scale::{ScaleOptions, run_scale};
pub use self::strategy::Strategy;
pub(crate) use self::strategy::Variant;
use crate::limits::Rounds;
use crate::limits::device::{DeviceLimits, Extent};
use crate::report::{Report, Unit};
use crate::scratch::Scratch;
use crate::workload::Distribution;
use crate::{Amount, BenchError, Progress};

/// The fewest keys drawn for each distribution, if there are enough items: a gibibyte of values of 128 bytes.
const LEAST_DRAWN: usize = 1 << 23;

/// The name of a case; new items are not drawn, and have no distribution.
pub(crate) fn case_name(operation: Operation, distribution: Distribution, batch: usize) -> String {
    match operation {
        Operation::Insert | Operation::Delete => format!("{operation}, batches of {batch}"),
        _ => format!("{operation}, {distribution}, batches of {batch}"),
    }
}

/// Measures a device. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, device};
///
/// let options = device::Options::on("cuda:0".parse()?);
/// print!("{}", device::run(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("device", &options.command, options.workload.seed);
    report.machine.add_place("image", &options.image_dir)?;
    let device = Device::open(options.device)?;
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let mut workshop = Workshop::set_up(options, &device, &scratch, progress, &mut report)?;
    let limits = workshop.measure_limits(&scratch, &mut report)?;
    for round in 0..options.rounds {
        for variant in options.variants() {
            workshop.round(variant, round, &mut report)?;
        }
    }
    progress.finish();
    workshop.close()?;
    bounds::relate(options, &limits, &mut report);
    report.finish();
    report.charts = charts::of(options, &limits, &report);
    Ok(report)
}

/// Everything that is measured, loaded.
struct Workshop<'w> {
    options: &'w Options,
    device: &'w Device,
    progress: &'w dyn Progress,
    rig: Option<Rig>,
    library: Option<Library>,
    /// The same with a log.
    logged: Option<Library>,
    /// Keys that are there and keys that are not, by distribution.
    pools: Vec<(Distribution, Pool, Pool)>,
    /// Hot keys, by distribution, if there are value caches.
    lessons: Vec<Lessons>,
    generation: u64,
    fresh: u64,
}

impl<'w> Workshop<'w> {
    fn set_up(
        options: &'w Options,
        device: &'w Device,
        scratch: &Scratch,
        progress: &'w dyn Progress,
        report: &mut Report,
    ) -> Result<Workshop<'w>, BenchError> {
        let largest = options.batch_sizes().last().copied().unwrap_or(1);
        let form = Form {
            workload: options.workload,
            keys: options.keys()?,
            layout: options.layout,
            geometry: options.geometry,
            load_factor: options.load_factor,
            extra: options.most_inserted() as u64,
            largest: largest.max(options.most_inserted()),
            fused: false,
        };
        let uses = |library: bool| {
            options
                .strategies
                .iter()
                .any(|&strategy| !strategy.is_logged() && strategy.is_library() == library)
        };
        let logs = options.strategies.iter().any(|strategy| strategy.is_logged());
        let tables = [uses(false), uses(true), logs].into_iter().map(u64::from).sum::<u64>();
        progress.begin("loading", Amount::Count(tables * options.workload.items));
        let rig = match uses(false) {
            true => Some(Rig::load(device, scratch.images(), &form, progress)?),
            false => None,
        };
        if let Some(rig) = &rig {
            rig.engine.time_steps(options.steps);
        }
        let mut library = match uses(true) {
            true => Some(Library::load(device, scratch, &form, false, progress)?),
            false => None,
        };
        let mut logged = match logs {
            true => Some(Library::load(device, scratch, &form, true, progress)?),
            false => None,
        };
        for library in library.iter_mut().chain(&mut logged) {
            library.time_steps(options.steps)?;
        }
        progress.finish();
        let mut pools = Vec::new();
        // Identical batches would find their values in a cache, and their addresses translated.
        let drawn_len = largest.max((options.workload.items as usize).min(LEAST_DRAWN));
        for &distribution in &options.distributions {
            progress.check()?;
            let drawn = |absent| Pool::drawn(device, options.keys()?, distribution, absent, drawn_len);
            pools.push((distribution, drawn(false)?, drawn(true)?));
        }
        let mut lessons = Vec::new();
        if options.variants().iter().any(|variant| variant.strategy == Strategy::Values) {
            for &distribution in &options.distributions {
                progress.check()?;
                lessons.push(Lessons::drawn(device, options.keys()?, distribution)?);
            }
        }
        report.notes.push(note(options, rig.as_ref()));
        let closed = options.strategies.iter().filter(|&&strategy| !options.is_open(strategy));
        let closed: Vec<String> = closed.map(ToString::to_string).collect();
        if !closed.is_empty() {
            report.notes.push(format!(
                "left out, because such tables do not support them: {}; the device index and fused writes need the layout packed",
                closed.join(", ")
            ));
        }
        let fresh = options.workload.items;
        let generation = 0;
        Ok(Workshop { options, device, progress, rig, library, logged, pools, lessons, generation, fresh })
    }

    /// The limits of the device and of its link to as much memory as the table's image has.
    fn measure_limits(&self, scratch: &Scratch, report: &mut Report) -> Result<DeviceLimits, BenchError> {
        let image = self
            .rig
            .as_ref()
            .map_or_else(|| crate::compare::warpkeep_image_bytes(&self.options.workload), Rig::image_bytes);
        let extent = Extent::of(self.options.device, image, &[image]);
        let (rounds, images) = (self.options.rounds, scratch.images());
        let mut limits = DeviceLimits::measure(self.device, images, &extent, rounds, self.progress, report)?;
        if self.logged.is_some() {
            let (disk, rounds) =
                (scratch.fresh_disk()?, Rounds { count: rounds, time: self.options.round_time });
            self.progress.begin("limits of the disk", Amount::Count(u64::from(rounds.count)));
            // As much as a batch takes in the log: a disk's rate over a moment says little about its rate over a
            // second.
            let changes = self.options.main_batch() * change_len(&self.options.workload);
            let written = (changes as u64).min(MOST_WRITTEN);
            limits.disk =
                crate::limits::disk::measure_of(disk.path(), written, rounds, self.progress, report)?.0;
            self.progress.finish();
        }
        let total = u64::from(rounds) * self.options.variants().len() as u64;
        self.progress.begin(&format!("tables run by {}", self.options.device), Amount::Count(total));
        Ok(limits)
    }

    /// All cases of one variant, once.
    fn round(&mut self, variant: Variant, round: u32, report: &mut Report) -> Result<(), BenchError> {
        let Workshop { options, progress, rig, library, logged, pools, lessons, generation, .. } = self;
        let name = variant.name();
        for (number, (distribution, pool, absent)) in pools.iter().enumerate() {
            if let (true, Some(rig)) = (variant.is_on_device(), &*rig) {
                rig.prepare(variant, options.policy, pool, options.main_batch())?;
                if let (Strategy::Fused, Some(threads)) = (variant.strategy, options.word_threads) {
                    rig.engine.adjust(|profile| profile.publish_by = PublishBy::Host(threads));
                }
                if variant.strategy == Strategy::Values {
                    rig.cache_values(variant.share, &lessons[number])?;
                }
            }
            if let (true, Some(library)) = (variant.strategy.is_library(), &mut *library) {
                library.use_strategy(variant.strategy.host_gets())?;
                library.use_pinned(variant.strategy.is_pinned());
            }
            if let (true, Some(logged)) = (variant.strategy.is_logged(), &mut *logged) {
                logged.use_durability(variant.strategy.durability())?;
            }
            for &operation in options.operations.iter().filter(|&&operation| variant.does(operation)) {
                for batch in options.batch_sizes() {
                    let case = case_name(operation, *distribution, batch);
                    let cell = cell_of(options, operation, batch, round, *progress);
                    let hits = Hits::now(variant, rig.as_ref())?;
                    let library = if variant.strategy.is_logged() { &mut *logged } else { &mut *library };
                    let mut worker = match (variant.strategy, &mut *rig, library) {
                        (strategy, _, Some(library)) if strategy.is_library() => Worker::Library(library),
                        (strategy, Some(rig), _) if !strategy.is_library() => Worker::Rig(rig),
                        _ => continue,
                    };
                    let outcome = match operation {
                        Operation::Get | Operation::Locate => cell.gets(&mut worker, variant, pool)?,
                        Operation::AbsentGet => cell.gets(&mut worker, variant, absent)?,
                        Operation::Update => cell.updates(&mut worker, variant, pool, generation)?,
                        // Below, for all distributions alike.
                        Operation::Insert | Operation::Delete => continue,
                    };
                    outcome.report(report, &case, &name, round);
                    if let Some(rate) = hits.since(variant, rig.as_ref())? {
                        report.add(&case, &name, round, "hit rate", Unit::Percent, rate);
                    }
                }
            }
        }
        self.inserts_and_deletes(variant, round, report)?;
        self.progress.advance(1);
        Ok(())
    }

    fn inserts_and_deletes(
        &mut self,
        variant: Variant,
        round: u32,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let Workshop { options, progress, rig, library, logged, fresh, .. } = self;
        let asked = |operation: Operation| options.operations.contains(&operation);
        if !variant.does(Operation::Insert) || !(asked(Operation::Insert) || asked(Operation::Delete)) {
            return Ok(());
        }
        for batch in options.batch_sizes().into_iter().filter(|&batch| batch <= options.most_inserted()) {
            let library = if variant.strategy.is_logged() { &mut *logged } else { &mut *library };
            let mut worker = match (variant.strategy, &mut *rig, library) {
                (strategy, _, Some(library)) if strategy.is_library() => Worker::Library(library),
                (strategy, Some(rig), _) if !strategy.is_library() => Worker::Rig(rig),
                _ => return Ok(()),
            };
            let operation = Operation::Insert;
            let cell = cell_of(options, operation, batch, round, *progress);
            let (inserts, deletes) = cell.inserts_and_deletes(&mut worker, variant, fresh)?;
            for (operation, outcome) in [(Operation::Insert, inserts), (Operation::Delete, deletes)] {
                if asked(operation) {
                    let case = case_name(operation, Distribution::Uniform, batch);
                    outcome.report(report, &case, &variant.name(), round);
                }
            }
        }
        Ok(())
    }

    fn close(self) -> Result<(), BenchError> {
        self.library.into_iter().chain(self.logged).try_for_each(Library::close)
    }
}

fn cell_of<'p>(
    options: &Options,
    operation: Operation,
    batch: usize,
    round: u32,
    progress: &'p dyn Progress,
) -> Cell<'p> {
    let row = batches_in_row(batch, options.workload.items);
    Cell { operation, batch, time: options.round_time, round, row, progress }
}

/// The counters of the cache at some moment.
pub(crate) struct Hits(Option<(u64, u64)>);

impl Hits {
    pub(crate) fn now(variant: Variant, rig: Option<&Rig>) -> Result<Hits, BenchError> {
        match rig {
            Some(rig) if variant.strategy == Strategy::BucketCache => {
                let stats = rig.paper.cache_stats()?;
                Ok(Hits(Some((stats.lookups, stats.hits))))
            }
            Some(rig) if variant.strategy == Strategy::Values => {
                let stats = rig.engine.values_stats()?;
                Ok(Hits(Some((stats.gets, stats.hits))))
            }
            _ => Ok(Hits(None)),
        }
    }

    /// The share of buckets, or values, that were found in the cache since, in per cent.
    pub(crate) fn since(&self, variant: Variant, rig: Option<&Rig>) -> Result<Option<f64>, BenchError> {
        let (Some(before), Some(after)) = (self.0, Hits::now(variant, rig)?.0) else { return Ok(None) };
        let lookups = after.0.saturating_sub(before.0).max(1);
        Ok(Some(100.0 * after.1.saturating_sub(before.1) as f64 / lookups as f64))
    }
}

/// Bytes that the disk's limit is measured with, at the most.
const MOST_WRITTEN: u64 = 1 << 30;

/// Bytes of a change in the log: head, key and value, in words.
pub(super) fn change_len(workload: &crate::workload::Workload) -> usize {
    24 + (workload.key_bytes + workload.value_bytes).next_multiple_of(8)
}

/// A description of the run, for the report.
fn note(options: &Options, rig: Option<&Rig>) -> String {
    let workload = &options.workload;
    let full = rig.map_or_else(String::new, |rig| format!(", {:.1} % full", 100.0 * rig.load_factor()));
    let inserted = match options.most_inserted() {
        0 => "Nothing is inserted: the smallest batch is more than a quarter of the items".to_owned(),
        most => format!("Batches of up to {most} new items are inserted and deleted again"),
    };
    format!(
        "{} items, keys of {}{} bytes, values of {}, layout {}, geometry {}{full}. Keys and answers of gets, and fused writes, lie in \
         device memory; two-phase writes and the library use host memory, which is reused. Rates are of all batches of a round after the \
         first; latencies are of single batches. Values that several keys of a batch share cross the link once if they are fetched in \
         address order. Fused updates are drawn with repeats; elsewhere an item occurs once in a batch. A value cache learns from other \
         keys of the same distribution. {inserted}. Every answer was checked, and everything written was read back",
        workload.items,
        if options.variable_keys { "8 to " } else { "" },
        workload.key_bytes,
        workload.value_bytes,
        options.layout,
        options.geometry
    )
}
