//! How full a table is, and how far searches walk.

use std::sync::atomic::Ordering;

use serde::Serialize;
use warpkeep_image::Persist;

use crate::bucket::Shape;
use crate::measure::distances;
use crate::shard::{PROBING_SCOPE, home};
use crate::{Table, matching};

/// The most shards that are examined closely: more would give the same result.
const SAMPLE: usize = 1024;

/// How many searches look at one bucket, at two, and so on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distances {
    /// Searches by the number of buckets they read, minus one.
    pub counts: Vec<u64>,
    /// Buckets that a search reads on average; 0 if there are no searches.
    pub mean: f64,
}

impl Distances {
    fn of(counts: [u64; PROBING_SCOPE]) -> Distances {
        let searches: u64 = counts.iter().sum();
        let buckets: u64 = counts.iter().zip(1..).map(|(count, distance)| count * distance).sum();
        let mean = if searches == 0 { 0.0 } else { buckets as f64 / searches as f64 };
        Distances { counts: counts.to_vec(), mean }
    }
}

/// How full a table is, and how far searches walk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableStats {
    /// Items in it.
    pub items: u64,
    /// Items as a share of its slots. One slot of each bucket is kept free, so it never reaches 1.
    pub load_factor: f64,
    /// Shards in it.
    pub shards: u64,
    /// Buckets in all shards.
    pub buckets: u64,
    /// Slots in all buckets.
    pub slots: u64,
    /// Slots marked as deleted: they are used again, but searches go past them.
    pub deleted: u64,
    /// The same as a share of all slots.
    pub deleted_share: f64,
    /// Buckets in the smallest shard.
    pub smallest_shard: u64,
    /// Buckets in the largest shard.
    pub largest_shard: u64,
    /// The lengths of searches for existing keys, each item once; from a sample of the shards if there are many.
    pub hits: Distances,
    /// The lengths of searches for absent keys, 64 different ones from each home bucket; from the same sample.
    pub misses: Distances,
    /// Items displaced to make room for others, since the table was opened.
    pub displaced: u64,
    /// Shards made larger since the table was opened.
    pub grown: u64,
    /// Shards rid of deleted items since then.
    pub collected: u64,
    /// Shards made smaller since then.
    pub shrunk: u64,
    /// Shards that may want to be built anew, and are to be looked at.
    pub waiting: u64,
    /// Values are in the slots; otherwise in records.
    pub in_place: bool,
    /// How tags are compared on this machine.
    pub matching: &'static str,
}

impl TableStats {
    pub(crate) fn of<P: Persist>(table: &Table<P>) -> TableStats {
        let sizes = (0..table.shards()).map(|shard| table.run(shard).buckets());
        let (hits, misses) = walk(table);
        let (items, slots) = (table.len(), table.slots());
        let deleted = table.deleted.load(Ordering::Relaxed).max(0) as u64;
        TableStats {
            items,
            load_factor: items as f64 / slots as f64,
            shards: table.shards() as u64,
            buckets: table.buckets.load(Ordering::Relaxed),
            slots,
            deleted,
            deleted_share: deleted as f64 / slots as f64,
            smallest_shard: sizes.clone().min().unwrap_or(0),
            largest_shard: sizes.max().unwrap_or(0),
            hits,
            misses,
            displaced: table.upkeep.displaced.load(Ordering::Relaxed),
            grown: table.upkeep.grown.load(Ordering::Relaxed),
            collected: table.upkeep.collected.load(Ordering::Relaxed),
            shrunk: table.upkeep.shrunk.load(Ordering::Relaxed),
            waiting: table.upkeep.waiting(),
            in_place: table.shape != Shape::References,
            matching: matching::name(),
        }
    }
}

/// Distances of hits and misses.
fn walk<P: Persist>(table: &Table<P>) -> (Distances, Distances) {
    let (mut hits, mut misses) = ([0; PROBING_SCOPE], [0; PROBING_SCOPE]);
    let mut items = Vec::new();
    for number in (0..table.shards()).step_by(table.shards().div_ceil(SAMPLE)) {
        let _guard = table.heap.pin();
        let shard = table.shard(number);
        let mask = shard.run.buckets() as usize - 1;
        for (place, bucket) in shard.iter().enumerate() {
            bucket.items(table.shape, &mut items);
            for item in &items {
                let home = home(table.locate(item.hash).1, shard.run.bits);
                hits[(place.wrapping_sub(home) & mask).min(PROBING_SCOPE - 1)] += 1;
            }
        }
        let passable: Vec<u64> = shard.iter().map(|bucket| bucket.passable(table.shape)).collect();
        for (count, found) in misses.iter_mut().zip(distances(&passable)) {
            *count += found;
        }
    }
    (Distances::of(hits), Distances::of(misses))
}
