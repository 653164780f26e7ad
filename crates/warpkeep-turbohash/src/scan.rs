//! Scans: every item, while writers go on.

use warpkeep_core::Change;
use warpkeep_image::Persist;
use warpkeep_record::ScanPosition;

use crate::bucket::Bucket;
use crate::shard::Shard;
use crate::{PROBING_SCOPE, Table, Value};

/// Buckets that are read under one guard: a scan must not delay freeing.
const BUCKETS: usize = 32;

/// Where a scan of a table stands.
#[derive(Clone, Copy, Debug, Default)]
struct InTable {
    shard: usize,
    within: Position,
}

impl From<ScanPosition> for InTable {
    fn from(position: ScanPosition) -> InTable {
        let [shard, rebuilt, offset, next] = position.words();
        // No shard lies at the beginning of the image.
        let seen = (offset != 0).then_some((rebuilt, offset));
        InTable {
            shard: shard as usize,
            within: Position { seen, next: (next >> 1) as usize, again: next & 1 == 1 },
        }
    }
}

impl From<InTable> for ScanPosition {
    fn from(InTable { shard, within }: InTable) -> ScanPosition {
        let (rebuilt, offset) = within.seen.unwrap_or_default();
        let next = (within.next as u64) << 1 | u64::from(within.again);
        ScanPosition::from_words([shard as u64, rebuilt, offset, next])
    }
}

/// Where a scan stands in a shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// How often the shard had been built anew, and where it lay.
    seen: Option<(u64, u64)>,
    /// The next bucket.
    next: usize,
    /// The first buckets are looked at once more.
    again: bool,
}

impl<P: Persist> Table<P> {
    /// Returns every item, while writers continue. An item that is there throughout is returned at least once; if
    /// it moves, or its shard is rebuilt meanwhile, it may be returned twice.
    pub fn scan<E>(&self, table: u32, mut each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut position = ScanPosition::default();
        while self.scan_some(table, &mut position, &mut each)? {}
        Ok(())
    }

    /// Returns the items of a few buckets and advances the position; returns whether there is more. A shard that
    /// was rebuilt since is begun again.
    pub fn scan_some<E>(
        &self,
        table: u32,
        position: &mut ScanPosition,
        mut each: impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut at = InTable::from(*position);
        if at.shard >= self.shards() {
            return Ok(false);
        }
        let more = self.scan_shard(at.shard, &mut at.within, table, &mut each);
        if matches!(more, Ok(false)) {
            at = InTable { shard: at.shard + 1, within: Position::default() };
        }
        *position = at.into();
        more.map(|_| true)
    }

    /// Gives out the items of a few buckets of a shard; whether it has more.
    fn scan_shard<E>(
        &self,
        number: usize,
        position: &mut Position,
        table: u32,
        each: &mut impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (mut key, mut items) = (Vec::new(), Vec::new());
        self.walk_shard(number, position, |_, bucket| {
            bucket.items(self.shape, &mut items);
            for contents in &items {
                key.clear();
                let item = self.read_any(contents, &mut key);
                each(&Value::new(self.image(), item).as_put(table, &key))?;
            }
            Ok(())
        })
    }

    /// Gives out a few buckets of a shard; whether it has more.
    pub(crate) fn walk_shard<E>(
        &self,
        number: usize,
        position: &mut Position,
        mut each: impl FnMut(&Shard<'_>, Bucket<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let _guard = self.heap.pin();
        let rebuilt = self.rebuilt(number);
        let shard = self.shard(number);
        let seen = Some((rebuilt, shard.run.offset));
        if position.seen != seen {
            // Items lie elsewhere now, so it starts over.
            *position = Position { seen, ..Position::default() };
        }
        let buckets = shard.run.buckets() as usize;
        let buckets = if position.again { buckets.min(PROBING_SCOPE) } else { buckets };
        let end = (position.next + BUCKETS).min(buckets);
        for bucket in position.next..end {
            each(&shard, shard.bucket(bucket))?;
        }
        position.next = end;
        if end < buckets {
            return Ok(true);
        }
        // In a shard in which items move on, some may have moved around its end meanwhile.
        let more = !position.again && self.run(number).crowded;
        position.again = true;
        position.next = 0;
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::{SEED, put, table};

    /// A shard that is rebuilt twice may come to lie at its old offset, with its items elsewhere.
    #[test]
    fn a_shard_that_comes_back_to_the_same_place_is_told_apart() {
        let table = table(16, 64 * 14 * 7 / 10);
        assert_eq!(table.run(0).bits, 6);
        // All at home in the last bucket, so some lie in the first; which, is settled anew each time.
        let keys: Vec<u64> = (0..20).map(|number| warpkeep_core::unmix64(SEED, 63 << 58 | number)).collect();
        keys.iter().for_each(|&key| put(&table, key, &[1; 16]));
        let (mut position, mut seen) = (Position::default(), BTreeSet::new());
        let mut each = |change: &Change<'_>| {
            seen.insert(change.key.to_vec());
            Ok::<(), ()>(())
        };
        assert_eq!(table.scan_shard(0, &mut position, 1, &mut each), Ok(true));
        let offset = table.run(0).offset;
        let mut rounds = 0;
        while rounds == 0 || table.run(0).offset != offset {
            let rebuilt = table.rebuild(0, &mut table.lock(0), 6, &table.heap.pin());
            assert!(rebuilt.is_ok());
            (0..4).for_each(|_| table.heap.reclaim());
            rounds += 1;
            assert!(rounds < 10_000, "it never came back");
        }
        while table.scan_shard(0, &mut position, 1, &mut each) == Ok(true) {}
        assert_eq!(seen.len(), keys.len(), "missed some after {rounds} rounds");
    }
}
