//! A store whose tables a device runs, used as by a program: from host memory to host memory.

use std::ops::Range;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpkeep::{
    DeviceProfile, Durability, HostGetStrategy, IndexOptions, KeySpec, Op, Status, Store, StoreOptions,
    TableOptions, ValueSpec,
};
use warpkeep_core::{BatchView, Cells, ColumnMut, Columns, HostCells, Output, OutputValues};
use warpkeep_device::{Device, PinnedBuffer};
use warpkeep_gphash::gpu::StepTime;
use warpkeep_image::CreateOptions;
use warpkeep_log::LogOptions;

use super::answers::Expected;
use super::keys::{KeyColumn, Keys};
use super::rig::Form;
use crate::compare::warpkeep_image_bytes;
use crate::scratch::Scratch;
use crate::workload::Workload;
use crate::{BenchError, Progress, pinned};

const TABLE: &str = "rows";
/// Answers that a thread checks, at least.
const CHECKED: usize = 1 << 14;
/// Bytes of a batch in the log: more than the largest batch takes.
const MOST_LOGGED: u64 = 16 << 30;
/// Items that are loaded at once.
const LOADED: u64 = 1 << 20;

/// A store of one table; without a log it measures the way to the device and back.
pub(crate) struct Library {
    // Before the directories it lies in.
    store: Store,
    /// The answers to batches, in memory that is kept from batch to batch: touching fresh memory takes longer than
    /// refilling it.
    statuses: Vec<Status>,
    values: Vec<u8>,
    /// The values, and the keys of the batch, where these are to be in pinned memory; and whether they are.
    pinned: Option<PinnedBuffer>,
    pinned_keys: Option<PinnedBuffer>,
    is_pinned: bool,
    /// Keys of the last gets.
    asked: usize,
    /// Whether steps are timed, and those of the last gets that are measured here.
    timed: bool,
    own_steps: Vec<StepTime>,
    workload: Workload,
    keys: Keys,
    key: KeySpec,
    value: ValueSpec,
    durability: Durability,
    device: Device,
    _image: TempDir,
    _directory: TempDir,
}

impl Library {
    pub(super) fn load(
        device: &Device,
        scratch: &Scratch,
        form: &Form,
        logged: bool,
        progress: &dyn Progress,
    ) -> Result<Library, BenchError> {
        let workload = form.workload;
        let (directory, image) = (scratch.fresh_disk()?, scratch.fresh_image()?);
        let with_extra = Workload { items: workload.items + form.extra, ..workload };
        let options = StoreOptions {
            image: Some(image.path().join("image")),
            without_log: !logged,
            log: LogOptions { max_batch_bytes: MOST_LOGGED, ..LogOptions::default() },
            create: CreateOptions {
                len: warpkeep_image_bytes(&form.keys.in_rows(with_extra)),
                ..CreateOptions::default()
            },
            ..StoreOptions::default()
        };
        let store = Store::open_on(directory.path().join("store"), options, device)?;
        let key = form.keys.spec()?;
        let value = ValueSpec::fixed(workload.value_bytes as u32).map_err(warpkeep::Error::from)?;
        let index = IndexOptions::GpHash { geometry: form.geometry, layout: Some(form.layout) };
        let options = TableOptions::new(key, value).capacity(with_extra.items).index(index);
        store.create_table(TABLE, options)?;
        let durability = Durability::Process;
        let mut library = Library {
            store,
            statuses: Vec::new(),
            values: Vec::new(),
            pinned: None,
            pinned_keys: None,
            is_pinned: false,
            device: device.clone(),
            asked: 0,
            timed: false,
            own_steps: Vec::new(),
            workload,
            keys: form.keys,
            key,
            value,
            durability,
            _image: image,
            _directory: directory,
        };
        for first in (0..workload.items).step_by(LOADED as usize) {
            progress.check()?;
            let numbers: Vec<u64> = (first..(first + LOADED).min(workload.items)).collect();
            library.write(Op::Put, &numbers, 0)?;
            progress.advance(numbers.len() as u64);
        }
        Ok(library)
    }

