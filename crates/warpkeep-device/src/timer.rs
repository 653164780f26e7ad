//! Where the time of a batch goes, step by step.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::device::Device;
use crate::error::DeviceError;
use crate::event::Event;
use crate::stream::Stream;

/// How long a step of a batch took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Its name: a kernel, or something that the host did.
    pub step: &'static str,
    /// Whether the device did it, measured by the device's clock. Host and device work at the same time, so the times of both do not add up.
    pub on_device: bool,
    /// How long it took; the sum, if the batch has the step more than once.
    pub took: Duration,
}

/// Measures the steps of batches while it is switched on. Switched off, which it is at first, it costs a load of a flag for each batch.
///
/// ```
/// # use warpkeep_device::{Device, DeviceChoice, DeviceError, StepTimer};
/// # if warpkeep_device::devices()[1].unavailable.is_some() { return Ok(()); }
/// # let device = Device::open(DeviceChoice::Sim)?;
/// # let (buffer, stream) = (device.allocate(64)?, device.stream()?);
/// let timer = StepTimer::default();
/// timer.switch(true);
/// let mut batch = timer.begin();
/// batch.host("prepare");
/// batch.device("fill", &device, &stream, || buffer.fill_on(0, 64, 0, &stream))?;
/// stream.synchronize()?;
/// batch.finish()?;
/// let steps: Vec<&str> = timer.take()[0].iter().map(|step| step.step).collect();
/// assert_eq!(steps, ["fill", "first to last", "prepare"]);
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Debug, Default)]
pub struct StepTimer {
    on: AtomicBool,
    batches: Mutex<Vec<Vec<StepTime>>>,
}

impl StepTimer {
    /// Switches it on or off, for batches that begin later.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// The steps of all batches that finished since the last call.
    pub fn take(&self) -> Vec<Vec<StepTime>> {
        std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a batch, measured if the timer is on.
    pub fn begin(&self) -> TimedBatch<'_> {
        let steps = self.on.load(Ordering::Relaxed).then(|| Steps {
            last: Instant::now(),
            host: Vec::new(),
            device: Vec::new(),
        });
        TimedBatch { timer: self, steps }
    }

    /// Begins a batch that is not measured.
    pub fn begin_untimed(&self) -> TimedBatch<'_> {
        TimedBatch { timer: self, steps: None }
    }
}

/// A batch whose steps are measured, or not. Made by [`StepTimer::begin`].
#[derive(Debug)]
pub struct TimedBatch<'t> {
    timer: &'t StepTimer,
    steps: Option<Steps>,
}

#[derive(Debug)]
struct Steps {
    last: Instant,
    host: Vec<StepTime>,
    device: Vec<(&'static str, Event, Event)>,
}

impl TimedBatch<'_> {
    /// Names what the host has done since the batch began or since the last call.
    pub fn host(&mut self, step: &'static str) {
        let Some(steps) = &mut self.steps else { return };
        let now = Instant::now();
        steps.host.push(StepTime { step, on_device: false, took: now - steps.last });
        steps.last = now;
    }

    /// Adds a step of the host that was measured elsewhere.
    pub fn add_host(&mut self, step: &'static str, took: Duration) {
        if let Some(steps) = &mut self.steps {
            steps.host.push(StepTime { step, on_device: false, took });
        }
    }

    /// Whether the batch is measured.
    pub fn is_timed(&self) -> bool {
        self.steps.is_some()
    }

    /// Runs `enqueue`, which puts a step into the stream.
    pub fn device<E: From<DeviceError>>(
        &mut self,
        step: &'static str,
        device: &Device,
        stream: &Stream,
        enqueue: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(steps) = &mut self.steps else { return enqueue() };
        let (before, after) = (device.event()?, device.event()?);
        before.record(stream)?;
        enqueue()?;
        after.record(stream)?;
        steps.device.push((step, before, after));
        Ok(())
    }

    /// Ends the batch, and waits for what is still in its stream if it is measured.
    pub fn finish(self) -> Result<(), DeviceError> {
        let Some(Steps { mut host, device, .. }) = self.steps else { return Ok(()) };
        let mut steps: Vec<StepTime> = Vec::new();
        for &(step, ref before, ref after) in &device {
            let took = after.elapsed_since(before)?;
            match steps.iter_mut().find(|known| known.step == step) {
                Some(known) => known.took += took,
                None => steps.push(StepTime { step, on_device: true, took }),
            }
        }
        if let (Some((_, first, _)), Some((.., last))) = (device.first(), device.last()) {
            let took = last.elapsed_since(first)?;
            steps.push(StepTime { step: "first to last", on_device: true, took });
        }
        steps.append(&mut host);
        self.timer.batches.lock().unwrap_or_else(PoisonError::into_inner).push(steps);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(no_simulator))]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn nothing_is_measured_unless_it_is_switched_on() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let (timer, stream) = (StepTimer::default(), device.stream().unwrap());
        let run = |mut batch: TimedBatch<'_>| {
            let timed = batch.is_timed();
            for _ in 0..2 {
                batch.device("copy", &device, &stream, || Ok::<(), DeviceError>(())).unwrap();
            }
            batch.host("plan");
            batch.add_host("threads", Duration::from_secs(3));
            batch.finish().unwrap();
            timed
        };
        assert!(!run(timer.begin()));
        assert!(timer.take().is_empty());
        timer.switch(true);
        assert!(!run(timer.begin_untimed()) && run(timer.begin()));
        let batches = timer.take();
        let steps: Vec<_> = batches.concat().iter().map(|step| (step.step, step.on_device)).collect();
        assert_eq!(
            steps,
            [("copy", true), ("first to last", true), ("plan", false), ("threads", false)],
            "steps of one name are one"
        );
        assert_eq!(batches[0][3].took, Duration::from_secs(3));
        assert!(timer.take().is_empty());
    }

    #[test]
    fn a_step_that_fails_ends_the_batch_with_its_error() {
        let device = Device::simulated(Mode::fast()).unwrap();
        let (timer, stream) = (StepTimer::default(), device.stream().unwrap());
        timer.switch(true);
        let mut batch = timer.begin();
        let failed = batch.device("copy", &device, &stream, || Err(DeviceError::NotRecorded));
        assert!(matches!(failed, Err(DeviceError::NotRecorded)));
        batch.finish().unwrap();
        assert_eq!(timer.take(), [vec![]]);
    }
}
