//! The paper's index: signatures apart from locations, as kernels search and fill it.

use warpkeep_device::{Buffer, Device};

use crate::BenchError;
use crate::gpu::cuckoo::Hashes;

/// What signatures are multiplied by, as in `kernels/unit_index.cu`.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// An index in host memory, with buckets of some cells.
pub(super) struct UnitIndex {
    cells: usize,
    buckets: u64,
    partitions: u64,
    words: Vec<u32>,
}

impl UnitIndex {
    /// An empty index of this many buckets, a power of two, in this many partitions of the same size.
    pub(super) fn new(cells: usize, buckets: u64, partitions: u64) -> UnitIndex {
        UnitIndex { cells, buckets, partitions, words: vec![0; 2 * cells * buckets as usize] }
    }

    /// The buckets of a partition, less one.
    pub(super) fn mask(&self) -> u64 {
        self.buckets / self.partitions - 1
    }

    /// The partition of a hash: by other bits than its buckets and its signature, as far as there are any.
    pub(super) fn partition(&self, hash: u64) -> u64 {
        (hash.wrapping_mul(SPREAD) >> 32) % self.partitions
    }

    /// Both buckets of a hash, numbered through all partitions.
    fn buckets_of(&self, hash: u64) -> [u64; 2] {
        let (first, mask) = (self.partition(hash) * (self.mask() + 1), self.mask());
        let distance = ((u64::from(signature(hash)).wrapping_mul(SPREAD) >> 32) | 1) & mask;
        [first + (hash & mask), first + ((hash & mask) ^ distance)]
    }

    fn bucket(&self, number: u64) -> &[u32] {
        &self.words[2 * self.cells * number as usize..][..2 * self.cells]
    }

    /// Adds an entry to the emptier bucket.
    pub(super) fn insert(&mut self, hash: u64, location: u32) -> Result<(), BenchError> {
        let free = |number: u64| self.bucket(number)[..self.cells].iter().filter(|&&cell| cell == 0).count();
        let [first, second] = self.buckets_of(hash);
        let number = if free(second) > free(first) { second } else { first };
        let Some(cell) = self.bucket(number)[..self.cells].iter().position(|&cell| cell == 0) else {
            return Err(BenchError::Invalid(
                "an index without displacement is full; give fewer --items".to_owned(),
            ));
        };
        let at = 2 * self.cells * number as usize + cell;
        self.words[at] = signature(hash);
        self.words[at + self.cells] = location;
        Ok(())
    }

    /// Fills it with the entries of these numbers.
    pub(super) fn fill(&mut self, hashes: Hashes, numbers: std::ops::Range<u32>) -> Result<(), BenchError> {
        numbers.into_iter().try_for_each(|number| self.insert(hashes.of(number), number))
    }

    pub(super) fn upload(&self, device: &Device) -> Result<Buffer, BenchError> {
        Ok(device.upload(&self.words)?)
    }

    /// Checks that an index in device memory has the entries of these numbers, each once, and no others.
    pub(super) fn check(
        &mut self,
        table: &Buffer,
        hashes: Hashes,
        numbers: std::ops::Range<u32>,
    ) -> Result<(), BenchError> {
        table.read(0, &mut self.words)?;
        let held: usize = self
            .words
            .chunks(2 * self.cells)
            .map(|bucket| bucket[..self.cells].iter().filter(|&&cell| cell != 0).count())
            .sum();
        let has = |number: u32| {
            let hash = hashes.of(number);
            self.buckets_of(hash).into_iter().any(|bucket| {
                let (signatures, locations) = self.bucket(bucket).split_at(self.cells);
                signatures.iter().zip(locations).any(|(&sig, &loc)| sig == signature(hash) && loc == number)
            })
        };
        match held == numbers.len() && numbers.clone().all(has) {
            true => Ok(()),
            false => Err(BenchError::Wrong(format!(
                "an index of the paper's layout has {held} entries, and not the {} that it was given",
                numbers.len()
            ))),
        }
    }
}

fn signature(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}