    /// Runs a batch of the same operation on keys, with values if it takes them.
    fn run(&mut self, op: Op, keys: Cells<'_>, values: &[u8]) -> Result<Duration, BenchError> {
        let columns = match op.takes_value() {
            true => Columns::with_values(op, keys, Cells::fixed(self.workload.value_bytes, values)),
            false => Columns::keys_only(op, keys),
        };
        let view = BatchView::new(self.key, self.value, columns).map_err(warpkeep::Error::from)?;
        let table = self.store.table(TABLE)?;
        self.asked = view.len();
        self.statuses.resize(self.statuses.len().max(self.asked), Status::Pending);
        let begun = Instant::now();
        // No versions: a device does not know which version a delete removes.
        let statuses = ColumnMut::Host(&mut self.statuses[..self.asked]);
        let output = Output::new(&view, statuses, None, OutputValues::None).map_err(warpkeep::Error::from)?;
        let mut output = output.into_host().expect("all of it is host memory");
        table.run_into(&view, self.durability, &mut output)?;
        Ok(begun.elapsed())
    }

    /// Has gets use this strategy, or the one that the device profile decides.
    pub(super) fn use_strategy(&self, strategy: Option<HostGetStrategy>) -> Result<(), BenchError> {
        self.store.table(TABLE)?.set_host_gets(strategy);
        Ok(())
    }

    /// Has batches run as this profile decides.
    pub(super) fn use_profile(&self, profile: DeviceProfile) -> Result<(), BenchError> {
        self.store.table(TABLE)?.set_device_profile(profile);
        Ok(())
    }

    /// Has keys of gets come from pinned memory, and values go there; or any.
    pub(super) fn use_pinned(&mut self, pinned: bool) {
        self.is_pinned = pinned;
    }

    /// Provides space for `bytes` bytes of values.
    fn have_room(&mut self, bytes: usize) -> Result<(), BenchError> {
        match self.is_pinned {
            true => pinned_room(&mut self.pinned, &self.device, bytes).map(drop),
            false => {
                self.values.resize(self.values.len().max(bytes), 0);
                Ok(())
            }
        }
    }

    /// The values of the last gets.
    fn values(&self) -> &[u8] {
        match &self.pinned {
            Some(pinned) if self.is_pinned => pinned.as_slice(),
            _ => &self.values,
        }
    }

    /// Has writes survive this. A log begins anew, so that it does not fill the disk.
    pub(super) fn use_durability(&mut self, durability: Durability) -> Result<(), BenchError> {
        self.durability = durability;
        Ok(self.store.checkpoint()?)
    }

    /// Looks keys up: statuses and values are requested, but not versions, which lie elsewhere.
    pub(super) fn get(&mut self, keys: &KeyColumn, part: &Range<usize>) -> Result<Duration, BenchError> {
        let row = self.workload.value_bytes;
        self.asked = part.len();
        self.statuses.resize(self.statuses.len().max(self.asked), Status::Pending);
        self.have_room(row * self.asked)?;
        let mut cells = keys.cells(part);
        if let (true, Some(HostCells::Fixed { len, bytes })) = (self.is_pinned, cells.host()) {
            let pinned = pinned_room(&mut self.pinned_keys, &self.device, bytes.len())?;
            pinned.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
            cells = Cells::fixed(len, &pinned.as_slice()[..bytes.len()]);
        }
        let view = BatchView::new(self.key, self.value, Columns::keys_only(Op::Get, cells))
            .map_err(warpkeep::Error::from)?;
        let table = self.store.table(TABLE)?;
        let timed = self.timed;
        let begun = Instant::now();
        let statuses = ColumnMut::Host(&mut self.statuses[..self.asked]);
        let values = match &mut self.pinned {
            Some(pinned) if self.is_pinned => pinned.as_mut_slice(),
            _ => &mut self.values,
        };
        let bytes = ColumnMut::Host(&mut values[..row * self.asked]);
        let output = Output::new(&view, statuses, None, OutputValues::Rows { len: row, bytes })
            .map_err(warpkeep::Error::from)?;
        let mut output = output.into_host().expect("all of it is host memory");
        let prepared = timed.then(|| begun.elapsed());
        table.run_into(&view, self.durability, &mut output)?;
        let whole = begun.elapsed();
        if let Some(prepared) = prepared {
            let step = |step, took| StepTime { step, on_device: false, took };
            self.own_steps = vec![
                step("library: statuses are made pending", prepared),
                step("library: the whole call", whole),
            ];
        }
        Ok(whole)
    }

