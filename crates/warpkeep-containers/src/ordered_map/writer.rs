//! A map that is open for kernels.

use std::marker::PhantomData;
use std::sync::Arc;

use warpkeep_device::{DevicePtr, Result, StagedBuffer, Stream, Workspace};

use super::columns::Columns;
use super::kernels::{NODE_STRIPES, OrderedWriterRef, STRIPE_WORDS};
use super::key::{OrderedKey, OrderedWord};
use super::pool::{NoRoom as _, too_large};
use super::tree::{Tree, Writer};
use super::version::Version;
use super::{Kind, OrderedMap};
use crate::ContainerError;
use crate::batch_plan::Scratch;

/// Nodes that a writer asks for beside those for its operations: few operations can meet full leaves only.
const LEAST_NODES: u64 = 64;

/// Columns of a writer, and of making a version of what kernels did.
#[derive(Debug, Default)]
pub(super) struct WriterColumns {
    pub(super) heads: StagedBuffer,
    pub(super) taken: StagedBuffer,
    pub(super) live: Scratch,
    pub(super) lows: StagedBuffer,
    pub(super) leaf_lows: StagedBuffer,
    pub(super) leaf_nodes: StagedBuffer,
    pub(super) dead: StagedBuffer,
    pub(super) changed: Scratch,
    pub(super) retired: StagedBuffer,
    pub(super) pairs: StagedBuffer,
    /// The smallest keys of few leaves in order, and their numbers.
    pub(super) sorted: StagedBuffer,
    pub(super) numbers: StagedBuffer,
}

/// An [`OrderedMap`] that is open for kernels: any number of them, of any streams, insert, upsert, erase and look up at the same time, each thread for
/// itself. [`finish`](Self::finish) makes the next state of the map of what they did.
///
/// Until then the map is read as it was before, by the host and by kernels that have a snapshot; batches that would change it are
/// refused with [`ContainerError::BeingWritten`]. A writer that is dropped leaves the map as it was.
///
/// ```
/// use warpkeep_containers::{ContainerError, OrderedMap, OrderedMapOptions};
/// use warpkeep_device::{Device, DeviceChoice};
///
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// let device = Device::open(DeviceChoice::Sim)?;
/// let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default())?;
/// let writer = map.writer(1000)?;
/// let _for_kernels = writer.reference();
/// assert!(matches!(map.insert(&[1], &[2]), Err(ContainerError::BeingWritten)));
/// writer.finish()?;
/// map.insert(&[1], &[2])?;
/// # Ok::<(), ContainerError>(())
/// ```
#[derive(Debug)]
pub struct OrderedWriter<K, V> {
    tree: Arc<Tree>,
    /// The state before. None at the end.
    version: Option<Arc<Version>>,
    workspace: Option<Workspace<Columns>>,
    reference: OrderedWriterRef,
    types: PhantomData<(K, V)>,
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedMap<K, V> {
    /// Opens the map for kernels, with memory for about this many operations that change it. Each leaf that kernels change takes a new one,
    /// and each that overflows up to three: `operations` and half as many again are reserved, or less if there is no memory for them. An operation
    /// for which no leaf is left answers [`Full`](super::OrderedStatus::Full) and changes nothing.
    ///
    /// # Errors
    /// [`ContainerError::BeingWritten`] if it is open already; if there is no memory, or the map is on the CPU.
    pub fn writer(&self, operations: u64) -> Result<OrderedWriter<K, V>, ContainerError> {
        let Kind::Device(tree) = &self.0 else { return Err(ContainerError::OnCpu { what: "writer" }) };
        let (version, workspace, reference) = tree.open(operations)?;
        Ok(OrderedWriter {
            tree: tree.clone(),
            version: Some(version),
            workspace: Some(workspace),
            reference,
            types: PhantomData,
        })
    }
}

impl<K: OrderedKey<V>, V: OrderedWord> OrderedWriter<K, V> {
    /// For the parameters of kernels: `wk::OrderedWriterRef` of `warpkeep/ordered_writer.h`. They have ended before the writer is finished
    /// or dropped: the caller that launches them promises that.
    pub fn reference(&self) -> OrderedWriterRef {
        self.reference
    }

    /// Operations that add keys are sure to find memory as long as kernels have taken fewer leaves than this.
    pub fn leaves(&self) -> u64 {
        self.reference.capacity.into()
    }

    /// Makes the next state of the map of what kernels did, after they have ended. It is seen as a whole.
    ///
    /// # Errors
    /// If there is no memory for it, or there are too many keys. The map is as it was before the writer, and what kernels did is lost:
    /// [`try_finish`](Self::try_finish) keeps it if memory is short.
    pub fn finish(mut self) -> Result<(), ContainerError> {
        self.try_finish()
    }

