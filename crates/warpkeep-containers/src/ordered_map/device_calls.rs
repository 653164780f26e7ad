//! Calls that take buffers in device memory and a stream of the caller.

use warpkeep_device::{Buffer, DeviceError, DevicePtr, Result, Stream};

use super::batch::{MOST_OPERATIONS, Memory};
use super::columns::Staged;
use super::kernels::SortedBatch;
use super::key::{OrderedKey, OrderedWord};
use super::near::Near;
use super::op::OrderedOpKind;
use super::pool::too_large;
use super::reads::Pairs;
use super::snapshot::OrderedSnapshot;
use super::{Kind, OrderedMap};
use crate::ContainerError;

/// The kinds of the operations of a batch in device memory.
#[derive(Debug, Clone, Copy)]
pub enum OrderedOpKinds<'a> {
    /// All are the same. Those that only read need no order and are fastest.
    All(OrderedOpKind),
    /// A byte for each operation: an [`OrderedOpKind`]. Other bytes are answered as [`OrderedOpKind::Find`].
    Each(&'a Buffer),
}

/// A batch in device memory. Keys and values have four bytes each, or eight.
#[derive(Debug, Clone, Copy)]
pub struct DeviceOrderedOps<'a> {
    /// What the operations do.
    pub kinds: OrderedOpKinds<'a>,
    /// Their keys, or the lower bounds of ranges.
    pub keys: &'a Buffer,
    /// The upper bounds of ranges; without them a range has its lower bound alone.
    pub ends: Option<&'a Buffer>,
    /// Their values; 0 if there are none.
    pub values: Option<&'a Buffer>,
    /// How many there are.
    pub count: usize,
}

/// Where the answers to a batch in device memory go.
#[derive(Debug)]
pub struct DeviceOrderedAnswers<'a> {
    /// A byte for each operation: an [`OrderedStatus`](super::OrderedStatus).
    pub statuses: &'a mut Buffer,
    /// The value that each key had before, or that was found.
    pub values: Option<&'a mut Buffer>,
    /// The keys that were found by operations that ask for a neighbour; 0 for others.
    pub keys: Option<&'a mut Buffer>,
    /// How many keys each range has, four bytes each; 0 for others.
    pub counts: Option<&'a mut Buffer>,
    /// The pairs of ranges. Without room for them a range that has any is answered `Truncated`.
    pub pairs: Option<DevicePairs<'a>>,
}

/// Where the pairs of ranges go in device memory. No more are written than there is room for.
#[derive(Debug)]
pub struct DevicePairs<'a> {
    /// Their keys.
    pub keys: &'a mut Buffer,
    /// Their values.
    pub values: &'a mut Buffer,
    /// Where those of each range are.
    pub layout: PairLayout<'a>,
}

/// Where the pairs of each range are in the columns of all.
#[derive(Debug)]
pub enum PairLayout<'a> {
    /// Those of operation `i` from the element `i` times this on, and at most that number of each.
    Stride(usize),
    /// One range behind the other. The buffer gets, four bytes each, the position of the first pair of each operation, and behind the last
    /// one the number of all pairs. A range of which not all pairs have room is answered `Truncated`.
    Offsets(&'a mut Buffer),
}

/// Where the neighbours that were found go in device memory.
#[derive(Debug)]
pub struct DeviceFound<'a> {
    /// A byte for each key: [`Found`](super::OrderedStatus::Found) or [`Absent`](super::OrderedStatus::Absent).
    pub statuses: &'a mut Buffer,
    /// The keys that were found; 0 if there is none.
    pub keys: Option<&'a mut Buffer>,
    /// Their values; 0 if there is none.
    pub values: Option<&'a mut Buffer>,
}

fn column(buffer: &Buffer, bytes: usize, count: usize, what: &'static str) -> Result<DevicePtr> {
    let (len, size) = ((bytes as u64).saturating_mul(count as u64), buffer.len() as u64);
    match len <= size {
        true => Ok(buffer.ptr()),
        false => Err(DeviceError::OutOfBounds { what, offset: 0, len, size }),
    }
}

