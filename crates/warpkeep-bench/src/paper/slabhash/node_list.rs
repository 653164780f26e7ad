//! The paper's baseline for mixed batches: a set of lists with one node a key.
#![allow(unsafe_code, reason = "kernels are launched")]

use warpkeep_device::{Buffer, Device, KernelSet as _};

use crate::BenchError;
use crate::gpu::Clock;
use crate::gpu::slab::{Batch, Columns, Table};
use crate::kernels::{NodeListKernels, NodeListParams};

/// It, as a variant of a case.
pub(super) const NODES: &str = "lists, one node a key";
/// Numbers of nodes have 31 bits.
const MOST_NODES: u64 = 1 << 31;

/// A hash set whose nodes come from an array, one for each request.
pub(super) struct NodeList {
    device: Device,
    kernels: NodeListKernels,
    nodes: Buffer,
    buckets: u64,
    used: u64,
    seed: u64,
}

impl NodeList {
    /// An empty set with this many buckets, for batches with this many requests in all.
    pub(super) fn new(
        device: &Device,
        buckets: u64,
        requests: u64,
        seed: u64,
    ) -> Result<NodeList, BenchError> {
        let buckets = buckets.max(1);
        if buckets + requests > MOST_NODES {
            return Err(BenchError::Invalid(
                "lists have 2^31 nodes at the most; give fewer --items".to_owned(),
            ));
        }
        let nodes = device.allocate_zeroed(8 * (buckets + requests) as usize)?;
        let kernels = NodeListKernels::load(device)?;
        Ok(NodeList { device: device.clone(), kernels, nodes, buckets, used: 0, seed })
    }

    /// All keys, for tests.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Result<Vec<u32>, BenchError> {
        let nodes = self.nodes.to_vec::<u64>()?;
        let mut keys = Vec::new();
        for bucket in 0..self.buckets as usize {
            let mut link = nodes[bucket] >> 32;
            while link >> 1 != 0 {
                let node = nodes[(link >> 1) as usize];
                link = node >> 32;
                if link & 1 == 0 {
                    keys.push(node as u32);
                }
            }
        }
        Ok(keys)
    }
}

impl Table for NodeList {
    fn name(&self) -> &str {
        NODES
    }

    fn clear(&mut self) -> Result<(), BenchError> {
        self.used = 0;
        Ok(self.nodes.fill(0)?)
    }

    fn answer(&mut self, batch: &Batch, clock: &Clock) -> Result<(f64, Vec<u64>), BenchError> {
        let columns = Columns::new(&self.device, batch)?;
        let requests = columns.requests();
        let fresh = self.buckets + self.used;
        if 8 * (fresh + requests.count) > self.nodes.len() as u64 {
            return Err(BenchError::Wrong(format!("{NODES}: {} requests have no node", requests.count)));
        }
        let params = NodeListParams {
            nodes: self.nodes.ptr(),
            buckets: self.buckets,
            fresh,
            seed: self.seed,
            requests,
        };
        // SAFETY: each request has a node, as just checked; the columns and the nodes stay until the clock has waited.
        let seconds =
            clock.time(|stream| unsafe { self.kernels.apply.launch(columns.grid(), &params, stream) })?;
        self.used += requests.count;
        Ok((seconds, columns.answers()?))
    }

    fn utilisation(&self) -> Result<Option<f64>, BenchError> {
        Ok(None)
    }

    fn has_values(&self) -> bool {
        false
    }
}