    /// Begins to note the steps of batches.
    pub(super) fn time_steps(&mut self, wanted: bool) -> Result<(), BenchError> {
        self.timed = wanted;
        self.store.table(TABLE)?.time_steps(wanted);
        Ok(())
    }

    /// The steps since the last call.
    pub(super) fn take_step_times(&mut self) -> Result<Vec<StepTime>, BenchError> {
        let mut steps = self.store.table(TABLE)?.take_step_times().concat();
        steps.append(&mut self.own_steps);
        Ok(steps)
    }

    /// The answer to one of the last gets.
    fn found(&self, index: usize) -> Option<&[u8]> {
        let row = self.workload.value_bytes;
        (self.statuses[..self.asked].get(index) == Some(&Status::Ok))
            .then(|| &self.values()[row * index..][..row])
    }

    /// Checks every answer to the last gets.
    pub(super) fn check(&self, numbers: &[u64], expected: Expected) -> Result<(), BenchError> {
        let right = |index: usize, number: u64| match (self.found(index), expected) {
            (None, Expected::Absent) | (Some(_), Expected::There) => true,
            (Some(value), Expected::Whole) => self.workload.is_whole(number, value),
            (Some(value), Expected::Generation(generation)) => {
                self.workload.is_exactly(number, generation, value)
            }
            _ => false,
        };
        // By all cores: there are many.
        let share = numbers.len().div_ceil(pinned::core_count()).max(CHECKED);
        let count = |(part, some): (usize, &[u64])| {
            (part * share..).zip(some).filter(|&(index, &number)| !right(index, number)).count()
        };
        let count = &count;
        let wrong: usize = std::thread::scope(|scope| {
            let parts = numbers.chunks(share).enumerate();
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || count(part))).collect();
            threads.into_iter().map(|thread| thread.join().expect("comparing bytes cannot fail")).sum()
        });
        match wrong {
            0 => Ok(()),
            wrong => Err(BenchError::Wrong(format!(
                "{wrong} of {} answers of the library are wrong ({expected:?})",
                numbers.len()
            ))),
        }
    }

    /// Puts values of a generation, or deletes.
    pub(super) fn write(&mut self, op: Op, numbers: &[u64], generation: u64) -> Result<Duration, BenchError> {
        let (keys, mut values) = (KeyColumn::of(&self.keys, numbers), Vec::new());
        if op.takes_value() {
            numbers.iter().for_each(|&number| self.workload.append_value(number, generation, &mut values));
        }
        let took = self.run(op, keys.cells(&(0..numbers.len())), &values)?;
        let right = |status: &&Status| matches!(**status, Status::Ok | Status::Created);
        match self.statuses[..self.asked].iter().filter(|status| !right(status)).count() {
            0 => Ok(took),
            wrong => Err(BenchError::Wrong(format!("{wrong} of {} {op:?}s were refused", numbers.len()))),
        }
    }

    /// Reads items back and checks every byte.
    pub(super) fn check_written(&mut self, numbers: &[u64], expected: Expected) -> Result<(), BenchError> {
        self.get(&KeyColumn::of(&self.keys, numbers), &(0..numbers.len()))?;
        self.check(numbers, expected)
    }

    pub(super) fn close(self) -> Result<(), BenchError> {
        let Library { store, _image, _directory, .. } = self;
        Ok(store.close()?)
    }
}

/// Pinned memory that is kept from batch to batch, of at least the given size.
fn pinned_room<'p>(
    kept: &'p mut Option<PinnedBuffer>,
    device: &Device,
    bytes: usize,
) -> Result<&'p mut PinnedBuffer, BenchError> {
    if kept.as_ref().is_none_or(|pinned| pinned.len() < bytes) {
        *kept = None;
        *kept = Some(device.pin(bytes)?);
    }
    Ok(kept.as_mut().expect("it has just been pinned"))
}
