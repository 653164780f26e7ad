//! Samples of a graph in device memory.

use bytemuck::Pod;
use warpkeep_device::{Buffer, DevicePtr, Result, Stream};

use super::device::DeviceGraph;
use super::kernels::Sample;
use super::sample::{Hop, Picked, SampleOptions};
use super::storage::Storage;
use crate::ContainerError;

/// Fan-outs up to this are taken as they are.
const FEW: u32 = 64;
/// Places of one hop: positions of vertices in a hop have 32 bits.
const MOST_PLACES: u64 = u32::MAX as u64;

impl DeviceGraph {
    /// Chooses edges of all vertices of a hop.
    pub(super) fn pick(
        &self,
        hop: &Hop<'_>,
        options: &SampleOptions,
        storage: &Storage,
    ) -> Result<Picked, ContainerError> {
        let (count, device) = (hop.vertices.len(), &self.device);
        let workspace = self.workspaces.take(device)?;
        let stream = &workspace.stream;
        let mut most = hop.most;
        if most > FEW && !options.replaces {
            // No vertex has more, and all edges are a common request.
            most = most.min(self.longest(hop.vertices, storage, stream)?);
        }
        let given = (count as u64).saturating_mul(u64::from(most)).max(count as u64);
        if given > MOST_PLACES {
            return Err(ContainerError::TooLarge { what: "places of one hop", given, most: MOST_PLACES });
        }
        let places = count * most as usize;
        if places == 0 {
            self.workspaces.put_back(workspace);
            return Ok(Picked { counts: vec![0; count], ..Picked::default() });
        }
        let vertices = device.upload(hop.vertices)?;
        let bounds = match &hop.bounds {
            Some((from, until)) => Some((device.upload(from)?, device.upload(until)?)),
            None => None,
        };
        let column = |bytes: usize| device.allocate(bytes * places);
        let column_if = |has: bool, bytes| has.then(|| column(bytes)).transpose();
        let (counts, chosen, keys) = (device.allocate(4 * count)?, column(4)?, column(8)?);
        let targets = column(4)?;
        let (ids, times) = (column_if(self.options.ids, 8)?, column_if(self.options.times, 8)?);
        let at = |buffer: Option<&Buffer>| buffer.map_or(DevicePtr::NULL, Buffer::ptr);
        let params = Sample {
            graph: storage.reference(),
            vertices: vertices.ptr(),
            from: at(bounds.as_ref().map(|(from, _)| from)),
            until: at(bounds.as_ref().map(|(_, until)| until)),
            counts: counts.ptr(),
            places: chosen.ptr(),
            keys: keys.ptr(),
            targets: targets.ptr(),
            ids: at(ids.as_ref()),
            times: at(times.as_ref()),
            count: count as u64,
            seed: options.seed,
            hop: hop.number,
            most,
            pick: options.pick as u32,
            replaces: u32::from(options.replaces),
            reserved: 0,
        };
        // SAFETY: there is an element for each vertex, and one for each place; the storage is borrowed until the stream is synchronised, by the reads below.
        unsafe { self.launch(&self.kernels.sample, count as u64, &params, stream)? };
        let mut picked = Picked { counts: vec![0; count], ..Picked::default() };
        counts.read_on(0, &mut picked.counts, stream)?;
        let filled = Filled { counts: &picked.counts, most: most as usize, stream };
        picked.targets = filled.read(Some(&targets))?;
        picked.ids = filled.read(ids.as_ref())?;
        picked.times = filled.read(times.as_ref())?;
        self.workspaces.put_back(workspace);
        Ok(picked)
    }
}

/// Which places of a hop are filled: the first ones of each vertex.
struct Filled<'a> {
    counts: &'a [u32],
    most: usize,
    stream: &'a Stream,
}

impl Filled<'_> {
    /// The filled places of a column; none if there is no column.
    fn read<T: Pod>(&self, column: Option<&Buffer>) -> Result<Vec<T>> {
        let Some(column) = column else { return Ok(Vec::new()) };
        let mut places = vec![T::zeroed(); self.counts.len() * self.most];
        column.read_on(0, &mut places, self.stream)?;
        let of_vertices = self.counts.iter().zip(places.chunks_exact(self.most));
        Ok(of_vertices.flat_map(|(count, places)| &places[..*count as usize]).copied().collect())
    }
}
