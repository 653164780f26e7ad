//! Rebuilds a shard: larger, smaller, or at its size without the slots marked as deleted.
//!
//! The shard is held, so no other thread writes to it; readers continue. Its items are collected in memory, in the
//! order of their homes, written to new space in one go, and made durable. Then the word of the directory is
//! replaced, durably, and only then do readers see the new shard. A crash leaves the old one or the new one.

use warpkeep_image::{Guard, ImageError, Persist};

use crate::bucket::{BUCKET, Contents, Shape, WORDS, fill_aside, note_passing_aside};
use crate::commit::{Commit, Marks};
use crate::directory;
use crate::shard::{PROBING_SCOPE, Run, Tally, home, locate};
use crate::space::{self, Unused};
use crate::{Table, TableError};

/// Why a shard could not be built.
pub(crate) enum Unbuilt {
    /// Some item would have no place.
    NoPlace,
    Image(ImageError),
}

impl From<ImageError> for Unbuilt {
    fn from(error: ImageError) -> Unbuilt {
        Unbuilt::Image(error)
    }
}

impl From<Unbuilt> for TableError {
    fn from(unbuilt: Unbuilt) -> TableError {
        match unbuilt {
            Unbuilt::NoPlace => TableError::Full,
            Unbuilt::Image(error) => error.into(),
        }
    }
}

impl<P: Persist> Table<P> {
    /// Builds a shard, which is held, anew, with 2 to the `bits` buckets.
    pub(crate) fn rebuild(
        &self,
        number: usize,
        tally: &mut Tally,
        bits: u32,
        guard: &Guard,
    ) -> Result<(), Unbuilt> {
        let old = self.shard(number);
        let bytes = Run::bytes_of(bits).ok_or_else(|| {
            ImageError::Invalid(
                "a shard is larger than any image; create the table with more capacity".into(),
            )
        })?;
        // Before the work, so that a lack of space fails at once.
        let mut unused = Unused::new(&self.heap);
        let run = Run { offset: unused.allocate(bytes)?, bits, crowded: false };
        let (mut items, mut some) = (Vec::with_capacity(tally.items as usize), Vec::new());
        for bucket in old.iter() {
            bucket.items(self.shape, &mut some);
            items.extend_from_slice(&some);
        }
        let buckets = build(&items, self.shape, self.shards(), bits).ok_or(Unbuilt::NoPlace)?;
        let image = self.image();
        for (number, bucket) in buckets.iter().enumerate() {
            let mut bytes = [0; BUCKET as usize];
            for (to, word) in bytes.chunks_exact_mut(8).zip(bucket) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            // SAFETY: just allocated, and not reachable yet.
            unsafe { image.write(run.offset + BUCKET * number as u64, &bytes) };
        }
        image.flush("turbohash.shard", run.offset, bytes);
        // The shard before the word that leads to it.
        image.fence("turbohash.shard");
        let word = directory::word_at(self.directory, number);
        image.store(word, directory::seal(number, run));
        image.flush("turbohash.swing", word, 8);
        // Durable before any thread sees it, because later writes to it must not be lost; and before the old one is
        // reused.
        image.fence("turbohash.swing");
        unused.keep();
        self.show(number, run);
        self.buckets.fetch_add(run.buckets(), std::sync::atomic::Ordering::Relaxed);
        self.buckets.fetch_sub(old.run.buckets(), std::sync::atomic::Ordering::Relaxed);
        self.deleted.fetch_sub(tally.deleted as i64, std::sync::atomic::Ordering::Relaxed);
        *tally = Tally { items: items.len() as u64, ..Tally::default() };
        self.upkeep.count_rebuilt(old.run.bits, bits);
        space::retire(&self.heap, old.run.offset, old.run.bytes(), guard);
        Ok(())
    }
}

/// A shard of 2^`bits` buckets with these items; `None` if one would have no place.
///
/// Items are inserted in the order of their homes: if any arrangement within the probing scope exists, this order
/// finds one. So a shard of the same size never fails, nor does a larger one: of consecutive homes at least half as
/// many were consecutive before, with as many buckets behind them.
fn build(items: &[Contents], shape: Shape, shards: usize, bits: u32) -> Option<Vec<[u64; WORDS]>> {
    let count = 1_usize << bits;
    let usable = shape.usable();
    let home_of = |item: &Contents| home(locate(item.hash, shards).1, bits);
    let mut starts = vec![0_usize; count + 1];
    items.iter().for_each(|item| starts[home_of(item) + 1] += 1);
    let first = first_home(&starts[1..], usable);
    (0..count).for_each(|home| starts[home + 1] += starts[home]);
    let mut sorted = vec![0_u32; items.len()];
    let mut next = starts.clone();
    for (number, item) in items.iter().enumerate() {
        let home = home_of(item);
        sorted[next[home]] = number as u32;
        next[home] += 1;
    }
    let mut buckets = vec![[0; WORDS]; count];
    let mut filled = vec![0_u8; count];
    for home in (0..count).map(|step| (first + step) & (count - 1)) {
        for &number in &sorted[starts[home]..starts[home + 1]] {
            let scope = 0..PROBING_SCOPE.min(count);
            let mut path = scope.map(|step| (home + step) & (count - 1));
            let item = &items[number as usize];
            let place = path.find(|&place| {
                let full = usize::from(filled[place]) == usable;
                if full {
                    note_passing_aside(&mut buckets[place], item.hash);
                }
                !full
            })?;
            fill_aside(&mut buckets[place], shape, usize::from(filled[place]), item);
            filled[place] += 1;
        }
    }
    for (bucket, &filled) in buckets.iter_mut().zip(&filled) {
        bucket[0] = Commit::default().next(Marks { valid: (1 << filled) - 1, deleted: 0 }).0;
    }
    Some(buckets)
}

/// A home into which no item is carried from the one before it, if there is one.
fn first_home(counts: &[usize], usable: usize) -> usize {
    let (mut carry, mut first) = (0_usize, 0);
    for _ in 0..2 {
        for (home, count) in counts.iter().enumerate() {
            if carry == 0 {
                first = home;
            }
            carry = (carry + count).saturating_sub(usable);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(home: u64, bits: u32, number: u64) -> Contents {
        // With one shard, the fraction is the hash.
        let hash = if bits == 0 { number } else { home << (64 - bits) | number };
        Contents { hash, payload: 8 * number + 8, version: 0 }
    }

    #[test]
    fn a_home_filled_to_the_last_slot_of_its_scope_is_built() {
        let all = (13 * PROBING_SCOPE) as u64;
        for home in [0, 7, 62, 63] {
            let items: Vec<Contents> = (0..all).map(|number| item(home, 6, number)).collect();
            assert!(build(&items, Shape::References, 1, 6).is_some());
            assert!(build(&items, Shape::References, 1, 9).is_some(), "and grows");
            let more: Vec<Contents> = (0..=all).map(|number| item(home, 6, number)).collect();
            assert!(build(&more, Shape::References, 1, 6).is_none());
        }
    }

    #[test]
    fn the_order_of_homes_finds_a_place_for_all() {
        // The neighbours of a full home come first in the list, and would take its slots.
        let mut items: Vec<Contents> = (0..13).map(|number| item(64, 7, 1000 + number)).collect();
        items.extend((0..13 * PROBING_SCOPE as u64).map(|number| item(63, 7, number)));
        assert!(build(&items, Shape::References, 1, 7).is_some());
    }
}
