//! Shared by tests of logged batches on a device: an image in memory that outlives its store, and batches in device
//! memory.

use std::path::Path;
use std::sync::Arc;

use warpkeep::engine::ImagePlace;
use warpkeep::rows::{
    BatchView, Cells, Column, ColumnMut, Columns, DeviceSlice, DeviceSliceMut, KeyCells, Ops, Output,
    OutputValues,
};
use warpkeep::{Device, Durability, KeySpec, Op, Result, Status, Table};
use warpkeep_image::{
    Attached, Backing as _, Coherent, Format, Identity, Image, ImageError, MIN_CHUNK, Persist, PlainMemory,
    Surroundings,
};
use warpkeep_log::LogOptions;

/// A log that is written only by threads that wait for it, in small segments.
pub(crate) fn log_options() -> LogOptions {
    LogOptions { segment_bytes: 64 << 10, background: false, fill_ahead_bytes: 0, ..LogOptions::default() }
}

/// Memory for an image.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) memory: Arc<PlainMemory>,
}

/// An image there, written to with this.
pub(crate) struct PlaceOf<P> {
    place: Place,
    persist: P,
}

impl Place {
    /// With all its chunks from the beginning, so that a device need not follow its growth.
    pub(crate) fn new(chunks: u64) -> Place {
        Place { memory: Arc::new(PlainMemory::new(chunks * MIN_CHUNK, chunks * MIN_CHUNK)) }
    }

    /// All bytes, while there are no writers.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the memory has this length, and the caller guarantees that no thread writes.
        unsafe { std::slice::from_raw_parts(self.memory.base(), self.memory.len() as usize) }.to_vec()
    }

    pub(crate) fn with<P>(&self, persist: P) -> PlaceOf<P> {
        PlaceOf { place: self.clone(), persist }
    }

    pub(crate) fn plain(&self) -> PlaceOf<Coherent> {
        self.with(Coherent)
    }
}

fn surroundings() -> Surroundings {
    let identity = Identity { boot_id: [5; 16], device: 1, inode: 2, born: 3 };
    Surroundings { identity, persistent: false, pid: 7, start_time: 8, now: 9, adopt: false }
}

impl<P: Persist + Clone> ImagePlace<P> for PlaceOf<P> {
    fn open(&self) -> std::result::Result<Option<Attached<P>>, ImageError> {
        if self.place.bytes()[..8] == [0; 8] {
            return Ok(None);
        }
        let memory = Arc::clone(&self.place.memory);
        Image::attach(memory, self.persist.clone(), Path::new("memory"), surroundings(), true).map(Some)
    }

    fn new_store_id(&self) -> std::result::Result<[u8; 16], ImageError> {
        Ok([9; 16])
    }

    fn create(&self, store_id: [u8; 16]) -> std::result::Result<Image<P>, ImageError> {
        let format = Format { store_id, chunk_size: MIN_CHUNK, hash_seed: 3 };
        let memory = Arc::clone(&self.place.memory);
        Image::format(memory, self.persist.clone(), Path::new("memory"), &format, surroundings())
    }
}

/// The key with this number, of `len` bytes.
fn key_of(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The key with this number, to 1 << 16, in a table of such keys: with any length they are of every length but the first two, some of them
/// with zeros at their ends.
pub(crate) fn key_in(spec: KeySpec, number: u64) -> Vec<u8> {
    match spec.fixed_len() {
        Some(len) => key_of(number, len),
        None => {
            let mut key = number.to_le_bytes()[..2].to_vec();
            key.resize(2 + number as usize % (spec.max_len() - 1), (number % 3) as u8);
            key
        }
    }
}

/// The same as rows in device memory have it.
pub(crate) fn key_row(spec: KeySpec, number: u64) -> Vec<u8> {
    let key = key_in(spec, number);
    match KeyCells::of(spec) {
        Some(cells) => cells.cell(&key).unwrap().as_bytes().to_vec(),
        None => key,
    }
}

/// Runs the same operation on keys in device memory, with answers there; every byte of every value is the mark.
/// Returns the statuses, and the values.
pub(crate) fn put_rows<P: Persist>(
    table: &Table<P>,
    device: &Device,
    op: Op,
    keys: &[u64],
    mark: u8,
    durability: Durability,
) -> Result<(Vec<Status>, Vec<Vec<u8>>)> {
    let (count, len) = (keys.len(), table.value_spec().max_len());
    let key_len = key_row(table.key_spec(), 0).len();
    let keys: Vec<u8> = keys.iter().flat_map(|&number| key_row(table.key_spec(), number)).collect();
    let values: Vec<u8> = vec![mark; len * count];
    let (on_device, there) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let statuses = device.allocate_zeroed(count).unwrap();
    // SAFETY: the buffers have these lengths, live until the end of this function, and no other code has them.
    let (key_rows, value_rows, answers) = unsafe {
        (
            DeviceSlice::from_raw(on_device.ptr().address(), key_len * count, 0),
            DeviceSlice::from_raw(there.ptr().address(), len * count, 0),
            DeviceSliceMut::from_raw(statuses.ptr().address(), count, 0),
        )
    };
    let columns = Columns {
        ops: Ops::Uniform(op),
        keys: Cells::Fixed { len: key_len, bytes: Column::Device(key_rows) },
        values: match op.takes_value() {
            true => Cells::Fixed { len, bytes: Column::Device(value_rows) },
            false => Cells::Empty,
        },
        arguments: None,
    };
    let batch = BatchView::new(table.key_spec(), table.value_spec(), columns).unwrap();
    let output = Output::new(&batch, ColumnMut::Device(answers), None, OutputValues::None).unwrap();
    table.run_on(&batch, durability, output, &device.stream()?)?;
    let codes = statuses.to_vec::<u8>()?;
    let codes = codes.into_iter().map(|code| Status::try_from(code).unwrap()).collect();
    Ok((codes, values.chunks(len).map(<[u8]>::to_vec).collect()))
}
