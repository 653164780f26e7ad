//! What kernels did to a map becomes its next version.

use std::sync::Arc;

use warpkeep_device::{Device, DevicePtr, Grid, Result, Stream, Workspace};

use super::batch::{Draft, MOST_KEYS};
use super::columns::{Columns, send};
use super::kernels::{Finish, LEAF_THREADS, NODE_STRIPES, OrderedWriterRef, STRIPE_WORDS, THREADS};
use super::key::OrderedWord;
use super::pool::too_large;
use super::tree::{Tree, Writer};
use super::version::{Layout, Version};
use super::writer::{NONE, WriterColumns, nodes_of};
use crate::batch_plan::HOST_PLANS;
use crate::{ContainerError, Sorter};

/// Blocks of kernels that add up numbers: each warp adds its sum once.
const SUMMING_BLOCKS: u64 = 2048;

impl Tree {
    /// Makes a version of what kernels did since the map was opened for them. If there is no memory for it, nothing has changed and the map
    /// stays open. Otherwise `opened` is none afterwards and the map is closed; with an error it is as it was before.
    pub(super) fn finish<K: OrderedWord>(
        &self,
        opened: &mut Option<Arc<Version>>,
        reference: OrderedWriterRef,
        workspace: &mut Workspace<Columns>,
    ) -> Result<(), ContainerError> {
        let Workspace { columns, stream, .. } = workspace;
        self.writing(stream, |writer| {
            let finished = self.try_finish::<K>(writer, opened, reference, columns, stream);
            writer.is_open = opened.is_some();
            finished
        })
    }

    /// As [`finish`](Self::finish), but after an error kernels may still run.
    fn try_finish<K: OrderedWord>(
        &self,
        writer: &mut Writer,
        opened: &mut Option<Arc<Version>>,
        reference: OrderedWriterRef,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let Some(version) = opened.clone() else { return Ok(()) };
        let (device, before) = (&self.device, version.layout.leaf_count);
        let taken: Vec<u32> = columns.writer.taken.take((NODE_STRIPES * STRIPE_WORDS) as usize, stream)?;
        let nodes = nodes_of(&taken);
        if nodes == 0 {
            *opened = None;
            return Ok(());
        }
        let number = version.number + 1;
        let mut params = Finish {
            version: number,
            nodes,
            ..self.reserve_finish(&version, reference, nodes, columns, stream)?
        };
        self.reserve_retired(writer, nodes.min(before), true, stream)?;
        // There are no more leaves than if none had been changed.
        let most_bytes = Layout::new(self.shape, before + nodes).bytes;
        let directory = self.directories.take_with_spare(device, most_bytes)?;
        // From here on nodes become leaves, so that it cannot be done again.
        *opened = None;
        let Counted { leaves, changed, added } = self.settle_nodes(&mut params, columns, stream)?;
        let length = version.length.wrapping_add_signed(added);
        if length > MOST_KEYS {
            self.directories.put_back([directory]);
            return Err(too_large("keys", length, MOST_KEYS));
        }
        let layout = Layout::new(self.shape, before - changed + leaves);
        let claimed = writer.pool.state;
        let (_, state) = writer.pool.claim(claimed, nodes, number, true)?;
        let retired = vec![(params.retired, changed)];
        let mut draft = Draft { layout, directory: None, length, state, retired, unmerged: None };
        match layout.leaf_count {
            0 => self.directories.put_back([directory]),
            _ => draft.directory = Some(directory),
        }
        params.to = layout.directory(draft.at());
        // SAFETY: the lists have room for all nodes of their kinds, and the directory for all leaves.
        unsafe {
            self.write_directory::<K>(&mut params, columns, stream)?;
            if layout.leaf_count > 0 {
                self.merge_neighbours(writer, &mut draft, number, &mut columns.work, stream)?;
            }
        }
        let Draft { layout, directory, length, state, retired, unmerged } = draft;
        let next = Version::new(number, length, layout, directory, self.directories.clone());
        // The writer is no pin of the version that it replaces.
        drop::<Arc<Version>>(version);
        // SAFETY: the lists are as long as the kernels were told, and their leaves are those of the version before.
        unsafe {
            self.commit(writer, next, state, &retired, stream)?;
            self.directories.put_back(unmerged);
            // No version has seen the nodes that become no leaf.
            writer.pool.give_back(params.dead, nodes - leaves, device, stream)?;
        }
        Ok(stream.synchronize()?)
    }

