//! Measures the thresholds of a [`DeviceProfile`] on the device it is for.
//!
//! Each threshold divides batch sizes between two settings. Both are timed at every size, in turn, and the threshold is
//! set where the second becomes faster. Thresholds that others rest on are measured first.

mod options;
mod threshold;
mod trial;

use warpkeep::{Durability, HostGetStrategy};
use warpkeep_device::Device;
use warpkeep_gphash::gpu::{DeviceProfile, PublishBy};
use warpkeep_gphash::{Geometry, Layout};

pub use self::options::ProfileOptions;
use self::trial::{Setting, Trials, Work};
use super::library::Library;
use super::{Form, LEAST_DRAWN, Pool, Rig};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::workload::Distribution;
use crate::{Amount, BenchError, Progress};

/// The largest batch size at which a setting is chosen that is not a threshold, as a power of two.
const MAIN_BITS: u32 = 20;

/// Measures the profile of a device. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, device};
///
/// let options = device::ProfileOptions::on("cuda:0".parse()?);
/// let (report, profile) = device::run_profile(&options, &Quiet)?;
/// print!("{}{profile}", report.to_text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run_profile(
    options: &ProfileOptions,
    progress: &dyn Progress,
) -> Result<(Report, DeviceProfile), BenchError> {
    options.check()?;
    let mut report = Report::new("profile", &options.command, options.workload.seed);
    report.machine.add_place("disk", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    let device = Device::open(options.device)?;
    let scratch = Scratch::new(&options.dir, &options.image_dir)?;
    let mut trials = Trials::load(options, &device, &scratch, progress)?;
    progress.begin("thresholds", Amount::Count(trials.count()));
    trials.gets(&mut report)?;
    trials.host_gets(&mut report)?;
    trials.writes(&mut report)?;
    progress.finish();
    let profile = trials.profile;
    trials.library.close()?;
    report.notes.push(format!(
        "{} items with values of {} bytes, uniform; the store has a log, and writes to it have the durability Process: written_from and fused_from are those of such writes, also where a \
         store has no log; every answer was checked; a threshold lies where the time lost against the faster setting \
         of each batch size is least; the profile: {}",
        options.workload.items,
        options.workload.value_bytes,
        profile.to_string().lines().collect::<Vec<_>>().join(", ")
    ));
    report.finish();
    Ok((report, profile))
}

impl<'t> Trials<'t> {
    fn load(
        options: &'t ProfileOptions,
        device: &Device,
        scratch: &Scratch,
        progress: &'t dyn Progress,
    ) -> Result<Trials<'t>, BenchError> {
        let workload = options.workload;
        let form = Form {
            workload,
            keys: workload.into(),
            layout: Layout::Packed,
            geometry: Geometry::default(),
            load_factor: None,
            extra: 0,
            largest: options.largest,
            fused: true,
        };
        progress.begin("loading", Amount::Count(2 * workload.items));
        let rig = Rig::load(device, scratch.images(), &form, progress)?;
        // Stores have a log unless they are made without one.
        let mut library = Library::load(device, scratch, &form, true, progress)?;
        // What was loaded is in a checkpoint, and is not written to the disk beside what is timed.
        library.use_durability(Durability::Process)?;
        progress.finish();
        let drawn = options.largest.max((workload.items as usize).min(LEAST_DRAWN));
        let pool = Pool::drawn(device, workload, Distribution::Uniform, false, drawn)?;
        let profile = rig.engine.profile();
        Ok(Trials { options, rig, library, pool, profile, generation: 0, progress })
    }

    /// The batch size at which settings are chosen that are not thresholds.
    fn main_batch(&self) -> usize {
        self.options.largest.min(1 << MAIN_BITS)
    }

    /// Batch sizes that are measured, over all thresholds.
    fn count(&self) -> u64 {
        let ranges = [SCATTERED, UNASSIGNED, ORDERED, LOCATED, GATHERED, SHARED, STREAMED, FUSED, WRITTEN];
        let sizes = ranges.into_iter().map(|(low, high)| self.sizes((low, high)).len() as u64).sum::<u64>();
        // The share of the device, the chunk of a write, and the threads that publish.
        sizes + 3
    }

    fn sizes(&self, (low, high): (u32, u32)) -> Vec<usize> {
        self.options.sizes(low..=high)
    }

    /// Gets with keys and values in device memory.
    fn gets(&mut self, report: &mut Report) -> Result<(), BenchError> {
        let settings = [
            Setting::change("scattered", |profile| {
                (profile.ordered_from, profile.scattered_to) = (0, usize::MAX);
            }),
            Setting::change("sorted", |profile| (profile.ordered_from, profile.scattered_to) = (0, 0)),
        ];
        let pairs = self.compare("scattered_to", Work::Get, &self.sizes(SCATTERED), settings, report)?;
        self.profile.scattered_to = threshold::to(&pairs);
        let settings = [
            Setting::change("SM affinity", |profile| {
                (profile.ordered_from, profile.scattered_to) = (0, 0);
                profile.unassigned_from = u64::MAX;
            }),
            Setting::change("no SM affinity", |profile| {
                (profile.ordered_from, profile.scattered_to) = (0, 0);
                profile.unassigned_from = 0;
            }),
        ];
        let pairs = self.compare("unassigned_from", Work::Get, &self.sizes(UNASSIGNED), settings, report)?;
        self.profile.unassigned_from = threshold::from(&pairs) as u64;
        let settings = [
            Setting::change("fused", |profile| profile.ordered_from = usize::MAX),
            Setting::change("in address order", |profile| profile.ordered_from = 0),
        ];
        let pairs = self.compare("ordered_from", Work::Get, &self.sizes(ORDERED), settings, report)?;
        self.profile.ordered_from = threshold::from(&pairs);
        let settings = [
            Setting::change("one launch", |profile| profile.located_at_once_to = usize::MAX),
            Setting::change("two launches", |profile| profile.located_at_once_to = 0),
        ];
        let pairs =
            self.compare("located_at_once_to", Work::Locate, &self.sizes(LOCATED), settings, report)?;
        self.profile.located_at_once_to = threshold::to(&pairs);
        Ok(())
    }

    /// Gets from host memory to host memory.
    fn host_gets(&mut self, report: &mut Report) -> Result<(), BenchError> {
        let gathered = || Setting::host_gets("located by the device", HostGetStrategy::Gather);
        let settings = [Setting::host_gets("by the CPU", HostGetStrategy::Cpu), gathered()];
        let pairs = self.compare("gathered_from", Work::HostGet, &self.sizes(GATHERED), settings, report)?;
        self.profile.gathered_from = threshold::from_measured(&pairs);
        let shares = [0.2, 0.3, 0.4, 0.5, 0.6, 0.8];
        let share = |share: f64| {
            Setting::change(format!("share {share}"), move |profile| profile.device_share = share)
                .with_host_gets(HostGetStrategy::Split)
        };
        let best =
            self.fastest("device_share", Work::PinnedGet, self.main_batch(), &shares.map(share), report)?;
        self.profile.device_share = shares[best];
        let settings = [gathered(), Setting::host_gets("shared with the device", HostGetStrategy::Split)];
        let pairs = self.compare("shared_from", Work::PinnedGet, &self.sizes(SHARED), settings, report)?;
        self.profile.shared_from = threshold::from(&pairs);
        let copies = |name: &str, from: usize| {
            Setting::change(name, move |profile| profile.streamed_from_bytes = from)
                .with_host_gets(HostGetStrategy::Gather)
        };
        let settings = [copies("cached copies", usize::MAX), copies("streaming copies", 0)];
        let pairs =
            self.compare("streamed_from_bytes", Work::HostGet, &self.sizes(STREAMED), settings, report)?;
        let value_bytes = self.options.workload.value_bytes;
        self.profile.streamed_from_bytes = threshold::from(&pairs).saturating_mul(value_bytes);
        Ok(())
    }

    /// Writes: fused ones, and the sizes from which on those from host memory are.
    fn writes(&mut self, report: &mut Report) -> Result<(), BenchError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = [2, 4, 8, 12, 16].into_iter().filter(|&threads| threads <= cores);
        let by: Vec<PublishBy> =
            std::iter::once(PublishBy::Device).chain(threads.map(PublishBy::Host)).collect();
        let setting =
            |&by: &PublishBy| Setting::change(by.to_string(), move |profile| profile.publish_by = by);
        let settings: Vec<Setting> = by.iter().map(setting).collect();
        let best = self.fastest("publish_by", Work::Update, self.main_batch(), &settings, report)?;
        self.profile.publish_by = by[best];
        let chunks = [13, 14, 15, 16, 17, 18].map(|bits| 1_u64 << bits);
        let setting = |chunk: u64| {
            Setting::change(format!("{chunk} operations"), move |profile| profile.chunk_operations = chunk)
        };
        let best =
            self.fastest("chunk_operations", Work::Update, self.main_batch(), &chunks.map(setting), report)?;
        self.profile.chunk_operations = chunks[best];
        let settings = [
            Setting::change("two phases", |profile| {
                (profile.written_from, profile.fused_from) = (0, usize::MAX);
            }),
            Setting::change("fused", |profile| {
                (profile.written_from, profile.fused_from) = (0, 0);
            }),
        ];
        let pairs = self.compare("fused_from", Work::HostUpdate, &self.sizes(FUSED), settings, report)?;
        self.profile.fused_from = threshold::from_measured(&pairs);
        let settings = [
            Setting::change("by the CPU", |profile| profile.written_from = usize::MAX),
            Setting::change("by the device", |profile| profile.written_from = 0),
        ];
        let pairs = self.compare("written_from", Work::HostUpdate, &self.sizes(WRITTEN), settings, report)?;
        self.profile.written_from = threshold::from_measured(&pairs);
        Ok(())
    }
}

/// Batch sizes at which each threshold is measured, as powers of two. Those from which a setting applies are measured up to a million: if that setting is slower at all sizes, it
/// is never used.
const SCATTERED: (u32, u32) = (9, 20);
const UNASSIGNED: (u32, u32) = (14, 22);
const ORDERED: (u32, u32) = (5, 20);
const LOCATED: (u32, u32) = (10, 20);
const GATHERED: (u32, u32) = (4, 20);
const SHARED: (u32, u32) = (14, 21);
const STREAMED: (u32, u32) = (14, 21);
const FUSED: (u32, u32) = (6, 20);
const WRITTEN: (u32, u32) = (4, 20);
