//! Keys that teach a value cache which values are hot: not the measured ones, but drawn alike.

use std::num::NonZero;

use warpkeep_device::{Buffer, Device, DevicePtr};

use super::keys::Keys;
use crate::BenchError;
use crate::workload::Distribution;

/// Keys that are drawn, for each item, and at the most.
const EACH: u64 = 4;
const MOST: u64 = 1 << 26;
/// Streams of random numbers that are used elsewhere.
const OTHERS: u64 = 2;

/// Keys in device memory, in rows of whole words.
pub(crate) struct Lessons {
    keys: Buffer,
    row_bytes: usize,
    pub(crate) count: usize,
}

impl Lessons {
    /// As many as show which items are hot, drawn by all cores.
    pub(crate) fn drawn(
        device: &Device,
        keys_of: impl Into<Keys>,
        distribution: Distribution,
    ) -> Result<Lessons, BenchError> {
        let keys_of = keys_of.into();
        let workload = keys_of.workload();
        let count = (EACH * workload.items).min(MOST) as usize;
        let row_bytes = keys_of.row_bytes();
        let keys = device.allocate(count * row_bytes)?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let each = count.div_ceil(threads);
        std::thread::scope(|scope| {
            let drawing: Vec<_> = (0..threads)
                .map(|thread| (thread, (each * thread).min(count)..(each * (thread + 1)).min(count)))
                .map(|(thread, part)| {
                    scope.spawn(move || {
                        let picks = workload.picks(distribution, OTHERS + thread as u64)?;
                        let mut rows = vec![0_u8; part.len() * row_bytes];
                        let mut key = Vec::new();
                        for (row, number) in rows.chunks_exact_mut(row_bytes).zip(picks) {
                            keys_of.write_row(number, &mut key, row);
                        }
                        Ok::<_, BenchError>((part.start, rows))
                    })
                })
                .collect();
            for drawn in drawing {
                let (first, rows) = drawn.join().expect("drawing does not panic")?;
                keys.write(first * row_bytes, &rows)?;
            }
            Ok::<_, BenchError>(())
        })?;
        Ok(Lessons { keys, row_bytes, count })
    }

    /// Where the keys from this one on lie for kernels.
    pub(crate) fn keys_at(&self, first: usize) -> DevicePtr {
        self.keys.ptr().offset((first * self.row_bytes) as u64)
    }
}
