//! Order among the things a device does.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::RawStream;
use crate::device::{Core, Device};
use crate::error::{DeviceError, Result};
use crate::event::Event;

/// A queue of work: copies and kernels in one stream run in order, those in different streams beside each other. On the
/// simulator everything is done at once.
#[derive(Debug)]
pub struct Stream {
    pub(crate) core: Arc<Core>,
    pub(crate) raw: RawStream,
    /// Whether it is destroyed with this value, or belongs to the caller.
    owned: bool,
}

impl Stream {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        let raw = core.backend.new_stream()?;
        Ok(Self { core, raw, owned: true })
    }

    /// A stream that the caller made with the driver, and destroys: `raw` is a `CUstream`. Null is the default stream.
    ///
    /// # Safety
    /// `raw` must be a live stream of the device's primary context, and outlive this value.
    pub unsafe fn from_raw(device: &Device, raw: *mut c_void) -> Result<Self> {
        if device.simulator().is_some() {
            return Err(DeviceError::Call {
                call: "Stream::from_raw",
                code: "not supported".to_owned(),
                text: "the simulator has no streams of others".to_owned(),
                advice: "use Device::stream",
            });
        }
        Ok(Self { core: device.core.clone(), raw: RawStream(raw as u64), owned: false })
    }

    /// The driver's `CUstream`, for callers who use other libraries beside this one. Meaningless on the simulator.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.0 as *mut c_void
    }

    /// An event behind all that is in the stream now, for other streams to [wait for](Self::wait_for).
    pub fn record(&self) -> Result<Event> {
        let event = Event::new(Arc::clone(&self.core))?;
        event.record(self)?;
        Ok(event)
    }

    /// Waits until all that is in the stream is done. This is where a kernel's failure shows at the latest.
    pub fn synchronize(&self) -> Result<()> {
        self.core.backend.synchronize(self.raw)
    }

    /// Whether all that is in the stream is done. Does not wait.
    pub fn is_done(&self) -> Result<bool> {
        self.core.backend.is_done(self.raw)
    }

    /// As [`synchronize`](Self::synchronize), for at most this long; says whether all was done by then. A kernel cannot be
    /// stopped: if it never ends, only the end of the process frees the device.
    pub fn synchronize_within(&self, limit: Duration) -> Result<bool> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(1);
        while !self.is_done()? {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            // Short waits end soon after the work, and long ones cost no core.
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Makes what comes next in this stream wait for an event of another.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        self.core.same(&event.core, "an event")?;
        self.core.backend.wait(self.raw, event.raw)
    }

    pub(crate) fn belongs_to(&self, core: &Arc<Core>) -> Result<()> {
        core.same(&self.core, "a stream")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            self.core.backend.destroy_stream(self.raw);
        }
    }
}
