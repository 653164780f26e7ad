//! Values of records, copied by a thread of the host to where they are wanted.

use warpkeep_core::{AnswerRows, Answers, Status};
use warpkeep_image::Persist;
use warpkeep_record::{Streaming, Value, prefetch};

use super::Gathered;
use crate::Table;
use crate::gpu::params::VEILED;

/// Records that are under way to a core at once: as many as it can have misses.
const AHEAD: usize = 16;
/// Bytes of a line of memory; and lines of a value that are asked for ahead, at the most: more the machine fetches itself once it sees the pattern.
const LINE: usize = 64;
const MOST_LINES: usize = 4;
/// Values of a length that is known when the table is.
const ANY: usize = 0;

/// Where the answers of a part go.
pub(super) trait Sink {
    /// Whether anybody wants the versions.
    fn wants_versions(&self) -> bool;

    /// A key has a value, which is copied by a function that suits the batch; whether it is such a value as it has to be.
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool;

    /// A key is not there.
    fn absent(&mut self, index: usize);
}

impl Sink for AnswerRows<'_> {
    #[inline(always)]
    fn wants_versions(&self) -> bool {
        AnswerRows::wants_versions(self)
    }

    #[inline(always)]
    fn found(
        &mut self,
        index: usize,
        version: u64,
        value: &[u8],
        copy: impl FnOnce(&[u8], &mut [u8]),
    ) -> bool {
        self.answer_by(index, Status::Ok, version, value, copy) == Status::Ok
    }

    #[inline(always)]
    fn absent(&mut self, index: usize) {
        self.answer(index, Status::NotFound, 0);
    }
}

/// How values are copied for a batch.
pub(super) struct Copying<'c, P: Persist> {
    pub(super) table: &'c Table<P>,
    /// Whether records are certain to be those of their keys.
    pub(super) exact: bool,
    /// Whether values go past the caches.
    pub(super) streamed: bool,
}

