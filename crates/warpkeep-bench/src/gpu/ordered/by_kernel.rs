//! Inserts and lookups inside one kernel.
#![allow(unsafe_code, reason = "kernels are launched")]

use std::time::Instant;

use bytemuck::checked;
use warpkeep_containers::{OrderedKey, OrderedMap, OrderedStatus, OrderedWord, OrderedWriter};
use warpkeep_device::{Device, Grid, KernelSet as _, TypedKernel};

use super::batch::{Answers, Batch, Operation};
use crate::BenchError;
use crate::gpu::{Clock, DEVICE};
use crate::kernels::{OrderedCallKernels, OrderedCallParams};

/// Threads of a block.
const THREADS: u32 = 128;

/// The kernels of one width, and where they run.
pub(super) struct ByKernel<'d> {
    device: &'d Device,
    clock: &'d Clock,
    insert: TypedKernel<OrderedCallParams>,
    find: TypedKernel<OrderedCallParams>,
}

/// What operations inside a kernel took.
pub(super) struct Took {
    /// Inserts, without the host's part.
    pub(super) insert: f64,
    /// The same with opening the map before and making a state of it behind.
    pub(super) whole: f64,
    /// Lookups of keys of which half were there before and half were just inserted.
    pub(super) find: f64,
}

impl<'d> ByKernel<'d> {
    pub(super) fn new<K>(device: &'d Device, clock: &'d Clock) -> Result<Self, BenchError> {
        let kernels = OrderedCallKernels::load(device)?;
        let (insert, find) = match size_of::<K>() {
            4 => (kernels.insert_4, kernels.find_4),
            _ => (kernels.insert_8, kernels.find_8),
        };
        Ok(Self { device, clock, insert, find })
    }

    /// Inserts a batch into a map and looks keys up, both inside kernels. Every answer is checked.
    pub(super) fn run<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        map: &OrderedMap<K, V>,
        insert: &Batch<K, V>,
        find: &Batch<K, V>,
    ) -> Result<Took, BenchError> {
        let begun = Instant::now();
        let writer = map.writer(insert.len() as u64)?;
        let opening = begun.elapsed().as_secs_f64();
        let inserted = self.call(&self.insert, &writer, insert)?;
        let found = self.call(&self.find, &writer, find)?;
        let begun = Instant::now();
        writer.finish()?;
        let finishing = begun.elapsed().as_secs_f64();
        Ok(Took { insert: inserted, whole: opening + inserted + finishing, find: found })
    }

    fn call<K: OrderedKey<V>, V: OrderedWord>(
        &self,
        kernel: &TypedKernel<OrderedCallParams>,
        writer: &OrderedWriter<K, V>,
        batch: &Batch<K, V>,
    ) -> Result<f64, BenchError> {
        let (device, count) = (self.device, batch.len());
        let keys = device.upload(&batch.keys)?;
        let values = match batch.values.is_empty() {
            true => device.allocate_zeroed(size_of::<V>() * count)?,
            false => device.upload(&batch.values)?,
        };
        let statuses = device.allocate_zeroed(count)?;
        let params = OrderedCallParams {
            map: writer.reference(),
            keys: keys.ptr(),
            values: values.ptr(),
            statuses: statuses.ptr(),
            count: count as u64,
        };
        let seconds = self.clock.time(|stream| {
            // SAFETY: the columns have an element for each operation; the clock waits for the stream, and the writer is there until then.
            unsafe { kernel.launch(Grid::covering(params.count, THREADS), &params, stream) }
        })?;
        let statuses = statuses.to_vec::<u8>()?;
        let statuses: &[OrderedStatus] = checked::try_cast_slice(&statuses)
            .map_err(|_| BenchError::Wrong(format!("{DEVICE}: an operation was not answered at all")))?;
        let values = match batch.operation {
            Operation::Insert => batch.right.values.clone(),
            _ => values.to_vec::<V>()?,
        };
        batch.check(DEVICE, &Answers { statuses: statuses.to_vec(), values, ..Answers::default() })?;
        Ok(seconds)
    }
}
