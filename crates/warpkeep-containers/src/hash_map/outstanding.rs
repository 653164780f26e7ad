//! Work that was enqueued and may not be done.

use std::sync::{Mutex, MutexGuard, PoisonError};

use warpkeep_device::{Event, Result, Stream};

use super::columns::Columns;

/// Events behind all enqueued work that may not be done, in the order in which it was enqueued.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    work: Mutex<Vec<Work>>,
    /// Memory of changes that are done, for the next ones: to allocate and to free can make a GPU wait.
    idle: Mutex<Vec<Columns>>,
}

#[derive(Debug)]
struct Work {
    event: Event,
    /// Of what changes the map: the memory that its kernels use.
    columns: Option<Columns>,
}

impl Outstanding {
    fn lock(&self) -> MutexGuard<'_, Vec<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Columns>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a change: that of one that is done, or none yet.
    pub(super) fn columns(&self) -> Columns {
        self.idle().pop().unwrap_or_default()
    }

    /// Notes what was just enqueued; with the memory of its plan if it changes the map.
    pub(super) fn add(&self, columns: Option<Columns>, stream: &Stream) -> Result<()> {
        let event = stream.record();
        let mut all = self.lock();
        match event {
            Ok(event) => {
                // What is done needs no event. An error shows up where it is waited for.
                let done = all.extract_if(.., |work| work.event.is_done().unwrap_or(false));
                self.idle().extend(done.filter_map(|work| work.columns));
                all.push(Work { event, columns });
                Ok(())
            }
            Err(error) => {
                // Without an event there is no other way to know when the memory can be freed.
                let _ = stream.synchronize();
                Err(error)
            }
        }
    }

    /// Makes what comes next in the stream wait for enqueued changes. Each of those waited for all before it.
    pub(super) fn order_after_changes(&self, stream: &Stream) -> Result<()> {
        match self.lock().iter().rev().find(|work| work.columns.is_some()) {
            Some(work) => stream.wait_for(&work.event),
            None => Ok(()),
        }
    }

    /// Makes what comes next in the stream wait for all that was enqueued.
    pub(super) fn order_after_all(&self, stream: &Stream) -> Result<()> {
        self.lock().iter().try_for_each(|work| stream.wait_for(&work.event))
    }

    /// Waits until no enqueued work changes the map.
    pub(super) fn wait_for_changes(&self) -> Result<()> {
        let mut all = self.lock();
        while let Some(at) = all.iter().position(|work| work.columns.is_some()) {
            all[at].event.synchronize()?;
            self.idle().extend(all.remove(at).columns);
        }
        Ok(())
    }

    /// Waits until no enqueued work uses the map.
    pub(super) fn wait_for_all(&self) -> Result<()> {
        let mut all = self.lock();
        while let Some(work) = all.first() {
            work.event.synchronize()?;
            self.idle().extend(all.remove(0).columns);
        }
        Ok(())
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        // A device that is lost uses no memory.
        let _ = self.wait_for_all();
    }
}
