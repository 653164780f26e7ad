//! Batches in device memory.

use warpkeep_containers::{ContainerError, DeviceEdgeOps, EdgeOp, EdgeOpKinds, EdgeStatus, Graph};
use warpkeep_device::Device;

/// Runs a batch through device memory, where the device plans it.
pub(crate) fn apply_on(device: &Device, graph: &Graph, ops: &[EdgeOp]) -> Vec<EdgeStatus> {
    try_apply_on(device, graph, ops).unwrap()
}

pub(crate) fn try_apply_on(
    device: &Device,
    graph: &Graph,
    ops: &[EdgeOp],
) -> Result<Vec<EdgeStatus>, ContainerError> {
    let stream = device.stream().unwrap();
    let column = |of: fn(&EdgeOp) -> u32| device.upload(&ops.iter().map(of).collect::<Vec<u32>>()).unwrap();
    let wide = |of: fn(&EdgeOp) -> u64| device.upload(&ops.iter().map(of).collect::<Vec<u64>>()).unwrap();
    let codes: Vec<u8> = ops.iter().map(|op| op.kind as u8).collect();
    let codes = device.upload(&codes).unwrap();
    let (sources, targets) = (column(|op| op.edge.source), column(|op| op.edge.target));
    let weights = column(|op| op.edge.weight.to_bits());
    let (ids, times) = (wide(|op| op.edge.id), wide(|op| op.edge.time as u64));
    let mut statuses = device.allocate(ops.len()).unwrap();
    let batch = DeviceEdgeOps {
        kinds: EdgeOpKinds::Each(&codes),
        sources: &sources,
        targets: &targets,
        weights: Some(&weights),
        ids: Some(&ids),
        times: Some(&times),
        count: ops.len(),
    };
    graph.apply_on(batch, &mut statuses, &stream)?;
    Ok(bytemuck::checked::cast_slice(&statuses.to_vec::<u8>().unwrap()).to_vec())
}
