//! What is asked of a whole map in device memory: all its pairs, and whether it is sound.

use bytemuck::pod_read_unaligned;
use warpkeep_device::{DeviceError, DevicePtr, Grid, Result, Stream};

use super::device::DeviceMap;
use super::kernels::{CONTROL_WORDS, FIRST_VERIFIED, PENDING, RETRIEVED, THREADS, Whole};
use super::table::BUCKET_BYTES;
use super::width::{MapKey, MapValue};
use crate::ContainerError;
use crate::spread_count::{COUNT_WORDS, sum};

/// Buckets that are read at once.
const CHUNK: u64 = 1 << 14;

impl<K: MapKey, V: MapValue> DeviceMap<K, V> {
    /// Gives all pairs to `take`, in parts.
    pub(super) fn for_each_part<E: From<DeviceError>>(
        &self,
        mut take: impl FnMut(&[(K, V)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let table = self.read()?;
        let (shape, mask) = (table.shape, table.buckets() - 1);
        let (mut slots, mut apart, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        for first in (0..table.buckets()).step_by(CHUNK as usize) {
            let buckets = (table.buckets() - first).min(CHUNK) as usize;
            slots.resize(BUCKET_BYTES * buckets, 0_u8);
            table.slots.read(BUCKET_BYTES * first as usize, &mut slots)?;
            if let Some(values) = &table.values {
                apart.resize(shape.apart_bytes() * buckets, 0_u8);
                values.read(shape.apart_bytes() * first as usize, &mut apart)?;
            }
            pairs.clear();
            for (at, slot) in slots.chunks_exact(shape.slot_bytes()).enumerate() {
                let word: K = pod_read_unaligned(&slot[..size_of::<K>()]);
                if !word.is_held() {
                    continue;
                }
                let bucket = first + at as u64 / shape.slots();
                let bytes = match (size_of::<V>(), shape.is_apart()) {
                    (0, _) => &[],
                    (bytes, false) => &slot[shape.value_at()..][..bytes],
                    (bytes, true) => &apart[bytes * at..][..bytes],
                };
                let key = K::unmix(table.seed, K::hash_in(word, bucket, mask));
                pairs.push((key, pod_read_unaligned(bytes)));
            }
            take(&pairs)?;
        }
        Ok(())
    }

    /// Lists all pairs in device memory, in no order; gives their number. The columns have room for all.
    ///
    /// # Safety
    /// Both pointers, or that of the keys if the other is null, have room for as many elements as `room` says, and no other code uses it
    /// meanwhile.
    pub(super) unsafe fn retrieve(
        &self,
        keys: DevicePtr,
        values: DevicePtr,
        room: u64,
        stream: &Stream,
    ) -> Result<u64> {
        // Exclusively, because kernels count in the control words.
        let table = self.write()?;
        let length = table.len_on(stream)?;
        if length > room {
            return Err(DeviceError::OutOfBounds {
                what: "pairs of a map",
                offset: 0,
                len: size_of::<K>() as u64 * length,
                size: size_of::<K>() as u64 * room,
            });
        }
        let params = Whole { map: table.reference(), keys, values, slots: table.capacity(), room };
        table.control.fill_on(8 * PENDING, 8, 0, stream)?;
        // SAFETY: the caller's promise; the table is borrowed until the stream is synchronised.
        unsafe {
            let grid = Grid::covering(params.slots.div_ceil(RETRIEVED), THREADS);
            self.kernels.retrieve.launch(grid, &params, stream)?;
        }
        Ok(table.counts_on(stream)?.pending[0])
    }

    /// An error unless every key can be found in its slot, none is there twice, no slot is kept for nothing and the length is exact.
    /// Gives the number of keys that are in their second bucket.
    pub(super) fn verify(&self) -> Result<u64, ContainerError> {
        let workspace = self.workspaces.take(&self.device)?;
        let (stream, table) = (&workspace.stream, self.write()?);
        let (from, none) = (8 * FIRST_VERIFIED, DevicePtr::NULL);
        table.control.fill_on(from, 8 * CONTROL_WORDS - from, 0, stream)?;
        let params =
            Whole { map: table.reference(), keys: none, values: none, slots: table.capacity(), room: 0 };
        // SAFETY: the table is borrowed until the stream is synchronised.
        unsafe { self.kernels.verify.launch(Grid::covering(params.slots, THREADS), &params, stream)? };
        let mut control = [0_u64; CONTROL_WORDS];
        table.control.read_on(0, &mut control, stream)?;
        drop(table);
        self.workspaces.put_back(workspace);
        let length = sum(&control[..COUNT_WORDS]);
        let [lost, twice, reserved, held, second] = std::array::from_fn(|at| control[FIRST_VERIFIED + at]);
        let wrong = [
            (lost, "keys cannot be found"),
            (twice, "slots have a key that another has"),
            (reserved, "slots are kept for nothing"),
            (length.abs_diff(held), "is the difference between the length and the keys in slots"),
        ];
        match wrong.iter().find(|(count, _)| *count > 0) {
            Some((count, what)) => Err(ContainerError::Inconsistent { what: format!("{count} {what}") }),
            None => Ok(second),
        }
    }
}