fn optional(buffer: Option<&Buffer>, bytes: usize, count: usize, what: &'static str) -> Result<DevicePtr> {
    buffer.map_or(Ok(DevicePtr::NULL), |buffer| column(buffer, bytes, count, what))
}

/// The columns of a batch and of its answers, whose lengths were checked.
fn stage<K, V>(
    ops: &DeviceOrderedOps<'_>,
    answers: &DeviceOrderedAnswers<'_>,
) -> Result<(Staged, Pairs), ContainerError> {
    let (count, key, value) = (ops.count, size_of::<K>(), size_of::<V>());
    if count as u64 > MOST_OPERATIONS {
        return Err(too_large("operations of one batch", count as u64, MOST_OPERATIONS));
    }
    let keys = column(ops.keys, key, count, "keys")?;
    let (codes, code) = match ops.kinds {
        OrderedOpKinds::All(kind) => (DevicePtr::NULL, kind),
        OrderedOpKinds::Each(codes) => (column(codes, 1, count, "kinds of operations")?, OrderedOpKind::Find),
    };
    let ends = optional(ops.ends, key, count, "upper bounds")?;
    let staged = Staged {
        keys,
        ends: if ends.is_null() { keys } else { ends },
        codes,
        code,
        operands: optional(ops.values, value, count, "values")?,
        statuses: column(answers.statuses, 1, count, "statuses")?,
        values: optional(answers.values.as_deref(), value, count, "values of answers")?,
        found_keys: optional(answers.keys.as_deref(), key, count, "keys of answers")?,
        counts: optional(answers.counts.as_deref(), 4, count, "counts")?,
        count,
    };
    let Some(pairs) = &answers.pairs else { return Ok((staged, Pairs::NONE)) };
    let room = (pairs.keys.len() / key).min(pairs.values.len() / value) as u64;
    let (keys, values) = (pairs.keys.ptr(), pairs.values.ptr());
    let pairs = match &pairs.layout {
        PairLayout::Stride(stride) => Pairs::Fixed { keys, values, stride: *stride as u64, room },
        PairLayout::Offsets(offsets) => {
            Pairs::RaggedIn { keys, values, offsets: column(offsets, 4, count + 1, "offsets")?, room }
        }
    };
    Ok((staged, pairs))
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Runs a batch in device memory after what is in the stream, and waits for it. Operations act in their order, ranges included.
    ///
    /// # Errors
    /// If a buffer is too short or the map is on the CPU, before anything is changed; as all errors, they leave the map as it was.
    pub fn apply_on(
        &self,
        ops: DeviceOrderedOps<'_>,
        answers: DeviceOrderedAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let Kind::Device(tree) = &self.0 else { return Err(ContainerError::OnCpu { what: "apply_on" }) };
        if let OrderedOpKinds::All(kind) = ops.kinds
            && kind.only_reads()
        {
            return self.snapshot().read_on(ops, answers, stream);
        }
        let (mut staged, pairs) = stage::<K, V>(&ops, &answers)?;
        if staged.count == 0 {
            return Ok(());
        }
        let mut workspace = tree.workspaces.take(&tree.device)?;
        let columns = &mut workspace.columns;
        let wants_around = !staged.codes.is_null() || !staged.found_keys.is_null();
        if wants_around && staged.counts.is_null() {
            staged.counts = columns.counts.reserve(&tree.device, 4 * staged.count)?;
        }
        // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively; both calls wait for the stream.
        unsafe {
            let (plan, wide) = (&mut columns.plan, &mut columns.wide);
            let plan = tree.plan(staged.keys, staged.count, false, plan, wide, stream)?;
            let mut memory =
                Memory { work: &mut columns.work, pairs: &mut columns.pairs, sweep: &mut columns.sweep };
            tree.apply(&staged, &plan, pairs, &mut memory, stream)?;
        }
        tree.workspaces.put_back(workspace);
        Ok(())
    }
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedSnapshot<K, V> {
    /// Runs operations in device memory that are all of one kind and only read, after what is in the stream, and waits for them.
    ///
    /// # Errors
    /// [`ContainerError::ChangesSnapshot`] if they do not, or have kinds of their own; and as [`OrderedMap::apply_on`].
    // The buffers that are written are borrowed exclusively until the call returns.
    #[allow(clippy::needless_pass_by_value)]
    pub fn read_on(
        &self,
        ops: DeviceOrderedOps<'_>,
        answers: DeviceOrderedAnswers<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (tree, version) = self.on_device("read_on")?;
        let (staged, pairs) = stage::<K, V>(&ops, &answers)?;
        let kind = match ops.kinds {
            OrderedOpKinds::All(kind) if kind.only_reads() => kind,
            _ => return Err(ContainerError::ChangesSnapshot),
        };
        if staged.count == 0 {
            return Ok(());
        }
        let Staged { keys, count, statuses, found_keys, counts, .. } = staged;
        let values = match kind {
            OrderedOpKind::Contains => {
                if let Some(values) = &answers.values {
                    values.fill_on(0, size_of::<V>() * count, 0, stream)?;
                }
                DevicePtr::NULL
            }
            _ => staged.values,
        };
        // SAFETY: the lengths were checked; all buffers are borrowed, those that are written exclusively, and the stream is synchronised.
        unsafe {
            if !kind.looks_around() {
                tree.find(version, keys, count, statuses, values, stream)?;
            }
            // The kernel gives lookups the keys and numbers of keys that they do not have: zeros.
            if kind.looks_around() || !found_keys.is_null() || !counts.is_null() || answers.pairs.is_some() {
                let mut workspace = tree.workspaces.take(&tree.device)?;
                let of_pairs = &mut workspace.columns.pairs;
                tree.read_around(version, &SortedBatch::NONE, &staged, pairs, of_pairs, stream)?;
                stream.synchronize()?;
                tree.workspaces.put_back(workspace);
            }
            stream.synchronize()?;
        }
        Ok(())
    }

    /// As [`successor`](Self::successor), of keys in device memory, after what is in the stream.
    pub fn successor_on(
        &self,
        keys: &Buffer,
        count: usize,
        near: Near<K>,
        found: DeviceFound<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.nearest_on(keys, count, false, near, found, stream)
    }

    /// As [`predecessor`](Self::predecessor), of keys in device memory, after what is in the stream.
    pub fn predecessor_on(
        &self,
        keys: &Buffer,
        count: usize,
        near: Near<K>,
        found: DeviceFound<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.nearest_on(keys, count, true, near, found, stream)
    }

    // The buffers that are written are borrowed exclusively until the call returns.
    #[allow(clippy::needless_pass_by_value)]
    fn nearest_on(
        &self,
        keys: &Buffer,
        count: usize,
        is_down: bool,
        near: Near<K>,
        found: DeviceFound<'_>,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (tree, version) = self.on_device("successor_on and predecessor_on")?;
        let staged = Staged {
            keys: column(keys, size_of::<K>(), count, "keys")?,
            statuses: column(found.statuses, 1, count, "statuses")?,
            found_keys: optional(found.keys.as_deref(), size_of::<K>(), count, "keys of answers")?,
            values: optional(found.values.as_deref(), size_of::<V>(), count, "values of answers")?,
            count,
            ..Staged::NONE
        };
        if count > 0 {
            // SAFETY: the lengths were checked; all buffers are borrowed, and the stream is synchronised.
            unsafe { tree.near(version, &staged, is_down, &near, stream)? };
        }
        Ok(stream.synchronize()?)
    }

    /// All pairs in device memory, in the order of their keys, after what is in the stream. Both buffers need room for
    /// [`len`](Self::len) elements.
    pub fn retrieve_all_on(
        &self,
        keys: &mut Buffer,
        values: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (tree, version) = self.on_device("retrieve_all_on")?;
        let count = version.length as usize;
        let keys = column(keys, size_of::<K>(), count, "keys of all pairs")?;
        let values = column(values, size_of::<V>(), count, "values of all pairs")?;
        if count > 0 {
            // SAFETY: the lengths were checked; both buffers are borrowed exclusively, and the stream is synchronised.
            unsafe { tree.retrieve(version, 0, version.layout.leaf_count, keys, values, stream)? };
        }
        Ok(stream.synchronize()?)
    }
}
