//! Inspects a table that is not in use: every item is where a search finds it, and only there.

use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_core::{hash_bytes, unmix64};
use warpkeep_image::{Image, Persist};
use warpkeep_record::{Inspection, RecordForm, in_parallel};

use crate::bucket::{Bucket, Contents, Shape, filter_bit, slots_of, tag_of};
use crate::directory;
use crate::header::Header;
use crate::shard::{Run, Shard, locate};
use crate::table::SHARE;
use crate::{Table, TableError};

struct Inspector<'a, P: Persist> {
    image: &'a Image<P>,
    header: Header,
    shape: Shape,
    form: RecordForm,
}

impl<P: Persist> Table<P> {
    /// Inspects every item of the table whose header lies at an offset. Changes nothing; the table has just been
    /// [marked](Table::mark), so that its references are known to be valid, and no thread writes to it.
    pub fn inspect(image: &Image<P>, header: u64) -> Result<Inspection, TableError> {
        let header = Header::read(image, header)?;
        let runs = directory::read(image, header.directory, header.shards)?;
        let (shape, form) = (header.shape(), header.form());
        Inspector { image, header, shape, form }.inspect(&runs)
    }
}

impl<P: Persist> Inspector<'_, P> {
    fn inspect(&self, runs: &[Run]) -> Result<Inspection, TableError> {
        let counts: [AtomicU64; 5] = Default::default();
        in_parallel(runs.len() as u64, SHARE, |shards| {
            let shards = shards.start as usize..shards.end as usize;
            for (number, run) in shards.clone().zip(&runs[shards]) {
                let shard = Shard::new(self.image, *run);
                for bucket in shard.iter() {
                    for (count, found) in counts.iter().zip(self.look(number, &shard, bucket)) {
                        count.fetch_add(found, Ordering::Relaxed);
                    }
                }
            }
            Ok::<(), TableError>(())
        })?;
        let [items, deleted, misplaced, doubled, moving] = counts.map(AtomicU64::into_inner);
        Ok(Inspection { items: items - moving, unfinished: 0, deleted, moving, misplaced, doubled })
    }

    /// Items, deleted, misplaced, doubled, moving of a bucket.
    fn look(&self, number: usize, shard: &Shard<'_>, bucket: Bucket<'_>) -> [u64; 5] {
        let marks = bucket.commit().marks(self.shape.slots());
        let mut found = [
            u64::from(marks.live().count_ones()),
            u64::from((marks.valid & marks.deleted).count_ones()),
            0,
            0,
            0,
        ];
        let mut key = Vec::new();
        for slot in slots_of(marks.live()) {
            let contents = bucket.contents(self.shape, slot);
            key.clear();
            self.append_key(&contents, &mut key);
            let tag = (bucket.tags()[slot / 8] >> (8 * (slot % 8))) as u8;
            let (home, fraction) = locate(contents.hash, self.header.shards as usize);
            let recognised =
                tag == tag_of(contents.hash) && hash_bytes(self.header.seed, &key) == contents.hash;
            let mut reached = false;
            let mut places = Vec::new();
            for other in shard.path(fraction) {
                reached |= other.at == bucket.at;
                self.note_places(other, contents.hash, &key, &mut places);
                if other.passable(self.shape) & filter_bit(contents.hash) == 0 {
                    break;
                }
            }
            found[2] += u64::from(!(reached && recognised && home == number));
            // A doubled item is counted once, at its first position.
            let first = places.first() == Some(&(bucket.at, slot));
            let moving = shard.run.crowded && places.len() == 2;
            found[if moving { 4 } else { 3 }] += u64::from(first && places.len() > 1);
        }
        found
    }

    fn note_places(&self, bucket: Bucket<'_>, hash: u64, key: &[u8], places: &mut Vec<(u64, usize)>) {
        let mut other = Vec::new();
        for slot in slots_of(bucket.commit().live(self.shape.slots())) {
            let contents = bucket.contents(self.shape, slot);
            if contents.hash == hash {
                other.clear();
                self.append_key(&contents, &mut other);
                if other == key {
                    places.push((bucket.at, slot));
                }
            }
        }
    }

    fn append_key(&self, contents: &Contents, key: &mut Vec<u8>) {
        match self.header.key.fixed_len() {
            Some(8) => key.extend(unmix64(self.header.seed, contents.hash).to_le_bytes()),
            _ => self.form.at(self.image, contents.payload).append_key(self.image, key),
        }
    }
}
