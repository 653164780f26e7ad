//! Tables of growing sizes: whether a device is as fast with many items as with few, and how long reopening takes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use warpkeep::DeviceChoice;
use warpkeep_core::Op;
use warpkeep_device::Device;
use warpkeep_gphash::{Geometry, Layout};

use super::cell::{Cell, Outcome, Worker};
use super::{CachePolicy, Expected, Form, Operation, Pool, Rig, Strategy, Variant};
use crate::chart::{Chart, Curve, Drawing, Scale};
use crate::compare::MAX_BATCH;
use crate::limits::device::{Access, DeviceLimits, Extent};
use crate::limits::median;
use crate::report::{Relation, Report, Unit};
use crate::scratch::Scratch;
use crate::workload::{Distribution, Workload};
use crate::{Amount, BenchError, Progress};

/// The link's limits are measured with no more memory than this: from there on they are the same.
const MOST_FOR_LIMITS: u64 = 16 << 30;
/// Items that are looked at after coming back.
const LOOKED_AT: u64 = 1 << 16;
const ORDERED: Variant = Variant { strategy: Strategy::Ordered, share: 0.0 };
const STRAIGHT: Variant = Variant { strategy: Strategy::Fused, share: 0.0 };
const BACK: &str = "coming back";

/// Which sizes, and how thoroughly.
#[derive(Clone, Debug)]
pub struct ScaleOptions {
    /// A directory on a disk; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, which a GPU wants on tmpfs; used in the same way.
    pub image_dir: PathBuf,
    /// Which device.
    pub device: DeviceChoice,
    /// Numbers of items, one case each.
    pub sizes: Vec<u64>,
    /// Bytes in a value.
    pub value_bytes: usize,
    /// Operations in a batch. All sizes are measured with the first; the largest with the others, too, one case each.
    pub batches: Vec<usize>,
    /// How often each is measured.
    pub rounds: u32,
    /// How long batches go on in a round; at least one is done.
    pub round_time: Duration,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl ScaleOptions {
    /// The defaults for this device.
    pub fn on(device: DeviceChoice) -> ScaleOptions {
        let simulated = device == DeviceChoice::Sim;
        let unit = if simulated { 1 << 10 } else { 1_000_000 };
        ScaleOptions {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            device,
            sizes: (if simulated { vec![2, 4] } else { vec![1, 4, 16, 64] })
                .into_iter()
                .map(|size| size * unit)
                .collect(),
            value_bytes: 128,
            batches: vec![if simulated { 256 } else { 1 << 22 }],
            rounds: 3,
            round_time: Duration::from_millis(if simulated { 1 } else { 100 }),
            seed: 1,
            command: "warpkeep bench scale".to_owned(),
        }
    }

    fn workload(&self, items: u64) -> Workload {
        Workload { items, key_bytes: 8, value_bytes: self.value_bytes, seed: self.seed }
    }

    fn check(&self) -> Result<(), BenchError> {
        let is_wrong = |batch: &usize| !(1..=MAX_BATCH).contains(batch);
        if self.sizes.is_empty()
            || self.rounds == 0
            || self.batches.is_empty()
            || self.batches.iter().any(is_wrong)
        {
            return Err(BenchError::Invalid(format!(
                "at least one size and one round are needed, and batches of 1 to {MAX_BATCH} operations"
            )));
        }
        self.sizes.iter().try_for_each(|&items| self.workload(items).check())
    }

    /// The batch sizes for a number of items, and the name of each case. None exceeds a quarter of the items, and
    /// none is repeated.
    fn cases_of(&self, items: u64) -> Vec<(usize, String)> {
        let most = (items / 4).max(1) as usize;
        let mut cases: Vec<(usize, String)> = Vec::new();
        let some = if self.sizes.iter().any(|&other| other > items) { 1 } else { self.batches.len() };
        for &wanted in &self.batches[..some] {
            let batch = wanted.min(most);
            if cases.iter().all(|case| case.0 != batch) {
                let name = match cases.len() {
                    0 => case_name(items),
                    _ => format!("{items} items, batches of {batch}"),
                };
                cases.push((batch, name));
            }
        }
        cases
    }
}

/// The name of a size, with its first batch size.
fn case_name(items: u64) -> String {
    format!("{items} items")
}

/// Measures tables of all sizes, one after the other. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, device};
///
/// let options = device::ScaleOptions::on("cuda:0".parse()?);
/// print!("{}", device::run_scale(&options, &Quiet)?.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_scale(options: &ScaleOptions, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("scale", &options.command, options.seed);
    report.machine.add_place("image", &options.image_dir)?;
    let device = Device::open(options.device)?;
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let largest = options.sizes.iter().max().map_or(0, |&items| {
        crate::compare::warpkeep_image_bytes(&options.workload(items)).min(MOST_FOR_LIMITS)
    });
    let extent = Extent::of(options.device, largest, &[largest]);
    let limits =
        DeviceLimits::measure(&device, scratch.images(), &extent, options.rounds, progress, &mut report)?;
    for &items in &options.sizes {
        Size { options, device: &device, items, progress }.measure(&scratch, &limits, &mut report)?;
    }
    report.notes.push(format!(
        "keys of 8 bytes and values of {}, keys, values and answers in device memory, with a device index; batches of {} operations, \
         but of no more than a quarter of the items; gets of equal keys cross the link once, and updates of them are combined; every answer was checked, and \
         items were read back after coming back",
        options.value_bytes,
        options.batches.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    ));
    report.finish();
    report.charts = charts(options, &report);
    Ok(report)
}

