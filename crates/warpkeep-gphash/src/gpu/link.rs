//! Who reads over the link: batches that are in order, one after the other.

use std::sync::{Mutex, PoisonError};

use warpkeep_device::{Device, Event, Stream};

use crate::TableError;

/// Turns to read in the order of addresses, for all streams.
///
/// A device keeps translations of some of the host's memory only. A batch that goes through an image from its beginning to its end has each of them fetched once; several
/// that are at different places take them from each other, and all of them are as slow as if they had no order. What they do in device memory they do beside each other.
pub(crate) struct Link {
    /// The last turn is over.
    over: Mutex<Event>,
}

impl Link {
    pub(crate) fn new(device: &Device) -> Result<Link, TableError> {
        Ok(Link { over: Mutex::new(device.event()?) })
    }

    /// Puts something into a stream whose turn comes when all that have been put before, into whichever stream, are over.
    pub(crate) fn in_turn(
        &self,
        stream: &Stream,
        put: impl FnOnce() -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        // Until the next can see that this is the last.
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        stream.wait_for(&over)?;
        put()?;
        Ok(over.record(stream)?)
    }
}
