//! Points in time, as a device sees them.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::RawEvent;
use crate::device::Core;
use crate::error::Result;
use crate::stream::Stream;

/// A point in a stream: when the device came to it, and something for other streams to wait for.
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// let (stream, start, end) = (device.stream()?, device.event()?, device.event()?);
/// start.record(&stream)?;
/// // ... copies and launches ...
/// end.record(&stream)?;
/// println!("took {:?}", end.elapsed_since(&start)?);
/// # Ok::<(), warpkeep_device::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Event {
    pub(crate) core: Arc<Core>,
    pub(crate) raw: RawEvent,
}

impl Event {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        let raw = core.backend.new_event()?;
        Ok(Self { core, raw })
    }

    /// Puts the event into a stream. If it was recorded before, that is forgotten.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        stream.belongs_to(&self.core)?;
        self.core.backend.record(self.raw, stream.raw)
    }

    /// Returns when the device has come to it; at once if it was never recorded.
    pub fn synchronize(&self) -> Result<()> {
        self.core.backend.wait_here(self.raw)
    }

    /// Whether the device has come to it; true if it was never recorded. Does not wait.
    pub fn is_done(&self) -> Result<bool> {
        self.core.backend.is_over(self.raw)
    }

    /// How long the device took from the earlier event to this one. Waits for both.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Duration> {
        self.core.same(&earlier.core, "an event")?;
        self.core.backend.elapsed(earlier.raw, self.raw)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.core.backend.destroy_event(self.raw);
    }
}
