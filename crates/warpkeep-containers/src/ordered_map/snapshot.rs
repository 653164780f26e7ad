//! A state of a map that stays while the map changes, and all that can be read of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpkeep_device::{DevicePtr, Result, Workspace};

use super::columns::{Columns, Staged, send};
use super::cpu;
use super::kernels::{OrderedMapRef, SortedBatch};
use super::key::{OrderedKey, OrderedWord};
use super::near::Near;
use super::op::{OrderedOpKind, OrderedStatus};
use super::ranges::OrderedRanges;
use super::reads::Pairs;
use super::run::statuses;
use super::tree::Tree;
use super::version::Version;
use crate::ContainerError;

/// Ranges with a limit are read in one pass if they have no more pairs than this with it: there is room for all, so nothing is counted first.
const FEW_PAIRS: usize = 1 << 14;

/// Leaves whose pairs are read at once.
const CHUNK: u64 = 1 << 14;

/// The state of an [`OrderedMap`](super::OrderedMap) at one time. Batches that come later do not change it and do not wait for it; leaves that only it
/// needs are freed when it is dropped, in any order with others.
///
/// ```
/// use warpkeep_containers::{OrderedMap, OrderedMapOptions};
///
/// let map = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
/// map.insert(&[1, 2, 3], &[10, 20, 30])?;
/// let before = map.snapshot();
/// map.erase(&[2])?;
/// assert_eq!((before.len(), map.len()), (3, 2));
/// assert_eq!(before.range(&[0], &[9], None)?.keys, [1, 2, 3]);
/// # Ok::<(), warpkeep_containers::ContainerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OrderedSnapshot<K, V>(pub(super) View<K, V>);

#[derive(Debug, Clone)]
pub(super) enum View<K, V> {
    Device(Arc<Tree>, Arc<Version>),
    Cpu(Arc<BTreeMap<K, V>>),
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedSnapshot<K, V> {
    /// The number of keys.
    pub fn len(&self) -> u64 {
        match &self.0 {
            View::Device(_, version) => version.length,
            View::Cpu(map) => map.len() as u64,
        }
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of keys.
    pub fn find(&self, keys: &[K]) -> Result<Vec<Option<V>>, ContainerError> {
        let (tree, version) = match &self.0 {
            View::Cpu(map) => return Ok(keys.iter().map(|key| map.get(key).copied()).collect()),
            View::Device(tree, version) => (tree, version),
        };
        self.ask(
            tree,
            keys,
            |columns, workspace, staged| {
                let Staged { keys, count, statuses, .. } = *staged;
                let values = columns.values.reserve(&tree.device, size_of::<V>() * count)?;
                // SAFETY: the columns have `count` elements; the stream is synchronised before they are used again.
                unsafe {
                    tree.find(version, keys, count, statuses, values, workspace)?;
                    columns.values.fetch::<V>(&tree.device, count, workspace)?;
                }
                Ok(())
            },
            |columns, at, status| {
                (status == OrderedStatus::Found).then(|| columns.values.fetched::<V>(at + 1)[at])
            },
        )
    }

    /// Which keys are there.
    pub fn contains(&self, keys: &[K]) -> Result<Vec<bool>, ContainerError> {
        let (tree, version) = match &self.0 {
            View::Cpu(map) => return Ok(keys.iter().map(|key| map.contains_key(key)).collect()),
            View::Device(tree, version) => (tree, version),
        };
        self.ask(
            tree,
            keys,
            |_, stream, staged| {
                let Staged { keys, count, statuses, .. } = *staged;
                // SAFETY: as in `find`.
                unsafe { Ok(tree.find(version, keys, count, statuses, DevicePtr::NULL, stream)?) }
            },
            |_, _, status| status == OrderedStatus::Found,
        )
    }

    /// For each key, the pair with the smallest key above it that `near` accepts.
    pub fn successor(&self, keys: &[K], near: Near<K>) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        self.nearest(keys, false, near)
    }

    /// For each key, the pair with the largest key below it that `near` accepts: an as-of join.
    ///
    /// ```
    /// use warpkeep_containers::{Near, OrderedMap, OrderedMapOptions};
    ///
    /// let quotes = OrderedMap::<u64, u64>::on_cpu(&OrderedMapOptions::default());
    /// quotes.insert(&[100, 200], &[7, 8])?;
    /// let as_of = quotes.predecessor(&[99, 100, 150, 900], Near::or_equal().within(500))?;
    /// assert_eq!(as_of, [None, Some((100, 7)), Some((100, 7)), None]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn predecessor(&self, keys: &[K], near: Near<K>) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        self.nearest(keys, true, near)
    }

