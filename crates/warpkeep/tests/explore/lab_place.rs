//! An image in recorded memory, in place of one in a file.
//!
//! A file appears under its name only when the image in it is whole, and vanishes at once. Recorded memory cannot do
//! that, so two marks in the trace stand for the name: [`PUBLISHED`] and [`REMOVED`].

use std::path::Path;
use std::sync::Arc;

use warpkeep::engine::ImagePlace;
use warpkeep_crashlab::{LabMemory, Recorder, Reopen, Trace};
use warpkeep_image::{
    Attached, Backing, Format, Identity, Image, ImageError, MIN_CHUNK, Persist, Surroundings,
};

pub(crate) const PUBLISHED: u64 = 1 << 60;
pub(crate) const REMOVED: u64 = PUBLISHED + 1;

pub(crate) struct LabPlace {
    pub(crate) trace: Trace,
    pub(crate) memory: LabMemory,
    pub(crate) present: bool,
    pub(crate) persistent: bool,
}

impl LabPlace {
    /// A place with nothing in it yet.
    pub(crate) fn new(trace: &Trace, chunks: u64, max_chunks: u64, persistent: bool) -> LabPlace {
        let memory = LabMemory::new(trace, chunks * MIN_CHUNK, max_chunks * MIN_CHUNK);
        LabPlace { trace: trace.clone(), memory, present: false, persistent }
    }

    /// The place after a crash.
    pub(crate) fn reopened(reopen: &Reopen<'_>, chunks: u64, max_chunks: u64, persistent: bool) -> LabPlace {
        let named = reopen.acked().iter().rev().find(|&&tag| tag == PUBLISHED || tag == REMOVED);
        let (memory, present) = match reopen.memory() {
            Some(memory) => (memory, named == Some(&PUBLISHED)),
            None => {
                // The name went with the memory.
                reopen.ack(REMOVED);
                (reopen.new_memory(chunks * MIN_CHUNK, max_chunks * MIN_CHUNK), false)
            }
        };
        LabPlace { trace: reopen.trace().clone(), memory, present, persistent }
    }
}

pub(crate) fn surroundings(persistent: bool) -> Surroundings {
    let identity = Identity { boot_id: [5; 16], device: 1, inode: 2, born: 3 };
    Surroundings { identity, persistent, pid: 7, start_time: 8, now: 9, adopt: false }
}

pub(crate) fn format() -> Format {
    Format { store_id: [9; 16], chunk_size: MIN_CHUNK, hash_seed: 3 }
}

impl ImagePlace<Recorder> for LabPlace {
    fn open(&self) -> Result<Option<Attached<Recorder>>, ImageError> {
        if !self.present {
            return Ok(None);
        }
        let (memory, recorder) = (Arc::new(self.memory.clone()), self.memory.recorder());
        Image::attach(memory, recorder, Path::new("lab"), surroundings(self.persistent), true).map(Some)
    }

    fn new_store_id(&self) -> Result<[u8; 16], ImageError> {
        Ok(format().store_id)
    }

    fn create(&self, store_id: [u8; 16]) -> Result<Image<Recorder>, ImageError> {
        self.trace.ack(REMOVED);
        let recorder = self.memory.recorder();
        // A new file is all zeros, durably.
        for offset in (0..self.memory.len()).step_by(8).filter(|&offset| self.memory.load(offset) != 0) {
            recorder.store(self.memory.word(offset), 0);
        }
        self.memory.sync("lab.zero")?;
        let format = Format { store_id, ..format() };
        let memory = Arc::new(self.memory.clone());
        let image =
            Image::format(memory, recorder, Path::new("lab"), &format, surroundings(self.persistent))?;
        // Before a file is renamed to its name it is synced.
        self.memory.sync("lab.publish")?;
        self.trace.ack(PUBLISHED);
        Ok(image)
    }
}
