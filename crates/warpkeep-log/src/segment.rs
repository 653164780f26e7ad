//! Segment files: their first page, and how they are created.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::LogError;
use crate::files::{Directory, File};
use crate::layout::{PAGE, segment_name};
use crate::page::Page;
use crate::site;

/// The size of an opening's first segment on a full disk. Small writes fit, until a checkpoint frees space.
pub(crate) const SMALL_SEGMENT: u64 = 256 << 10;

pub(crate) const SEGMENT_MAGIC: &[u8; 8] = b"WKSEGMNT";

/// The first page of a segment.
pub(crate) struct SegmentPage {
    pub(crate) store_id: [u8; 16],
    pub(crate) number: u64,
    pub(crate) len: u64,
}

impl SegmentPage {
    pub(crate) fn from_page(page: &Page) -> SegmentPage {
        SegmentPage { store_id: page.store_id(), number: page.word(32), len: page.word(40) }
    }

    pub(crate) fn to_page(&self) -> Page {
        let mut page = Page::new(SEGMENT_MAGIC, &self.store_id);
        page.set_word(32, self.number);
        page.set_word(40, self.len);
        page
    }
}

/// A segment that frames can be written to.
pub(crate) struct Segment {
    pub(crate) file: File,
    pub(crate) number: u64,
    pub(crate) len: u64,
}

impl Segment {
    /// Creates a segment, first page and name durable: a frame without the first page would look like damage.
    fn create(directory: &Directory, page: &SegmentPage) -> Result<Segment, LogError> {
        let name = segment_name(page.number);
        directory.check_room(&name, page.len)?;
        let file = directory.create(&name)?;
        let made = file
            .allocate(page.len)
            .and_then(|()| file.write(&page.to_page().sealed()[..], 0))
            .and_then(|()| file.sync(site::SEGMENT_FILE))
            .and_then(|()| directory.sync(site::SEGMENT_DIR));
        if let Err(error) = made {
            drop(file);
            directory.discard(&name);
            return Err(error);
        }
        Ok(Segment { file, number: page.number, len: page.len })
    }
}

/// Makes segments, and keeps one in reserve so that a full disk is noticed while there is still room to write.
pub(crate) struct SegmentMaker {
    directory: Directory,
    store_id: [u8; 16],
    segment_bytes: u64,
    next_number: AtomicU64,
    /// The size of the last frame if it was larger than a usual segment: the next may be as large, and then finds
    /// room in a spare of that size.
    large: AtomicU64,
    /// Locked while a segment is being made: segments must come into use in the order of their numbers.
    spare: Mutex<Option<Segment>>,
}

impl SegmentMaker {
    pub(crate) fn new(
        directory: Directory,
        store_id: [u8; 16],
        segment_bytes: u64,
        next_number: u64,
    ) -> SegmentMaker {
        let next_number = AtomicU64::new(next_number);
        let (large, spare) = (AtomicU64::new(0), Mutex::new(None));
        SegmentMaker { directory, store_id, segment_bytes, next_number, large, spare }
    }

    /// The first segment of an opening. If the disk has no room for a whole one it is a small one, with space from
    /// the reserve if necessary, and is returned with the reason.
    pub(crate) fn take_first(&self) -> Result<(Segment, Option<LogError>), LogError> {
        match self.make(0) {
            Err(full @ LogError::DiskFull { .. }) => {
                let len = self.segment_bytes.min(SMALL_SEGMENT);
                self.directory.with_reserve(|| self.make_of(len)).map(|segment| (segment, Some(full)))
            }
            made => made.map(|segment| (segment, None)),
        }
    }

    /// A segment that has room for a frame of `footprint` bytes.
    pub(crate) fn take(&self, footprint: u64) -> Result<Segment, LogError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let is_large = footprint > self.segment_bytes - PAGE;
        self.large.store(if is_large { footprint } else { 0 }, Ordering::Relaxed);
        match spare.take() {
            Some(segment) if segment.len - PAGE >= footprint => Ok(segment),
            Some(too_small) => {
                // Its number is now too low to be used later.
                let name = segment_name(too_small.number);
                drop(too_small);
                self.directory.discard(&name);
                self.make(footprint)
            }
            None => self.make(footprint),
        }
    }

    /// Whether a spare segment is ready or being made.
    pub(crate) fn has_spare(&self) -> bool {
        self.spare.try_lock().map_or(true, |spare| spare.is_some())
    }

    /// Whether a spare segment is ready.
    pub(crate) fn is_spare_ready(&self) -> bool {
        self.spare.try_lock().is_ok_and(|spare| spare.is_some())
    }

    /// Whether the disk reports enough space for a segment.
    pub(crate) fn has_space(&self) -> bool {
        self.directory.free_bytes().is_some_and(|free| free >= self.segment_bytes)
    }

    /// Makes a segment ahead of its use.
    pub(crate) fn prepare(&self) -> Result<(), LogError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() {
            self.leave_to_checkpoint()?;
            let made = match self.large.load(Ordering::Relaxed) {
                0 => self.make(0),
                // If there is not enough space for this size, a smaller size may fit.
                large => self.make(large).or_else(|_| self.make(0)),
            };
            *spare = Some(made?);
        }
        Ok(())
    }

    /// Makes a segment with room for a frame of `footprint` bytes, unless the spare has it.
    pub(crate) fn prepare_for(&self, footprint: u64) -> Result<(), LogError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.as_ref().is_some_and(|spare| spare.len - PAGE >= footprint) {
            return Ok(());
        }
        self.leave_to_checkpoint()?;
        if let Some(too_small) = spare.take() {
            let name = segment_name(too_small.number);
            drop(too_small);
            self.directory.discard(&name);
        }
        *spare = Some(self.make(footprint)?);
        Ok(())
    }

    /// Space that the reserve has freed for a checkpoint must not become a segment: the checkpoint would not
    /// complete, and no segment would ever become free.
    fn leave_to_checkpoint(&self) -> Result<(), LogError> {
        match self.directory.reserve().is_lent() {
            false => Ok(()),
            true => {
                let what = "what is free is for the checkpoint in progress";
                let source = io::Error::new(io::ErrorKind::StorageFull, what);
                Err(LogError::io("reserve space for", "the next segment", source))
            }
        }
    }

    fn make(&self, footprint: u64) -> Result<Segment, LogError> {
        self.make_of(self.segment_bytes.max(PAGE + footprint))
    }

    fn make_of(&self, len: u64) -> Result<Segment, LogError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        Segment::create(&self.directory, &SegmentPage { store_id: self.store_id, number, len })
    }
}