impl<P: Persist> Copying<'_, P> {
    /// Copies the values of records; 0 says that a key has none. Whoever asks has the epoch pinned since before they were pointed at. `key_of`
    /// gives the key of a record that is in doubt; if it does not, nothing is said of that key.
    pub(super) fn copy<'k>(
        &self,
        records: &[u64],
        key_of: impl Fn(usize) -> Option<&'k [u8]>,
        sink: &mut impl Sink,
    ) -> Gathered {
        let Copying { table, exact, streamed } = *self;
        // Then the value is all that is read of a record: key and version lie in another line.
        if exact && !sink.wants_versions() && table.form.value_ref(0).is_some() {
            // A copy whose length is known when the program is built takes half the instructions of one that is not.
            return match table.value.max_len() {
                64 => self.copy_values::<64>(records, &key_of, sink),
                128 => self.copy_values::<128>(records, &key_of, sink),
                256 => self.copy_values::<256>(records, &key_of, sink),
                512 => self.copy_values::<512>(records, &key_of, sink),
                _ => self.copy_values::<ANY>(records, &key_of, sink),
            };
        }
        let (image, form) = (table.image(), table.form);
        let streaming = streamed.then(Streaming::begin);
        let copy = |from: &[u8], to: &mut [u8]| match &streaming {
            Some(streaming) => streaming.copy(from, to),
            None => to.copy_from_slice(from),
        };
        let mut came = Gathered::default();
        records.iter().take(AHEAD).for_each(|&record| self.bring_record(record));
        for (index, &record) in records.iter().enumerate() {
            records.get(index + AHEAD).into_iter().for_each(|&later| self.bring_record(later));
            if self.is_record(record) {
                let found = form.at(image, record);
                if exact || key_of(index).is_some_and(|key| found.has_key(image, key)) {
                    let value = Value::new(image, found.item());
                    came.found += u64::from(sink.found(index, value.version(), value.bytes(), copy));
                    continue;
                }
            }
            self.settle(record, index, &key_of, sink, &mut came);
        }
        came
    }

    /// The same for records whose values alone are read, of `LEN` bytes each.
    fn copy_values<'k, const LEN: usize>(
        &self,
        records: &[u64],
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        sink: &mut impl Sink,
    ) -> Gathered {
        match self.streamed {
            true => self.copy_values_by::<LEN, true>(records, key_of, sink),
            false => self.copy_values_by::<LEN, false>(records, key_of, sink),
        }
    }

    /// Nothing is asked for each row that can be known before: what a core does beside waiting for memory holds up what it waits for.
    fn copy_values_by<'k, const LEN: usize, const STREAMED: bool>(
        &self,
        records: &[u64],
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        sink: &mut impl Sink,
    ) -> Gathered {
        let (image, tile) = (self.table.image(), self.table.form.tile());
        let len = if LEN == ANY { self.table.value.max_len() } else { LEN };
        let streaming = STREAMED.then(Streaming::begin);
        let copy = |from: &[u8], to: &mut [u8]| match &streaming {
            Some(streaming) => streaming.copy(from, to),
            None => to.copy_from_slice(from),
        };
        let value_at = |record: u64| tile.map_or(record, |tile| tile.value_at(record));
        // What is no record leads anywhere, and nothing comes of it.
        let (first_byte, lines) = (image.pointer(0, 8), len.div_ceil(LINE).min(MOST_LINES));
        let bring = |record: u64| {
            let value = first_byte.wrapping_add(value_at(record) as usize);
            (0..lines).for_each(|line| prefetch::line(value.wrapping_add(LINE * line)));
        };
        // No image is shorter than a value.
        let last = image.len().saturating_sub(len as u64);
        let mut came = Gathered::default();
        records.iter().take(AHEAD).for_each(|&record| bring(record));
        for (index, &record) in records.iter().enumerate() {
            records.get(index + AHEAD).into_iter().for_each(|&later| bring(later));
            let at = value_at(record);
            if record <= VEILED || !record.is_multiple_of(8) || at > last {
                self.settle(record, index, key_of, sink, &mut came);
                continue;
            }
            // SAFETY: a record that can be found is not written to, and is not freed while the epoch is pinned, which whoever asks has done.
            let value = unsafe { image.bytes(at, len as u64) };
            came.found += u64::from(sink.found(index, 0, &value[..len], copy));
        }
        came
    }

    /// Answers a key whose record is none to copy from.
    #[cold]
    #[inline(never)]
    fn settle<'k>(
        &self,
        record: u64,
        index: usize,
        key_of: &impl Fn(usize) -> Option<&'k [u8]>,
        sink: &mut impl Sink,
        came: &mut Gathered,
    ) {
        let found = match (record, key_of(index)) {
            (0, _) => None,
            // Its item was just changing, or another key has the same hash: the image knows.
            (_, Some(key)) => self.table.get(key, |value| {
                let copy = |from: &[u8], to: &mut [u8]| to.copy_from_slice(from);
                sink.found(index, value.version(), value.bytes(), copy)
            }),
            (_, None) => return,
        };
        match found {
            Some(right) => came.found += u64::from(right),
            None => {
                sink.absent(index);
                came.absent += 1;
            }
        }
    }

    /// Whether there can be a record there.
    #[inline(always)]
    fn is_record(&self, record: u64) -> bool {
        let image = self.table.image();
        let is_within = match self.table.form.tile() {
            Some(tile) => {
                image.contains(tile.value_at(record), tile.value()) && image.contains(tile.tail_at(record), 8)
            }
            None => image.contains(record, self.table.form.block_len()),
        };
        record > VEILED && record.is_multiple_of(8) && is_within
    }

    #[inline(always)]
    fn bring_record(&self, record: u64) {
        if self.is_record(record) {
            self.table.record_lines.fetch(self.table.image(), record, prefetch::line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use warpkeep_core::{KeySpec, MergeRule, Seed, ValueSpec};
    use warpkeep_image::{Coherent, Format, Heap, HeapOptions, Image, MIN_CHUNK, PlainMemory, Surroundings};

    use super::*;
    use crate::{Geometry, Layout, TableError, TableSpec};

    /// What was found, by its place.
    #[derive(Default)]
    struct Found(Vec<(usize, Vec<u8>)>);

    impl Sink for Found {
        fn wants_versions(&self) -> bool {
            false
        }

        fn found(&mut self, index: usize, _: u64, value: &[u8], copy: impl FnOnce(&[u8], &mut [u8])) -> bool {
            let mut row = vec![0; value.len()];
            copy(value, &mut row);
            self.0.push((index, row));
            true
        }

        fn absent(&mut self, _: usize) {}
    }

    fn table(value_len: u32) -> Table<Coherent> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 60 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings::default();
        let image =
            Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings).unwrap();
        image.begin(1).unwrap();
        let heap = Heap::recover::<TableError>(&Arc::new(image), HeapOptions::default(), |_| Ok(())).unwrap();
        let spec = TableSpec {
            key: KeySpec::U64,
            value: ValueSpec::fixed(value_len).unwrap(),
            geometry: Geometry::default(),
            capacity: 80,
            layout: Layout::Packed,
            merge: MergeRule::None,
            seed: Seed(3),
        };
        Table::create(&Arc::new(heap), &spec).unwrap()
    }

    /// Lengths that have a loop of their own, and others; more records than are under way at once; and some that are none.
    #[test]
    fn values_of_every_length_are_copied_and_junk_is_not() {
        for value_len in [8, 40, 64, 72, 128, 192, 256, 320, 512, 1024] {
            let table = table(value_len);
            let (image, len) = (table.image(), u64::from(value_len));
            let end = image.len();
            // Nothing lies in the last chunk yet.
            let start = end - MIN_CHUNK;
            (start..end).step_by(8).for_each(|at| image.store(at, at.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let tiled = table.form.tile().is_some();
            let blocks = (MIN_CHUNK / len.next_multiple_of(64)).min(100);
            let record = |number: u64| start + number * len.next_multiple_of(64) + if tiled { 8 } else { 0 };
            let mut records: Vec<u64> = (0..blocks).map(record).collect();
            // None; veiled; not aligned; behind the end, and across it, where values in tiles cannot be; as far as can be.
            let across = if tiled { end + 64 } else { end - len + 8 };
            let junk = [0, VEILED, start + 3, end, across, !7];
            for (at, junk) in junk.into_iter().enumerate() {
                records.insert(3 * at, junk);
            }
            for streamed in [false, true] {
                let mut found = Found::default();
                let came =
                    Copying { table: &table, exact: true, streamed }.copy(&records, |_| None, &mut found);
                let expected: Vec<(usize, Vec<u8>)> = records
                    .iter()
                    .enumerate()
                    .filter(|(_, record)| !junk.contains(record))
                    .map(|(index, &record)| {
                        let at = table.form.value_at(record);
                        let words = (at..at + len).step_by(8).map(|at| image.load(at).to_le_bytes());
                        (index, words.flatten().collect())
                    })
                    .collect();
                assert!(found.0 == expected, "values of {value_len} bytes, streamed {streamed}");
                assert_eq!((came.found, came.absent), (expected.len() as u64, 1), "{value_len}");
            }
        }
    }
}
