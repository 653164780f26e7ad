//! Where the time of a batch goes, step by step: kernels by the device's clock, the host's own work by the host's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpkeep_device::{Device, Event, Stream};

use crate::TableError;

/// How long a step of a batch took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Its name: a kernel, or what the host did.
    pub step: &'static str,
    /// Whether the device did it. What the host does meanwhile is its own, so the two do not add up.
    pub on_device: bool,
    /// How long; all of them, if the batch has it more than once.
    pub took: Duration,
}

/// The times of batches, if anybody wants to know.
#[derive(Debug, Default)]
pub(crate) struct StepTimes {
    wanted: AtomicBool,
    batches: Mutex<Vec<Vec<StepTime>>>,
}

impl StepTimes {
    pub(crate) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) -> Vec<Vec<StepTime>> {
        std::mem::take(&mut *self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A batch that nobody watches.
    pub(crate) fn look_away(&self) -> Watch<'_> {
        Watch { times: self, noted: None }
    }

    /// Begins to watch a batch.
    pub(crate) fn watch(&self) -> Watch<'_> {
        let noted = self.wanted.load(Ordering::Relaxed).then(|| Noted {
            last: Instant::now(),
            host: Vec::new(),
            device: Vec::new(),
        });
        Watch { times: self, noted }
    }
}

/// A batch that is watched, or not: see [`DeviceEngine::watch_steps`](super::DeviceEngine::watch_steps).
pub struct Watch<'w> {
    times: &'w StepTimes,
    noted: Option<Noted>,
}

struct Noted {
    last: Instant,
    host: Vec<StepTime>,
    device: Vec<(&'static str, Event, Event)>,
}

impl Watch<'_> {
    /// What the host has done since the last call was this.
    pub fn host(&mut self, step: &'static str) {
        let Some(noted) = &mut self.noted else { return };
        let now = Instant::now();
        noted.host.push(StepTime { step, on_device: false, took: now - noted.last });
        noted.last = now;
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_on(&self) -> bool {
        self.noted.is_some()
    }

    /// What the host's threads have done for so long.
    pub(crate) fn note(&mut self, step: &'static str, took: Duration) {
        if let Some(noted) = &mut self.noted {
            noted.host.push(StepTime { step, on_device: false, took });
        }
    }

    /// Puts something into a stream.
    pub(crate) fn device(
        &mut self,
        step: &'static str,
        device: &Device,
        stream: &Stream,
        put: impl FnOnce() -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let Some(noted) = &mut self.noted else { return put() };
        let (before, after) = (device.event()?, device.event()?);
        before.record(stream)?;
        put()?;
        after.record(stream)?;
        noted.device.push((step, before, after));
        Ok(())
    }

    /// The batch is done, and its stream synchronised.
    pub fn finish(self) -> Result<(), TableError> {
        let Some(Noted { mut host, device, .. }) = self.noted else { return Ok(()) };
        let mut steps: Vec<StepTime> = Vec::new();
        for &(step, ref before, ref after) in &device {
            let took = after.elapsed_since(before)?;
            match steps.iter_mut().find(|noted| noted.step == step) {
                Some(noted) => noted.took += took,
                None => steps.push(StepTime { step, on_device: true, took }),
            }
        }
        if let (Some((_, first, _)), Some((.., last))) = (device.first(), device.last()) {
            let took = last.elapsed_since(first)?;
            steps.push(StepTime { step: "first to last", on_device: true, took });
        }
        steps.append(&mut host);
        self.times.batches.lock().unwrap_or_else(PoisonError::into_inner).push(steps);
        Ok(())
    }
}