    fn nearest(
        &self,
        keys: &[K],
        is_down: bool,
        near: Near<K>,
    ) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        let (tree, version) = match &self.0 {
            View::Cpu(map) => {
                return Ok(keys.iter().map(|key| cpu::nearest(map, *key, is_down, &near)).collect());
            }
            View::Device(tree, version) => (tree, version),
        };
        self.ask(
            tree,
            keys,
            |columns, stream, staged| {
                // SAFETY: as in `find`.
                unsafe {
                    let staged = pair_columns::<K, V>(tree, columns, staged)?;
                    tree.near(version, &staged, is_down, &near, stream)?;
                    fetch_pairs::<K, V>(tree, columns, staged.count, stream)
                }
            },
            found_pair,
        )
    }

    /// The pair with the smallest key.
    pub fn min(&self) -> Result<Option<(K, V)>, ContainerError> {
        Ok(self.successor(&[K::default()], Near::or_equal())?.pop().flatten())
    }

    /// The pair with the largest key.
    pub fn max(&self) -> Result<Option<(K, V)>, ContainerError> {
        Ok(self.predecessor(&[K::LARGEST], Near::or_equal())?.pop().flatten())
    }

    /// How many keys are below each key.
    pub fn rank(&self, keys: &[K]) -> Result<Vec<u64>, ContainerError> {
        let (tree, version) = match &self.0 {
            View::Cpu(map) => {
                return Ok(keys.iter().map(|key| map.range(..key).count() as u64).collect());
            }
            View::Device(tree, version) => (tree, version),
        };
        self.ask(
            tree,
            keys,
            |columns, stream, staged| {
                // SAFETY: as in `find`; there are no statuses, so they are set.
                unsafe {
                    let ranks = columns.counts.reserve(&tree.device, 4 * staged.count)?;
                    columns.statuses.fill(&tree.device, staged.count, OrderedStatus::Found as u8, stream)?;
                    tree.rank(version, staged.keys, ranks, staged.count, stream)?;
                    columns.counts.fetch::<u32>(&tree.device, staged.count, stream)?;
                }
                Ok(())
            },
            |columns, at, _| columns.counts.fetched::<u32>(at + 1)[at].into(),
        )
    }

    /// The pairs with these numbers of keys below them; `None` if the map has fewer keys.
    pub fn nth(&self, ranks: &[u64]) -> Result<Vec<Option<(K, V)>>, ContainerError> {
        let (tree, version) = match &self.0 {
            View::Cpu(map) => {
                let nth = |rank: &u64| map.iter().nth(usize::try_from(*rank).ok()?);
                return Ok(ranks.iter().map(|rank| nth(rank).map(|(key, value)| (*key, *value))).collect());
            }
            View::Device(tree, version) => (tree, version),
        };
        // No key has that many below it.
        let ranks: Vec<u32> = ranks.iter().map(|rank| u32::try_from(*rank).unwrap_or(u32::MAX)).collect();
        self.ask(
            tree,
            &ranks,
            |columns, stream, staged| {
                // SAFETY: as in `find`.
                unsafe {
                    let found = pair_columns::<K, V>(tree, columns, staged)?;
                    tree.select(version, staged.keys, &found, stream)?;
                    fetch_pairs::<K, V>(tree, columns, staged.count, stream)
                }
            },
            found_pair,
        )
    }

    /// How many keys there are between two bounds, both included: none, if the first is the larger.
    pub fn count(&self, lows: &[K], highs: &[K]) -> Result<Vec<u64>, ContainerError> {
        check_bounds(lows, highs)?;
        let (tree, version) = match &self.0 {
            View::Cpu(map) => {
                let count = |(low, high): (&K, &K)| cpu::count(map, *low, *high);
                return Ok(lows.iter().zip(highs).map(count).collect());
            }
            View::Device(tree, version) => (tree, version),
        };
        self.ask(
            tree,
            lows,
            |columns, stream, staged| {
                // SAFETY: as in `find`.
                unsafe {
                    let staged = stage_ranges(tree, columns, staged, highs, OrderedOpKind::Count, stream)?;
                    let (batch, pairs) = (SortedBatch::NONE, &mut columns.pairs);
                    tree.read_around(version, &batch, &staged, Pairs::NONE, pairs, stream)?;
                    columns.counts.fetch::<u32>(&tree.device, staged.count, stream)?;
                }
                Ok(())
            },
            |columns, at, _| columns.counts.fetched::<u32>(at + 1)[at].into(),
        )
    }

    /// The pairs between two bounds, both included, of each range at most `limit`. The numbers of keys are exact with a limit, too.
    pub fn range(
        &self,
        lows: &[K],
        highs: &[K],
        limit: Option<usize>,
    ) -> Result<OrderedRanges<K, V>, ContainerError> {
        check_bounds(lows, highs)?;
        let mut ranges =
            OrderedRanges { offsets: vec![0], counts: Vec::new(), keys: Vec::new(), values: Vec::new() };
        let (tree, version) = match &self.0 {
            View::Device(tree, version) => (tree, version),
            View::Cpu(map) => {
                for (low, high) in lows.iter().zip(highs) {
                    let pairs = cpu::range(map, *low, *high);
                    ranges.counts.push(pairs.len() as u64);
                    for (key, value) in pairs.into_iter().take(limit.unwrap_or(usize::MAX)) {
                        ranges.keys.push(key);
                        ranges.values.push(value);
                    }
                    ranges.offsets.push(ranges.keys.len());
                }
                return Ok(ranges);
            }
        };
        let (most, mut pairs) = (limit.unwrap_or(usize::MAX), 0);
        let stride = limit.filter(|most| most.saturating_mul(lows.len()) <= FEW_PAIRS);
        let counts: Vec<u64> = self.ask(
            tree,
            lows,
            |columns, stream, staged| {
                let device = &tree.device;
                // SAFETY: as in `find`.
                unsafe {
                    let staged = stage_ranges(tree, columns, staged, highs, OrderedOpKind::Range, stream)?;
                    let (batch, of_pairs) = (SortedBatch::NONE, &mut columns.pairs);
                    let room = stride.unwrap_or(0) * staged.count;
                    let how = match (stride, limit) {
                        (Some(stride), _) => Pairs::Fixed {
                            keys: of_pairs.keys.reserve(device, size_of::<K>() * room)?,
                            values: of_pairs.values.reserve(device, size_of::<V>() * room)?,
                            stride: stride as u64,
                            room: room as u64,
                        },
                        (None, Some(most)) => Pairs::Limited(most as u64),
                        (None, None) => Pairs::Ragged,
                    };
                    let ragged = tree.read_around(version, &batch, &staged, how, of_pairs, stream)?;
                    pairs = if stride.is_some() { room } else { ragged as usize };
                    if pairs > 0 {
                        columns.pairs.keys.fetch::<K>(device, pairs, stream)?;
                        columns.pairs.values.fetch::<V>(device, pairs, stream)?;
                    }
                    columns.counts.fetch::<u32>(device, staged.count, stream)?;
                }
                Ok(())
            },
            |columns, at, _| {
                let count = columns.counts.fetched::<u32>(at + 1)[at];
                let begin = stride.map_or(ranges.keys.len(), |stride| at * stride);
                let end = begin + most.min(count as usize);
                if end > begin {
                    ranges.keys.extend_from_slice(&columns.pairs.keys.fetched::<K>(end)[begin..]);
                    ranges.values.extend_from_slice(&columns.pairs.values.fetched::<V>(end)[begin..]);
                }
                ranges.offsets.push(ranges.keys.len());
                count.into()
            },
        )?;
        ranges.counts = counts;
        Ok(ranges)
    }

    /// Gives all pairs to `take`, in parts and in the order of their keys.
    pub fn for_each_part(&self, mut take: impl FnMut(&[(K, V)])) -> Result<(), ContainerError> {
        self.try_for_each_part(|pairs| {
            take(pairs);
            Ok(())
        })
    }

    /// All pairs, in the order of their keys.
    pub fn retrieve_all(&self) -> Result<Vec<(K, V)>, ContainerError> {
        let mut all = Vec::new();
        self.for_each_part(|pairs| all.extend_from_slice(pairs))?;
        Ok(all)
    }

    pub(super) fn try_for_each_part(
        &self,
        mut take: impl FnMut(&[(K, V)]) -> Result<(), ContainerError>,
    ) -> Result<(), ContainerError> {
        let (tree, version) = match &self.0 {
            View::Device(tree, version) => (tree, version),
            View::Cpu(map) => {
                let pairs: Vec<(K, V)> = map.iter().map(|(key, value)| (*key, *value)).collect();
                return take(&pairs);
            }
        };
        let (mut pairs, leaves) = (Vec::new(), version.layout.leaf_count);
        for first in (0..leaves).step_by(CHUNK as usize) {
            let chunk = CHUNK.min(leaves - first);
            let (begin, end) = version.keys_before(first, chunk)?;
            let count = (end - begin) as usize;
            let mut workspace = tree.workspaces.take(&tree.device)?;
            let Workspace { columns, stream, .. } = &mut workspace;
            let Columns { found_keys, values, .. } = columns;
            let to = (
                found_keys.reserve(&tree.device, size_of::<K>() * count)?,
                values.reserve(&tree.device, size_of::<V>() * count)?,
            );
            // SAFETY: the columns have room for the pairs of these leaves, and the stream is synchronised.
            unsafe {
                tree.retrieve(version, first, chunk, to.0, to.1, stream)?;
                found_keys.fetch::<K>(&tree.device, count, stream)?;
                values.fetch::<V>(&tree.device, count, stream)?;
            }
            stream.synchronize()?;
            pairs.clear();
            let both = found_keys.fetched::<K>(count).iter().zip(values.fetched::<V>(count));
            pairs.extend(both.map(|(key, value)| (*key, *value)));
            tree.workspaces.put_back(workspace);
            take(&pairs)?;
        }
        Ok(())
    }

    /// What kernels of others need to read this state. It is good as long as this snapshot.
    pub fn reference(&self) -> Result<OrderedMapRef, ContainerError> {
        let (tree, version) = self.on_device("reference")?;
        Ok(tree.reference(version))
    }

    pub(super) fn on_device(&self, what: &'static str) -> Result<(&Tree, &Version), ContainerError> {
        match &self.0 {
            View::Device(tree, version) => Ok((tree, version)),
            View::Cpu(_) => Err(ContainerError::OnCpu { what }),
        }
    }

    /// Sends keys, lets `launch` enqueue what answers them, and makes each answer from the columns that it fetched.
    fn ask<Q: bytemuck::Pod, A>(
        &self,
        tree: &Tree,
        keys: &[Q],
        launch: impl FnOnce(&mut Columns, &warpkeep_device::Stream, &Staged) -> Result<(), ContainerError>,
        mut answer: impl FnMut(&Columns, usize, OrderedStatus) -> A,
    ) -> Result<Vec<A>, ContainerError> {
        let count = keys.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut workspace = tree.workspaces.take(&tree.device)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        // SAFETY: the stream is synchronised before the columns are used again.
        unsafe {
            let sent = send(&mut columns.keys, keys.iter().copied(), count, &tree.device, stream)?;
            let statuses = columns.statuses.reserve(&tree.device, count)?;
            let staged = Staged { keys: sent, statuses, count, ..Staged::NONE };
            launch(columns, stream, &staged)?;
            columns.statuses.fetch::<u8>(&tree.device, count, stream)?;
        }
        stream.synchronize()?;
        let statuses = statuses(columns, count).iter().enumerate();
        let answers = statuses.map(|(at, status)| answer(columns, at, *status)).collect();
        tree.workspaces.put_back(workspace);
        Ok(answers)
    }
}

