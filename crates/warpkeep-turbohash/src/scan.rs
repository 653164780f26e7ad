//! Scans: every item, while writers go on.

use warpkeep_core::{Change, ChangeKind};
use warpkeep_image::Persist;

use crate::bucket::Bucket;
use crate::shard::Shard;
use crate::{PROBING_SCOPE, Table, Value};

/// Buckets that are given out under one guard: a scan must not hold up what is to be freed.
const BUCKETS: usize = 32;

/// Where a scan of a table stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanPosition {
    shard: usize,
    within: Position,
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
    /// Gives out every item, while writers go on. An item that is there throughout is given out at least once; if it
    /// moves, or its shard is built anew meanwhile, it may be given out twice.
    pub fn scan<E>(&self, table: u32, mut each: impl FnMut(&Change<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut position = ScanPosition::default();
        while self.scan_some(table, &mut position, &mut each)? {}
        Ok(())
    }

    /// Gives out the items of a few buckets and moves the position on; whether there is more. A shard that was built anew since is
    /// begun again.
    pub fn scan_some<E>(
        &self,
        table: u32,
        position: &mut ScanPosition,
        mut each: impl FnMut(&Change<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if position.shard >= self.shards() {
            return Ok(false);
        }
        if !self.scan_shard(position.shard, &mut position.within, table, &mut each)? {
            *position = ScanPosition { shard: position.shard + 1, within: Position::default() };
        }
        Ok(true)
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
                let value = Value::new(self.image(), self.read_any(contents, &mut key));
                let (version, value) = (value.version(), value.bytes());
                each(&Change { table, kind: ChangeKind::Put, version, key: &key, value })?;
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
        let _guard = crossbeam_epoch::pin();
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

    /// A shard that is built anew twice may come to lie where it lay, with its items elsewhere.
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
            let rebuilt = table.rebuild(0, &mut table.lock(0), 6, &crossbeam_epoch::pin());
            assert!(rebuilt.is_ok());
            // Other tests' readers may hold up what is freed.
            (0..100).for_each(|_| warpkeep_record::hasten_freeing());
            rounds += 1;
            assert!(rounds < 10_000, "it never came back");
        }
        while table.scan_shard(0, &mut position, 1, &mut each) == Ok(true) {}
        assert_eq!(seen.len(), keys.len(), "missed some after {rounds} rounds");
    }
}