/// One size.
struct Size<'s> {
    options: &'s ScaleOptions,
    device: &'s Device,
    items: u64,
    progress: &'s dyn Progress,
}

impl Size<'_> {
    fn measure(
        &self,
        scratch: &Scratch,
        limits: &DeviceLimits,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let Size { options, device, items, progress } = *self;
        let (workload, cases) = (options.workload(items), options.cases_of(items));
        let largest = cases.iter().map(|case| case.0).max().unwrap_or(1);
        let form = Form {
            workload,
            keys: workload.into(),
            layout: Layout::Packed,
            geometry: Geometry::default(),
            load_factor: None,
            extra: largest as u64,
            largest,
            fused: true,
        };
        let whole = case_name(items);
        progress.begin(&format!("loading {whole}"), Amount::Count(items));
        let begun = Instant::now();
        let mut rig = Rig::load(device, scratch.images(), &form, progress)?;
        report.add(&whole, "loading", 0, "seconds", Unit::Seconds, begun.elapsed().as_secs_f64());
        report.add(&whole, "loading", 0, "image", Unit::Bytes, rig.image_bytes() as f64);
        let (mut generation, mut fresh) = (0, items);
        for (batch, case) in &cases {
            progress.begin(case, Amount::Count(u64::from(options.rounds)));
            self.measure_batches(&mut rig, (*batch, case), (&mut generation, &mut fresh), report)?;
            self.relate(case, limits, report);
        }
        self.come_back(rig, generation, report, &whole)
    }

    /// Batches of one size, in all rounds.
    fn measure_batches(
        &self,
        rig: &mut Rig,
        (batch, case): (usize, &str),
        (generation, fresh): (&mut u64, &mut u64),
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let Size { options, device, items, progress } = *self;
        let workload = options.workload(items);
        let drawn = |absent| Pool::drawn(device, workload, Distribution::Uniform, absent, batch);
        let (there, absent) = (drawn(false)?, drawn(true)?);
        rig.prepare(ORDERED, CachePolicy::Random, &there, batch)?;
        for round in 0..options.rounds {
            let time = options.round_time;
            let cell = |operation| Cell { operation, batch, time, round, row: 1, progress };
            let mut worker = Worker::Rig(&mut *rig);
            let mut add = |operation: Operation, outcome: Outcome| {
                outcome.report(report, case, &operation.to_string(), round);
            };
            add(Operation::Get, cell(Operation::Get).gets(&mut worker, ORDERED, &there)?);
            add(Operation::AbsentGet, cell(Operation::AbsentGet).gets(&mut worker, ORDERED, &absent)?);
            add(Operation::Locate, cell(Operation::Locate).gets(&mut worker, ORDERED, &there)?);
            let updates = cell(Operation::Update).updates(&mut worker, STRAIGHT, &there, generation)?;
            add(Operation::Update, updates);
            let (inserts, _) = cell(Operation::Insert).inserts_and_deletes(&mut worker, STRAIGHT, fresh)?;
            add(Operation::Insert, inserts);
            progress.advance(1);
        }
        Ok(())
    }

    /// Relates rates to the limits of the link.
    fn relate(&self, case: &str, limits: &DeviceLimits, report: &mut Report) {
        for (operation, access) in [
            (Operation::Get, Access::OrderedRead(128)),
            (Operation::Update, Access::OrderedWrite),
            (Operation::Insert, Access::OrderedWrite),
        ] {
            let rows = self.options.value_bytes.div_ceil(128).max(1) as f64;
            let (name, most) = (operation.to_string(), limits.link(access) / rows);
            let rate = median(&report.series(case, &name, "rate"));
            if rate > 0.0 && most > 0.0 {
                let limit = Relation {
                    to: format!("the link, {access}"),
                    ratio: rate / most,
                    too_close_to_tell: false,
                };
                report.set_limit(case, &name, "rate", limit);
            }
        }
    }

    fn come_back(
        &self,
        mut rig: Rig,
        generation: u64,
        report: &mut Report,
        case: &str,
    ) -> Result<(), BenchError> {
        let some: Vec<u64> =
            (0..LOOKED_AT.min(self.items)).map(|i| i * (self.items / LOOKED_AT).max(1)).collect();
        let batch = self.options.cases_of(self.items).first().map_or(1, |case| case.0);
        // Of a generation that all of them have.
        for part in some.chunks(batch) {
            rig.write_fused(Op::Put, &[part], generation + 1)?;
        }
        let (rig, took) = rig.reattach(self.device)?;
        for part in some.chunks(batch) {
            rig.check_written(part.to_vec(), Expected::Generation(generation + 1))?;
        }
        let parts = [("image", took.open), ("registration", took.register), ("device index", took.index)];
        for (metric, time) in parts {
            report.add(case, BACK, 0, metric, Unit::Seconds, time.as_secs_f64());
        }
        let total: Duration = parts.iter().map(|part| part.1).sum();
        report.add(case, BACK, 0, "total", Unit::Seconds, total.as_secs_f64());
        Ok(())
    }
}