fn check_bounds<K>(lows: &[K], highs: &[K]) -> Result<(), ContainerError> {
    match lows.len() == highs.len() {
        true => Ok(()),
        false => Err(ContainerError::WrongLength {
            what: "upper bounds",
            given: highs.len(),
            expected: lows.len(),
        }),
    }
}

/// Room for pairs that are found.
fn pair_columns<K, V>(tree: &Tree, columns: &mut Columns, staged: &Staged) -> Result<Staged> {
    Ok(Staged {
        found_keys: columns.found_keys.reserve(&tree.device, size_of::<K>() * staged.count)?,
        values: columns.values.reserve(&tree.device, size_of::<V>() * staged.count)?,
        ..*staged
    })
}

/// # Safety
/// The stream must be synchronised before the columns are used again.
unsafe fn fetch_pairs<K: OrderedWord, V: OrderedWord>(
    tree: &Tree,
    columns: &mut Columns,
    count: usize,
    stream: &warpkeep_device::Stream,
) -> Result<(), ContainerError> {
    // SAFETY: the caller's promise.
    unsafe {
        columns.found_keys.fetch::<K>(&tree.device, count, stream)?;
        columns.values.fetch::<V>(&tree.device, count, stream)?;
    }
    Ok(())
}

fn found_pair<K: OrderedWord, V: OrderedWord>(
    columns: &Columns,
    at: usize,
    status: OrderedStatus,
) -> Option<(K, V)> {
    let pair = || (columns.found_keys.fetched::<K>(at + 1)[at], columns.values.fetched::<V>(at + 1)[at]);
    (status == OrderedStatus::Found).then(pair)
}

/// Sends the upper bounds of ranges, and makes room for their counts.
///
/// # Safety
/// The stream must be synchronised before the columns are used again.
unsafe fn stage_ranges<K: OrderedWord>(
    tree: &Tree,
    columns: &mut Columns,
    staged: &Staged,
    highs: &[K],
    code: OrderedOpKind,
    stream: &warpkeep_device::Stream,
) -> Result<Staged> {
    Ok(Staged {
        // SAFETY: the caller's promise.
        ends: unsafe { send(&mut columns.ends, highs.iter().copied(), staged.count, &tree.device, stream)? },
        counts: columns.counts.reserve(&tree.device, 4 * staged.count)?,
        code,
        ..*staged
    })
}
