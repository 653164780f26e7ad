//! A map that is open for kernels.

use std::marker::PhantomData;
use std::sync::Arc;

use warpkeep_device::{DevicePtr, Result, StagedBuffer, Workspace};

use super::columns::Columns;
use super::kernels::{NODE_STRIPES, OrderedWriterRef, STRIPE_WORDS};
use super::key::{OrderedKey, OrderedWord};
use super::pool::too_large;
use super::tree::Tree;
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
    /// If there is no memory for the new directory, or there are too many keys. The map is as it was before the writer.
    pub fn finish(mut self) -> Result<(), ContainerError> {
        let (Some(version), Some(workspace)) = (self.version.take(), &mut self.workspace) else {
            return Ok(());
        };
        self.tree.finish::<K>(version, self.reference, workspace)
    }
}

impl<K, V> Drop for OrderedWriter<K, V> {
    fn drop(&mut self) {
        self.version = None;
        if let Some(workspace) = self.workspace.take() {
            self.tree.workspaces.put_back(workspace);
        }
        self.tree.write().is_open = false;
    }
}

impl Tree {
    fn open(
        &self,
        operations: u64,
    ) -> Result<(Arc<Version>, Workspace<Columns>, OrderedWriterRef), ContainerError> {
        let mut writer = self.write();
        if writer.is_open {
            return Err(ContainerError::BeingWritten);
        }
        let most = u64::from(u32::MAX);
        let mut nodes = operations.saturating_add(operations / 2).saturating_add(LEAST_NODES);
        if operations > most {
            return Err(too_large("operations of a writer", operations, most));
        }
        nodes = nodes.min(most);
        let mut workspace = self.workspaces.take(&self.device)?;
        let (columns, stream) = (&mut workspace.columns, &workspace.stream);
        self.collect(&mut writer, &mut columns.sweep, stream)?;
        let version = self.current();
        let (fresh, _) = loop {
            let unclaimed = writer.pool.state;
            match writer.pool.claim(unclaimed, nodes, version.number + 1, true) {
                Err(error) if nodes > 1 && error.is_no_room() => nodes /= 2,
                claimed => break claimed?,
            }
        };
        let heads = 4 * version.layout.leaf_count.max(1) as usize;
        let reference = OrderedWriterRef {
            map: self.reference(&version),
            heads: columns.writer.heads.zeros(&self.device, heads, stream)?,
            taken: columns.writer.taken.zeros(
                &self.device,
                4 * (NODE_STRIPES * STRIPE_WORDS) as usize,
                stream,
            )?,
            free: fresh.free,
            free_count: fresh.free_count,
            fresh: fresh.fresh,
            capacity: nodes as u32,
            reserved: 0,
        };
        stream.synchronize()?;
        writer.is_open = true;
        Ok((version, workspace, reference))
    }
}

/// Whether a call failed because there is no memory, or no more than was reserved.
trait NoRoom {
    fn is_no_room(&self) -> bool;
}

impl NoRoom for warpkeep_device::DeviceError {
    fn is_no_room(&self) -> bool {
        self.is_out_of_memory() || matches!(self, Self::OutOfAddresses { .. })
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
