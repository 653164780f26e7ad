//! Displacement: if a key has no place within its scope, items are moved on, so that a slot within it becomes free.
//!
//! The sixteen buckets of a key are full long before their shard is: earlier items lie there that could lie further
//! on. Each moves to a later bucket of its own path, and is there before it leaves the old one, so a reader that
//! walks its path meets it at least once. (A scan goes bucket by bucket, and reads the first ones of such a shard
//! again.) A crash in between leaves an item in two places. Before a shard's first move, its word in the directory
//! is marked as possibly having such items, until the shard is rebuilt; opening checks marked shards and removes
//! the later copy.

use warpkeep_image::Persist;

use crate::Table;
use crate::bucket::{Bucket, Contents, fill, slots_of};
use crate::commit::Marks;
use crate::directory;
use crate::plan::Plan;
use crate::shard::{PROBING_SCOPE, Run, Shard, Tally, home};

/// Items that move for one key, at the most.
const HOPS: usize = 8;
/// How far beyond its scope room is looked for, in buckets.
const REACH: usize = 64;

/// An item that can move: from which bucket and slot, to which bucket.
struct Move<'a> {
    from: Bucket<'a>,
    slot: usize,
    to: Bucket<'a>,
}

impl<P: Persist> Table<P> {
    /// Frees a slot within the scope of a key, in a shard that is held; whether it could.
    pub(crate) fn displace(&self, number: usize, tally: &mut Tally, fraction: u64) -> bool {
        let shard = self.shard(number);
        let Some(moves) = self.moves(&shard, fraction) else { return false };
        if !shard.run.crowded {
            let run = Run { crowded: true, ..shard.run };
            let (image, word) = (self.image(), directory::word_at(self.directory, number));
            image.store(word, directory::seal(number, run));
            // Durable before an item is in two places: the fence of its copy is before that.
            image.flush("turbohash.crowded", word, 8);
            self.set_run(number, run);
        }
        let moved = moves.iter().take_while(|step| self.move_on(tally, &shard, step)).count();
        self.upkeep.displaced.fetch_add(moved as u64, std::sync::atomic::Ordering::Relaxed);
        moved == moves.len()
    }

    /// The moves that free a slot within the scope of a key, in order.
    fn moves<'a>(&self, shard: &Shard<'a>, fraction: u64) -> Option<Vec<Move<'a>>> {
        let (slots, count) = (self.shape.slots(), shard.run.buckets() as usize);
        // Buckets are counted from the home of the key, around the end of the shard.
        let start = home(fraction, shard.run.bits);
        let bucket_at = |step: usize| shard.bucket((start + step) & (count - 1));
        let open = |&step: &usize| {
            let marks = bucket_at(step).commit().marks(slots);
            marks.has_room(slots) || marks.valid & marks.deleted != 0
        };
        if (0..PROBING_SCOPE.min(count)).any(|step| open(&step)) {
            // Other keys of the same batch would have filled it, and nothing can go past a bucket that is not full
            // yet.
            return None;
        }
        let mut hole = (PROBING_SCOPE..(PROBING_SCOPE + REACH).min(count)).find(open)?;
        let mut moves = Vec::new();
        while hole >= PROBING_SCOPE {
            if moves.len() == HOPS {
                return None;
            }
            // Items whose home is this bucket or a later one may lie in the hole, too.
            let first = hole + 1 - PROBING_SCOPE;
            let may_move = |from: usize, slot: usize| {
                let hash = bucket_at(from).contents(self.shape, slot).hash;
                let home = home(self.locate(hash).1, shard.run.bits);
                home.wrapping_sub(start + first) & (count - 1) <= from - first
            };
            let (from, slot) = (first..hole).find_map(|from| {
                let slot = slots_of(bucket_at(from).commit().live(slots)).find(|&slot| may_move(from, slot));
                slot.map(|slot| (from, slot))
            })?;
            moves.push(Move { from: bucket_at(from), slot, to: bucket_at(hole) });
            hole = from;
        }
        Some(moves)
    }

    /// Makes a move; `false` if there is no slot for it, which only damage since the table was opened can cause.
    fn move_on(&self, tally: &mut Tally, shard: &Shard<'_>, step: &Move<'_>) -> bool {
        let Move { from, slot, to } = *step;
        let (image, slots) = (self.image(), self.shape.slots());
        let before = to.commit();
        let mut plan = Plan::new(before, slots);
        let Some(place) = plan.insert(slots) else { return false };
        let contents = from.contents(self.shape, slot);
        self.note_passing(shard, contents.hash, to.at);
        fill(image, self.shape, to.at, place, &contents);
        // The slot, and the mark that the shard may have an item twice, before the word that makes the slot count.
        image.fence("turbohash.copied");
        image.store(to.at, before.next(plan.marks).0);
        image.flush("turbohash.arrived", to.at, 8);
        // In its new place before it leaves the old one.
        image.fence("turbohash.arrived");
        let marks = from.commit().marks(slots);
        let left = Marks { deleted: marks.deleted | 1 << slot, ..marks };
        image.store(from.at, from.commit().next(left).0);
        image.flush("turbohash.left", from.at, 8);
        // Durably gone from the old slot before the shard is released: once the item is replaced or removed, the
        // old copy must not come back.
        image.fence("turbohash.left");
        let reused = u64::from(before.marks(slots).deleted.count_ones() > plan.marks.deleted.count_ones());
        tally.deleted = tally.deleted + 1 - reused;
        self.deleted.fetch_add(1 - reused as i64, std::sync::atomic::Ordering::Relaxed);
        true
    }

    /// Removes the later of two copies of an item that was being moved when the last holder stopped.
    pub(crate) fn remove_doubled(&self, number: usize) {
        let (image, shard, slots) = (self.image(), self.shard(number), self.shape.slots());
        if !shard.run.crowded {
            return;
        }
        for bucket in shard.iter() {
            for slot in slots_of(bucket.commit().live(slots)) {
                if self.is_before(&shard, bucket, &bucket.contents(self.shape, slot)) {
                    let commit = bucket.commit();
                    let marks = commit.marks(slots);
                    let marks = Marks { deleted: marks.deleted | 1 << slot, ..marks };
                    image.store(bucket.at, commit.next(marks).0);
                    image.flush("turbohash.doubled", bucket.at, 8);
                    // For good before the other is replaced or removed.
                    image.fence("turbohash.doubled");
                }
            }
        }
    }

    /// Whether the item in a slot is on its path already before this bucket.
    fn is_before(&self, shard: &Shard<'_>, bucket: Bucket<'_>, contents: &Contents) -> bool {
        let path = shard.path(self.locate(contents.hash).1).take_while(|other| other.at != bucket.at);
        let mut slots = path.flat_map(|other| {
            slots_of(other.commit().live(self.shape.slots()))
                .map(move |slot| other.contents(self.shape, slot))
        });
        // A move copies the whole slot, reference and all.
        slots.any(|other| other == *contents)
    }
}
