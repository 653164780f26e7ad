//! Calls that take buffers in device memory and a stream of the caller.

use warpkeep_device::{Buffer, Device, DevicePtr, Result, Stream};

use super::batch::{MOST_OPERATIONS, Memory};
use super::columns::Staged;
use super::key::{OrderedKey, OrderedWord};
use super::near::Near;
use super::op::OrderedOpKind;
use super::pool::too_large;
use super::reads::Pairs;
use super::snapshot::OrderedSnapshot;
use super::{Kind, OrderedMap};
use crate::ContainerError;
use crate::batch_columns::{own_column, settled};

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

/// Checks the columns of a call: their length, and that they are memory of the map's device.
struct Given<'a>(&'a Device);

impl Given<'_> {
    fn column(&self, buffer: &Buffer, bytes: usize, count: usize, what: &'static str) -> Result<DevicePtr> {
        self.optional(Some(buffer), bytes, count, what)
    }

    fn optional(
        &self,
        buffer: Option<&Buffer>,
        bytes: usize,
        count: usize,
        what: &'static str,
    ) -> Result<DevicePtr> {
        own_column(buffer, bytes, count, what, self.0)
    }
}

/// The columns of a batch and of its answers, whose lengths and device were checked.
fn stage<K, V>(
    ops: &DeviceOrderedOps<'_>,
    answers: &DeviceOrderedAnswers<'_>,
    given: &Given<'_>,
) -> Result<(Staged, Pairs), ContainerError> {
    let (count, key, value) = (ops.count, size_of::<K>(), size_of::<V>());
    if count as u64 > MOST_OPERATIONS {
        return Err(too_large("operations of one batch", count as u64, MOST_OPERATIONS));
    }
    let keys = given.column(ops.keys, key, count, "keys")?;
    let (codes, code) = match ops.kinds {
        OrderedOpKinds::All(kind) => (DevicePtr::NULL, kind),
        OrderedOpKinds::Each(codes) => {
            (given.column(codes, 1, count, "kinds of operations")?, OrderedOpKind::Find)
        }
    };
    let ends = given.optional(ops.ends, key, count, "upper bounds")?;
    let staged = Staged {
        keys,
        ends: if ends.is_null() { keys } else { ends },
        codes,
        code,
        operands: given.optional(ops.values, value, count, "values")?,
        statuses: given.column(answers.statuses, 1, count, "statuses")?,
        values: given.optional(answers.values.as_deref(), value, count, "values of answers")?,
        found_keys: given.optional(answers.keys.as_deref(), key, count, "keys of answers")?,
        counts: given.optional(answers.counts.as_deref(), 4, count, "counts")?,
        count,
    };
    let Some(pairs) = &answers.pairs else { return Ok((staged, Pairs::NONE)) };
    let room = (pairs.keys.len() / key).min(pairs.values.len() / value);
    let keys = given.column(pairs.keys, key, room, "keys of pairs")?;
    let values = given.column(pairs.values, value, room, "values of pairs")?;
    let room = room as u64;
    let pairs = match &pairs.layout {
        PairLayout::Stride(stride) => Pairs::Fixed { keys, values, stride: *stride as u64, room },
        PairLayout::Offsets(offsets) => {
            Pairs::RaggedIn { keys, values, offsets: given.column(offsets, 4, count + 1, "offsets")?, room }
        }
    };
    Ok((staged, pairs))
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Runs a batch in device memory after what is in the stream, and waits for it. Operations act in their order, ranges included.
    ///
    /// # Errors
    /// If a buffer is too short or of another device, or the map is on the CPU, before anything is changed; as all errors, they leave the map as it was.
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
        let (mut staged, pairs) = stage::<K, V>(&ops, &answers, &Given(&tree.device))?;
        if staged.count == 0 {
            // SAFETY: the length of the column was checked, and the stream is synchronised.
            return Ok(settled(unsafe { tree.no_pairs(&staged, pairs, stream) }, stream)
                .and_then(|()| stream.synchronize())?);
        }
        let mut workspace = tree.workspaces.take(&tree.device)?;
        let columns = &mut workspace.columns;
        let wants_offsets = matches!(pairs, Pairs::RaggedIn { .. });
        let wants_around = !staged.codes.is_null() || !staged.found_keys.is_null() || wants_offsets;
        if wants_around && staged.counts.is_null() {
            staged.counts = columns.counts.reserve(&tree.device, 4 * staged.count)?;
        }
        // SAFETY: lengths and device were checked; all buffers are borrowed, those that are written exclusively; both calls wait for the stream.
        unsafe {
            let (plan, wide) = (&mut columns.plan, &mut columns.wide);
            let plan = tree.plan(staged.keys, staged.count, false, plan, wide, stream)?;
            let mut memory =
                Memory { work: &mut columns.work, pairs: &mut columns.pairs, sweep: &mut columns.sweep };
            tree.apply(&staged, plan, pairs, &mut memory, stream, |_, _| Ok(()))?;
        }
        tree.workspaces.put_back(workspace);
        Ok(())
    }
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Puts pairs in device memory whose keys are in ascending order, after what is in the stream, and waits for it. They are not sorted again: an
    /// empty map is filled several times as fast as by [`apply_on`](Self::apply_on). Of equal keys the last one counts.
    ///
    /// # Errors
    /// [`ContainerError::NotSorted`] if a key is less than the one before it; otherwise as [`apply_on`](Self::apply_on).
    pub fn put_sorted_on(
        &self,
        keys: &Buffer,
        values: &Buffer,
        count: usize,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let Kind::Device(tree) = &self.0 else {
            return Err(ContainerError::OnCpu { what: "put_sorted_on" });
        };
        if count as u64 > MOST_OPERATIONS {
            return Err(too_large("operations of one batch", count as u64, MOST_OPERATIONS));
        }
        let given = Given(&tree.device);
        let staged = Staged {
            keys: given.column(keys, size_of::<K>(), count, "keys")?,
            operands: given.column(values, size_of::<V>(), count, "values")?,
            code: OrderedOpKind::Put,
            count,
            ..Staged::NONE
        };
        if count == 0 {
            return Ok(());
        }
        let mut workspace = tree.workspaces.take(&tree.device)?;
        let columns = &mut workspace.columns;
        // SAFETY: lengths and device were checked; both buffers are borrowed, and the call waits for the stream.
        let disorder = unsafe { tree.put_sorted(&staged, columns, stream)? };
        tree.workspaces.put_back(workspace);
        disorder.map_or(Ok(()), |at| Err(ContainerError::NotSorted { at }))
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
        let (staged, pairs) = stage::<K, V>(&ops, &answers, &Given(&tree.device))?;
        if !matches!(ops.kinds, OrderedOpKinds::All(kind) if kind.only_reads()) {
            return Err(ContainerError::ChangesSnapshot);
        }
        let read = || {
            // SAFETY: lengths and device were checked; all buffers are borrowed, those that are written exclusively, and the stream is
            // synchronised.
            unsafe {
                if staged.count == 0 {
                    return Ok(tree.no_pairs(&staged, pairs, stream)?);
                }
                tree.read_alone(version, &staged, pairs, stream)
            }
        };
        settled(read(), stream)?;
        Ok(stream.synchronize()?)
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
        let given = Given(&tree.device);
        let staged = Staged {
            keys: given.column(keys, size_of::<K>(), count, "keys")?,
            statuses: given.column(found.statuses, 1, count, "statuses")?,
            found_keys: given.optional(found.keys.as_deref(), size_of::<K>(), count, "keys of answers")?,
            values: given.optional(found.values.as_deref(), size_of::<V>(), count, "values of answers")?,
            count,
            ..Staged::NONE
        };
        if count > 0 {
            // SAFETY: lengths and device were checked; all buffers are borrowed, and the stream is synchronised.
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
        let given = Given(&tree.device);
        let keys = given.column(keys, size_of::<K>(), count, "keys of all pairs")?;
        let values = given.column(values, size_of::<V>(), count, "values of all pairs")?;
        if count > 0 {
            // SAFETY: lengths and device were checked; both buffers are borrowed exclusively, and the stream is synchronised.
            unsafe { tree.retrieve(version, 0, version.layout.leaf_count, keys, values, stream)? };
        }
        Ok(stream.synchronize()?)
    }
}