    /// Has all columns for this many nodes. What kernels did is lost if one is missing later.
    fn reserve_finish(
        &self,
        version: &Version,
        reference: OrderedWriterRef,
        nodes: u64,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<Finish> {
        let (device, before) = (&self.device, version.layout.leaf_count);
        let (of_nodes, key) = (nodes as usize, self.shape.key_bytes());
        let Columns { writer: own, work, plan, wide, .. } = columns;
        let params = Finish {
            writer: reference,
            to: Layout::default().directory(NONE),
            version: 0,
            nodes: 0,
            leaves: 0,
            live: own.live.reserve(device, 4 * (of_nodes + 1))?.ptr(),
            lows: own.lows.reserve(device, key * of_nodes)?,
            leaf_lows: own.leaf_lows.reserve(device, key * of_nodes)?,
            leaf_nodes: own.leaf_nodes.reserve(device, 4 * of_nodes)?,
            dead: own.dead.reserve(device, 4 * of_nodes)?,
            sorted: NONE,
            numbers: NONE,
            changed: own.changed.reserve(device, 4 * (before as usize + 1))?.ptr(),
            retired: own.retired.reserve(device, 4 * nodes.min(before) as usize)?,
            pairs: own.pairs.zeros(device, 24, stream)?,
        };
        let few = of_nodes.min(HOST_PLANS);
        for (column, bytes) in [(&mut own.sorted, key * few), (&mut own.numbers, 4 * few)] {
            column.host::<u8>(device, bytes)?;
            column.reserve(device, bytes)?;
        }
        if of_nodes > HOST_PLANS {
            self.reserve_plan(of_nodes, plan, wide)?;
        }
        // Of nodes, of leaves before, and of the leaves that there will be.
        for sums in [&mut work.sums, &mut work.sums_of_changes] {
            Sorter::reserve_scan(device, before + nodes + 1, sums)?;
        }
        Ok(params)
    }

    /// Makes leaves of the nodes that have pairs, finds the leaves that were changed, and waits for it.
    fn settle_nodes(&self, params: &mut Finish, columns: &mut Columns, stream: &Stream) -> Result<Counted> {
        let (nodes, before) = (params.nodes, u64::from(params.writer.map.leaf_count));
        let Columns { writer: own, work, .. } = columns;
        let few = |threads: u64| Grid::covering(threads.min(SUMMING_BLOCKS * u64::from(THREADS)), THREADS);
        // Behind the numbers of pairs: those of leaves that nodes become, and of leaves that were changed.
        let counts = params.pairs.offset(16);
        // SAFETY: no kernel uses the map any more; the columns have an element for each node and for each leaf before, and one more.
        unsafe {
            self.kernels.settle.launch(few(LEAF_THREADS * nodes), params, stream)?;
            self.kernels.find_changed.launch(few(before + 1), params, stream)?;
            self.sorter.enqueue_scan(params.live, nodes + 1, &mut work.sums, stream)?;
            self.sorter.enqueue_scan(params.changed, before + 1, &mut work.sums_of_changes, stream)?;
            self.device.copy_raw(counts, params.live.offset(4 * nodes), 4, stream)?;
            self.device.copy_raw(counts.offset(4), params.changed.offset(4 * before), 4, stream)?;
        }
        let pairs: Vec<u64> = own.pairs.take(3, stream)?;
        let (leaves, changed) = (pairs[2] & u64::from(u32::MAX), pairs[2] >> 32);
        params.leaves = leaves;
        Ok(Counted { leaves, changed, added: pairs[0].wrapping_sub(pairs[1]) as i64 })
    }

    /// Puts the leaves that nodes have become into order, and writes the directory of them and of those that stay.
    ///
    /// # Safety
    /// The columns of `params` and the directory have room for all, and no other code uses them until the stream is synchronised.
    unsafe fn write_directory<K: OrderedWord>(
        &self,
        params: &mut Finish,
        columns: &mut Columns,
        stream: &Stream,
    ) -> Result<()> {
        let Columns { writer: own, work, plan, wide, .. } = columns;
        let (leaves, before) = (params.leaves, u64::from(params.writer.map.leaf_count));
        // SAFETY: the caller's promise.
        unsafe {
            self.kernels.list_nodes.launch(Grid::covering(params.nodes, THREADS), params, stream)?;
            if leaves > 0 {
                (params.sorted, params.numbers) = match leaves as usize {
                    few if few <= HOST_PLANS => own.sort_on_host::<K>(few, &self.device, stream)?,
                    many => {
                        let plan = self.plan(params.leaf_lows, many, false, plan, wide, stream)?.plan;
                        (plan.sorted, plan.numbers)
                    }
                };
                self.kernels.list_leaves.launch(Grid::covering(leaves, THREADS), params, stream)?;
            }
            self.kernels.keep_unchanged.launch(Grid::covering(before + 1, THREADS), params, stream)?;
            if params.to.leaf_count > 0 {
                let count = params.to.leaf_count + 1;
                self.sorter.enqueue_scan(params.to.before, count, &mut work.sums, stream)?;
            }
        }
        Ok(())
    }
}

/// What kernels have made of the map.
struct Counted {
    /// Nodes that become leaves, and leaves of the version before that were changed.
    leaves: u64,
    changed: u64,
    /// How many keys there are more, or fewer.
    added: i64,
}

impl WriterColumns {
    /// Sorts the smallest keys of few leaves on the host: gives where they and their numbers are.
    ///
    /// # Safety
    /// The stream is synchronised before the columns are used again.
    unsafe fn sort_on_host<K: OrderedWord>(
        &mut self,
        count: usize,
        device: &Device,
        stream: &Stream,
    ) -> Result<(DevicePtr, DevicePtr)> {
        let lows: Vec<K> = self.leaf_lows.take(count, stream)?;
        let mut order: Vec<(K, u32)> = lows.into_iter().zip(0..).collect();
        order.sort_unstable();
        // SAFETY: the caller's promise.
        unsafe {
            let sorted = send(&mut self.sorted, order.iter().map(|(low, _)| *low), count, device, stream)?;
            let numbers = send(&mut self.numbers, order.iter().map(|(_, at)| *at), count, device, stream)?;
            Ok((sorted, numbers))
        }
    }
}
