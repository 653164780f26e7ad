//! Questions and answers that lie in device memory.

use warpkeep_device::{Buffer, DevicePtr, Stream};

use super::Graph;
use super::kernels::{Gather, Lookup};
use super::reading::Reading;
use crate::ContainerError;
use crate::batch_columns::own_column;

impl Graph {
    /// As [`edges_exist`](Self::edges_exist), of edges in device memory and after what is in the stream, and waits for it: `sources` and `targets` have four bytes for each, and
    /// `found` a byte, which becomes 1 or 0.
    ///
    /// # Errors
    /// If a buffer is too short or the graph is on the CPU.
    pub fn edges_exist_on(
        &self,
        sources: &Buffer,
        targets: &Buffer,
        count: usize,
        found: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().edges_exist_on(sources, targets, count, found, stream)
    }

    /// As [`degrees`](Self::degrees), of vertices in device memory and after what is in the stream, and waits for it: four bytes for each vertex and each answer.
    ///
    /// # Errors
    /// If a buffer is too short or the graph is on the CPU.
    pub fn degrees_on(
        &self,
        vertices: &Buffer,
        count: usize,
        degrees: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        self.reading().degrees_on(vertices, count, degrees, stream)
    }
}

impl Reading<'_> {
    pub(super) fn edges_exist_on(
        &self,
        sources: &Buffer,
        targets: &Buffer,
        count: usize,
        found: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (graph, view) = self.on_device("edges_exist_on")?;
        let params = Lookup {
            graph: view.graph,
            sources: own_column(Some(sources), 4, count, "sources", &graph.device)?,
            targets: own_column(Some(targets), 4, count, "targets", &graph.device)?,
            found: own_column(Some(&*found), 1, count, "answers", &graph.device)?,
            weights: DevicePtr::NULL,
            ids: DevicePtr::NULL,
            times: DevicePtr::NULL,
            count: count as u64,
        };
        // SAFETY: the lengths were checked, and the buffers are borrowed, the one that is written exclusively; the state is there until the stream is synchronised.
        unsafe { graph.launch(&graph.kernels.exists, count as u64, &params, stream)? };
        Ok(stream.synchronize()?)
    }

    pub(super) fn degrees_on(
        &self,
        vertices: &Buffer,
        count: usize,
        degrees: &mut Buffer,
        stream: &Stream,
    ) -> Result<(), ContainerError> {
        let (graph, view) = self.on_device("degrees_on")?;
        let null = DevicePtr::NULL;
        let params = Gather {
            graph: view.graph,
            listed: own_column(Some(vertices), 4, count, "vertices", &graph.device)?,
            count: count as u64,
            begins: own_column(Some(&*degrees), 4, count, "degrees", &graph.device)?,
            total: null,
            first: 0,
            edges: 0,
            targets: null,
            weights: null,
            ids: null,
            times: null,
        };
        // SAFETY: as in `edges_exist_on`.
        unsafe { graph.launch(&graph.kernels.degrees, count as u64, &params, stream)? };
        Ok(stream.synchronize()?)
    }
}
