//! Samples of a graph on a device, from seeds that lie there to a sample that stays there.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use warpkeep::Device;
use warpkeep::rows::{Buffer, Stream};
use warpkeep_containers::{ContainerError, DeviceSample, DeviceSeeds, SampleOptions};

use crate::array::Array;
use crate::container::Home;
use crate::device_columns::{DeviceColumn, answer_of};
use crate::dtype::Dtype;
use crate::errors::{OrRaise, exception};
use crate::graph_answers::GraphSample;
use crate::library::Library;

const U32: Dtype = Dtype { kind: b'u', size: 4 };
const I32: Dtype = Dtype { kind: b'i', size: 4 };

/// Memory of samples, kept for the next one.
#[derive(Default)]
pub(crate) struct Room(Mutex<Option<DeviceSample>>);

/// The columns of a sample, each in memory of its own.
struct Columns {
    nodes: Buffer,
    seeds: Buffer,
    row: Buffer,
    col: Buffer,
    batch: Option<Buffer>,
    ids: Option<Buffer>,
    times: Option<Buffer>,
    nodes_per_hop: Vec<u64>,
    edges_per_hop: Vec<u64>,
}

impl Room {
    /// A sample of seeds in device memory, and of their times.
    pub(crate) fn sample<'py>(
        &self,
        home: &Home,
        graph: &warpkeep_containers::Graph,
        device: &Device,
        seeds: &Bound<'py, PyAny>,
        times: Option<&Bound<'py, PyAny>>,
        options: &SampleOptions,
    ) -> PyResult<GraphSample> {
        let py = seeds.py();
        let narrow = narrowed(seeds)?;
        let column = DeviceColumn::of(&narrow, "seeds", &[U32, I32], device, None)?;
        let (count, stream) = (column.array.count(), column.stream(py, device)?);
        let times = times
            .map(|times| DeviceColumn::of(times, "times", &[Dtype::I64], device, column.array.stream))
            .transpose()?;
        if let Some(times) = &times
            && times.array.count() != count
        {
            let given = times.array.count();
            let message = format!("times: {given} were given and {count} are needed; give one for each");
            return Err(exception(py, "SpecError", &message));
        }
        let (vertices, times) = (&*column.buffer, times.as_ref().map(|times| &*times.buffer));
        let seeds = DeviceSeeds { vertices, times, count };
        let made = home.detach(py, || self.columns(graph, device, seeds, options, &stream)).or_raise(py)?;

        let wide = |buffer: Buffer| -> PyResult<Py<PyAny>> {
            let count = buffer.len() / 4;
            let signed = column.array.library == Library::Torch;
            let numbers = answer_of(&column.array, buffer, if signed { I32 } else { U32 }, count)?;
            widened(column.array.library, numbers).map(Bound::unbind)
        };
        let data = |buffer: Buffer| -> PyResult<Py<PyAny>> {
            let count = buffer.len() / 8;
            Ok(answer_of(&column.array, buffer, Dtype::I64, count)?.unbind())
        };
        Ok(GraphSample {
            nodes: wide(made.nodes)?,
            seeds: wide(made.seeds)?,
            row: wide(made.row)?,
            col: wide(made.col)?,
            batch: made.batch.map(wide).transpose()?,
            ids: made.ids.map(data).transpose()?,
            times: made.times.map(data).transpose()?,
            nodes_per_hop: made.nodes_per_hop,
            edges_per_hop: made.edges_per_hop,
        })
    }

    fn columns(
        &self,
        graph: &warpkeep_containers::Graph,
        device: &Device,
        seeds: DeviceSeeds<'_>,
        options: &SampleOptions,
        stream: &Stream,
    ) -> Result<Columns, ContainerError> {
        // Samples at the same time have memory of their own; one of them is kept.
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sample = kept.map_or_else(|| DeviceSample::new(device), Ok)?;
        graph.sample_on(seeds, options, &mut sample, stream)?;
        let copy = |from: &Buffer, bytes: usize| -> Result<Buffer, ContainerError> {
            let to = device.allocate(bytes)?;
            to.copy_from_on(0, from, 0, bytes, stream)?;
            Ok(to)
        };
        let (nodes, edges) = (sample.vertex_count(), sample.edge_count());
        let columns = Columns {
            nodes: copy(sample.vertices(), 4 * nodes)?,
            seeds: copy(sample.seeds(), 4 * seeds.count)?,
            row: copy(sample.rows(), 4 * edges)?,
            col: copy(sample.cols(), 4 * edges)?,
            batch: sample.batch().map(|batch| copy(batch, 4 * nodes)).transpose()?,
            ids: sample.ids().map(|ids| copy(ids, 8 * edges)).transpose()?,
            times: sample.times().map(|times| copy(times, 8 * edges)).transpose()?,
            nodes_per_hop: sample.vertices_per_hop().to_vec(),
            edges_per_hop: sample.edges_per_hop().to_vec(),
        };
        // The next sample, in whichever stream, writes to the memory that is kept.
        stream.synchronize()?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sample);
        Ok(columns)
    }
}

/// Node numbers of 32 bits: of PyTorch's, which have 64, after a look at their range.
fn narrowed<'py>(seeds: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match Library::of(seeds)? {
        Library::Torch => seeds.py().import("warpkeep._tensors")?.call_method1("narrowed", (seeds,)),
        _ => {
            let array = Array::of(seeds, "seeds", None)?;
            match (array.library, array.dtype) {
                (Library::Own, U32 | I32) => Ok(seeds.clone()),
                (Library::Own, other) => {
                    Err(PyTypeError::new_err(format!("seeds: a DeviceArray of {other}; give one of uint32")))
                }
                _ => Err(PyValueError::new_err(
                    "seeds: in device memory, tensors of PyTorch and arrays of Warpkeep are taken; give torch.from_dlpack(seeds)",
                )),
            }
        }
    }
}

/// Node numbers as libraries for graphs want them, if the array's library has operators.
fn widened(library: Library, numbers: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    match library {
        Library::Torch => numbers.py().import("warpkeep._tensors")?.call_method1("widened", (numbers,)),
        _ => Ok(numbers),
    }
}
