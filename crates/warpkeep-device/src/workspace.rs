//! What one batch needs on a device, kept for the next one.

use std::sync::{Mutex, PoisonError};

use bytemuck::NoUninit;

use crate::device::Device;
use crate::error::Result;
use crate::event::Event;
use crate::kernel_set::TypedKernel;
use crate::sim::Grid;
use crate::stream::Stream;

/// A stream and the columns of the batch in it. `C` is a struct of [`StagedBuffer`](crate::StagedBuffer)s, one for each column that the
/// container's batches have.
#[derive(Debug)]
pub struct Workspace<C> {
    /// Work of the batch, in order.
    pub stream: Stream,
    /// The columns.
    pub columns: C,
    begun: Event,
}

impl<C: Default> Workspace<C> {
    /// A workspace with empty columns.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { stream: device.stream()?, columns: C::default(), begun: device.event()? })
    }
}

impl<C> Workspace<C> {
    /// Makes what comes next in this stream wait for what is in another one now. If that is done already, nothing is enqueued: asking is
    /// cheaper than an event.
    pub fn begin_after(&self, stream: &Stream) -> Result<()> {
        if stream.is_done()? {
            return Ok(());
        }
        self.begun.record(stream)?;
        self.stream.wait_for(&self.begun)
    }

    /// Launches a kernel with at least one thread for each of `count` items, in blocks of `threads`.
    ///
    /// # Safety
    /// As [`TypedKernel::launch`].
    pub unsafe fn launch<P: NoUninit>(
        &self,
        kernel: &TypedKernel<P>,
        count: u64,
        threads: u32,
        params: &P,
    ) -> Result<()> {
        // SAFETY: as this function's contract says.
        unsafe { kernel.launch(Grid::covering(count.max(1), threads), params, &self.stream) }
    }
}

/// Workspaces that no batch uses at the moment. There are as many as batches ran at the same time, at most.
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice, StagedBuffer, WorkspacePool};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// #[derive(Default)]
/// struct Columns {
///     keys: StagedBuffer,
/// }
///
/// let pool = WorkspacePool::<Columns>::default();
/// let mut workspace = pool.take(&device)?;
/// let at = workspace.columns.keys.reserve(&device, 1 << 20)?;
/// workspace.stream.synchronize()?;
/// pool.put_back(workspace);
/// // The next batch has the memory of this one.
/// assert_eq!(pool.take(&device)?.columns.keys.ptr(), at);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct WorkspacePool<C> {
    idle: Mutex<Vec<Workspace<C>>>,
}

impl<C> Default for WorkspacePool<C> {
    fn default() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }
}

impl<C> WorkspacePool<C> {
    /// A workspace: the one that was put back last, whose memory is warm, or a new one.
    pub fn take(&self, device: &Device) -> Result<Workspace<C>>
    where
        C: Default,
    {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Workspace::new(device), Ok)
    }

    /// Keeps a workspace for another batch. Nothing uses its columns any more: its stream has been synchronised.
    pub fn put_back(&self, workspace: Workspace<C>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }

    /// How many workspaces are idle.
    pub fn idle(&self) -> usize {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Frees the idle workspaces with their memory.
    pub fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use crate::{Mode, StagedBuffer};

    #[test]
    fn workspaces_are_kept_last_in_first_out_and_freed_when_asked() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let pool = WorkspacePool::<StagedBuffer>::default();
        let (mut one, mut two) = (pool.take(&device).unwrap(), pool.take(&device).unwrap());
        let first = one.columns.reserve(&device, 100).unwrap();
        let second = two.columns.reserve(&device, 100).unwrap();
        assert_ne!(first, second);
        pool.put_back(one);
        pool.put_back(two);
        assert_eq!(pool.idle(), 2);
        assert_eq!(pool.take(&device).unwrap().columns.ptr(), second);
        assert_eq!((pool.idle(), device.allocated()), (1, 128), "what is not put back is freed");
        pool.clear();
        assert_eq!((pool.idle(), device.allocated()), (0, 0));
    }

    #[test]
    fn a_stream_that_is_done_is_not_waited_for() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let workspace = Workspace::<()>::new(&device).unwrap();
        workspace.begin_after(&device.stream().unwrap()).unwrap();
        let other = Device::simulated(Mode::fast()).unwrap();
        // The simulator is always done, so the streams of two devices do not meet.
        workspace.begin_after(&other.stream().unwrap()).unwrap();
        workspace.stream.synchronize().unwrap();
    }
}
