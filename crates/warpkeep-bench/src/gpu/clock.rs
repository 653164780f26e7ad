//! The time that work in a stream takes, by events of the device.

use warpkeep_device::{Device, Event, Stream};

use crate::BenchError;

/// Less than any event can tell, so that no rate is infinite.
const LEAST_SECONDS: f64 = 1e-9;

/// A stream, and two events around what is done in it.
pub(crate) struct Clock {
    stream: Stream,
    begin: Event,
    end: Event,
}

impl Clock {
    pub(crate) fn new(device: &Device) -> Result<Clock, BenchError> {
        Ok(Clock { stream: device.stream()?, begin: device.event()?, end: device.event()? })
    }

    /// The stream, for what is not timed.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The seconds between the event before the work and the event after it.
    pub(crate) fn time<E>(&self, work: impl FnOnce(&Stream) -> Result<(), E>) -> Result<f64, BenchError>
    where
        BenchError: From<E>,
    {
        // What was in the stream before is not part of the work.
        self.stream.synchronize()?;
        self.begin.record(&self.stream)?;
        work(&self.stream)?;
        self.end.record(&self.stream)?;
        self.stream.synchronize()?;
        Ok(self.end.elapsed_since(&self.begin)?.as_secs_f64().max(LEAST_SECONDS))
    }
}