/// Rates, and how long coming back takes, over the number of items.
fn charts(options: &ScaleOptions, report: &Report) -> Vec<Chart> {
    let curve = |variant: &str, metric: &str, scale: f64| {
        let point = |&items: &u64| {
            let series = report.series(&case_name(items), variant, metric);
            (!series.is_empty()).then(|| (items as f64 * 1e-6, median(&series) * scale))
        };
        options.sizes.iter().filter_map(point).collect::<Vec<_>>()
    };
    let names = [Operation::Get, Operation::Update, Operation::Insert].map(|operation| operation.to_string());
    let rates: Vec<Curve> =
        names.into_iter().map(|name| Curve { points: curve(&name, "rate", 1e-6), name }).collect();
    let back = ["image", "registration", "device index", "total"]
        .map(|metric| Curve { name: metric.to_owned(), points: curve(BACK, metric, 1.0) });
    let drawn = |title: &str, y: &str, curves: Vec<Curve>| {
        Chart::new(title.to_owned(), "million items", y, Drawing::Curves(curves))
    };
    vec![
        drawn("rate by items", "million a second", rates).with_scales(Scale::Logarithmic, Scale::Linear),
        drawn("coming back by items", "seconds", back.into())
            .with_scales(Scale::Logarithmic, Scale::Logarithmic),
    ]
}
