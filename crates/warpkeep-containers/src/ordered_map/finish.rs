//! What kernels did to a map becomes its next version.

use std::sync::Arc;

use warpkeep_device::{Grid, Result, Workspace};

use super::batch::{Draft, MOST_KEYS};
use super::columns::Columns;
use super::kernels::{Finish, LEAF_THREADS, NODE_STRIPES, OrderedWriterRef, STRIPE_WORDS, THREADS};
use super::key::OrderedWord;
use super::pool::too_large;
use super::tree::Tree;
use super::version::{Layout, Version};
use super::writer::{NONE, nodes_of};
use crate::ContainerError;
use crate::batch_plan::HOST_PLANS;

/// Blocks of kernels that add up numbers: each warp adds its sum once.
const SUMMING_BLOCKS: u64 = 2048;

impl Tree {
    /// Makes a version of what kernels did since the map was opened for them. With an error the map stays as it is.
    pub(super) fn finish<K: OrderedWord>(
        &self,
        version: Arc<Version>,
        reference: OrderedWriterRef,
        workspace: &mut Workspace<Columns>,
    ) -> Result<(), ContainerError> {
        let mut writer = self.write();
        let (device, before) = (&self.device, version.layout.leaf_count);
        let Columns { writer: columns, work, plan, wide, .. } = &mut workspace.columns;
        let stream = &workspace.stream;
        let taken: Vec<u32> = columns.taken.take((NODE_STRIPES * STRIPE_WORDS) as usize, stream)?;
        let nodes = nodes_of(&taken);
        if nodes == 0 {
            return Ok(());
        }
        let (of_nodes, key, number) = (nodes as usize, self.shape.key_bytes(), version.number + 1);
        let live = columns.live.reserve(device, 4 * (of_nodes + 1))?;
        let changed = columns.changed.reserve(device, 4 * (before as usize + 1))?;
        let mut params = Finish {
            writer: reference,
            to: Layout::default().directory(NONE),
            version: number,
            nodes,
            leaves: 0,
            live: live.ptr(),
            lows: columns.lows.reserve(device, key * of_nodes)?,
            leaf_lows: NONE,
            leaf_nodes: NONE,
            dead: NONE,
            sorted: NONE,
            numbers: NONE,
            changed: changed.ptr(),
            retired: NONE,
            pairs: columns.pairs.zeros(device, 24, stream)?,
        };
        let few = |threads: u64| Grid::covering(threads.min(SUMMING_BLOCKS * u64::from(THREADS)), THREADS);
        // Behind the numbers of pairs: those of leaves that nodes become, and of leaves that were changed.
        let counts = params.pairs.offset(16);
        // SAFETY: no kernel uses the map any more; the columns have an element for each node and for each leaf before, and one more.
        unsafe {
            self.kernels.settle.launch(few(LEAF_THREADS * nodes), &params, stream)?;
            self.kernels.find_changed.launch(few(before + 1), &params, stream)?;
            self.sorter.enqueue_scan(live.ptr(), nodes + 1, &mut work.sums, stream)?;
            self.sorter.enqueue_scan(changed.ptr(), before + 1, &mut work.sums_of_changes, stream)?;
            device.copy_raw(counts, live.ptr().offset(4 * nodes), 4, stream)?;
            device.copy_raw(counts.offset(4), changed.ptr().offset(4 * before), 4, stream)?;
        }
        let pairs: Vec<u64> = columns.pairs.take(3, stream)?;
        let (leaves, of_changed) = (pairs[2] & u64::from(u32::MAX), pairs[2] >> 32);
        let length = version.length - pairs[1] + pairs[0];
        if length > MOST_KEYS {
            return Err(too_large("keys", length, MOST_KEYS));
        }

        params.leaves = leaves;
        params.leaf_lows = columns.leaf_lows.reserve(device, key * leaves as usize)?;
        params.leaf_nodes = columns.leaf_nodes.reserve(device, 4 * leaves as usize)?;
        params.dead = columns.dead.reserve(device, 4 * (nodes - leaves) as usize)?;
        params.retired = columns.retired.reserve(device, 4 * of_changed as usize)?;
        let layout = Layout::new(self.shape, before - of_changed + leaves);
        let claimed = writer.pool.state;
        let (_, state) = writer.pool.claim(claimed, nodes, number, true)?;
        let retired = vec![(params.retired, of_changed)];
        let mut draft = Draft { layout, directory: None, length, state, retired, unmerged: None };
        if layout.leaf_count > 0 {
            draft.directory = Some(self.directories.take(device, layout.bytes)?);
        }
        params.to = layout.directory(draft.at());
        // SAFETY: the lists have room for all nodes of their kinds, and the directory for all leaves.
        unsafe {
            self.kernels.list_nodes.launch(Grid::covering(nodes, THREADS), &params, stream)?;
            if leaves > 0 {
                let plan = if leaves as usize <= HOST_PLANS {
                    let lows: Vec<K> = columns.leaf_lows.take(leaves as usize, stream)?;
                    plan.plan_on_host(lows.into_iter(), device, stream)?
                } else {
                    self.plan(params.leaf_lows, leaves as usize, false, plan, wide, stream)?.plan
                };
                (params.sorted, params.numbers) = (plan.sorted, plan.numbers);
                self.kernels.list_leaves.launch(Grid::covering(leaves, THREADS), &params, stream)?;
            }
            if layout.leaf_count > 0 || of_changed > 0 {
                self.kernels.keep_unchanged.launch(Grid::covering(before + 1, THREADS), &params, stream)?;
            }
            if layout.leaf_count > 0 {
                self.sorter.enqueue_scan(params.to.before, layout.leaf_count + 1, &mut work.sums, stream)?;
                self.merge_neighbours(&mut writer, &mut draft, number, work, stream)?;
            }
        }
        let Draft { layout, directory, length, state, retired, unmerged } = draft;
        let next = Version::new(number, length, layout, directory, self.directories.clone());
        // The writer is no pin of the version that it replaces.
        drop::<Arc<Version>>(version);
        // SAFETY: the lists are as long as the kernels were told, and their leaves are those of the version before.
        unsafe {
            self.commit(&mut writer, next, state, &retired, stream)?;
            self.directories.put_back(unmerged);
            // No version has seen the nodes that become no leaf.
            writer.pool.give_back(params.dead, nodes - leaves, device, stream)?;
        }
        Ok(stream.synchronize()?)
    }
}