    /// As [`finish`](Self::finish), but if there is no memory for it, what kernels did is kept, and the map stays open: free memory of the
    /// device, or of the budget of its handle, and call again. After success, or another error, the writer has nothing left to do.
    ///
    /// ```
    /// # use warpkeep_containers::{ContainerError, OrderedMap, OrderedMapOptions};
    /// # use warpkeep_device::{Device, DeviceChoice};
    /// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
    /// # let device = Device::open(DeviceChoice::Sim)?;
    /// # let map = OrderedMap::<u64, u64>::new(&device, &OrderedMapOptions::default())?;
    /// # let mut others = Some(device.allocate(64)?);
    /// let mut writer = map.writer(1000)?;
    /// // Kernels change the map.
    /// while let Err(error) = writer.try_finish() {
    ///     let is_short = error.device().is_some_and(|error| error.is_out_of_memory());
    ///     if !is_short || others.take().is_none() {
    ///         return Err(error);
    ///     }
    /// }
    /// # Ok::<(), ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn try_finish(&mut self) -> Result<(), ContainerError> {
        let Some(workspace) = &mut self.workspace else { return Ok(()) };
        let finished = self.tree.finish::<K>(&mut self.version, self.reference, workspace);
        if self.version.is_none()
            && let Some(workspace) = self.workspace.take()
        {
            self.tree.workspaces.put_back(workspace);
        }
        finished
    }
}

impl<K, V> Drop for OrderedWriter<K, V> {
    fn drop(&mut self) {
        // The version is no pin any more when others can change the map.
        let is_open = self.version.take().is_some();
        if let Some(workspace) = self.workspace.take() {
            self.tree.workspaces.put_back(workspace);
        }
        if is_open {
            self.tree.write().is_open = false;
        }
    }
}

impl Tree {
    fn open(
        &self,
        operations: u64,
    ) -> Result<(Arc<Version>, Workspace<Columns>, OrderedWriterRef), ContainerError> {
        let most = u64::from(u32::MAX);
        if operations > most {
            return Err(too_large("operations of a writer", operations, most));
        }
        let nodes = (operations + operations / 2 + LEAST_NODES).min(most);
        let mut workspace = self.workspaces.take(&self.device)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        let (version, reference) = self.writing(stream, |writer| {
            if writer.is_open {
                return Err(ContainerError::BeingWritten);
            }
            let opened = self.open_for(writer, nodes, columns, stream)?;
            writer.is_open = true;
            Ok(opened)
        })?;
        Ok((version, workspace, reference))
    }

    /// Opens the newest version with this many nodes, or with as many as there is memory for.
    fn open_for(
        &self,
        writer: &mut Writer,
        mut nodes: u64,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(Arc<Version>, OrderedWriterRef)> {
        self.collect(writer, &mut columns.sweep, stream)?;
        let version = self.current();
        let (fresh, _) = loop {
            let unclaimed = writer.pool.state;
            match writer.pool.claim(unclaimed, nodes, version.number + 1, true) {
                Err(error) if nodes > 1 && error.is_no_room() => nodes /= 2,
                claimed => break claimed?,
            }
        };
        let heads = 4 * version.layout.leaf_count.max(1) as usize;
        let taken = 4 * (NODE_STRIPES * STRIPE_WORDS) as usize;
        let reference = OrderedWriterRef {
            map: self.reference(&version),
            heads: columns.writer.heads.zeros(&self.device, heads, stream)?,
            taken: columns.writer.taken.zeros(&self.device, taken, stream)?,
            free: fresh.free,
            free_count: fresh.free_count,
            fresh: fresh.fresh,
            capacity: nodes as u32,
            reserved: 0,
        };
        stream.synchronize()?;
        Ok((version, reference))
    }
}

/// The nodes up to the last that was taken, given how many of each stripe were.
pub(super) fn nodes_of(taken: &[u32]) -> u64 {
    let stripes = taken.iter().step_by(STRIPE_WORDS as usize).zip(0_u64..);
    let last = |(&count, stripe): (&u32, u64)| match count {
        0 => 0,
        count => (u64::from(count) - 1) * NODE_STRIPES + stripe + 1,
    };
    stripes.map(last).max().unwrap_or(0)
}

/// No column.
pub(super) const NONE: DevicePtr = DevicePtr::NULL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_taken_from_stripes_in_turn() {
        let mut taken = vec![0_u32; (NODE_STRIPES * STRIPE_WORDS) as usize];
        assert_eq!(nodes_of(&taken), 0);
        taken[0] = 1;
        assert_eq!(nodes_of(&taken), 1);
        taken[3 * STRIPE_WORDS as usize] = 2;
        assert_eq!(nodes_of(&taken), NODE_STRIPES + 4);
    }
}
