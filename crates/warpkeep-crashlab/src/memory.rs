//! The memory under test: bytes that can be crashed, and the persistence domain that records them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpkeep_image::{Backing, ImageError, Persist};

use crate::buffer::Buffer;
use crate::event::{Event, SiteKind};
use crate::model::LINE;
use crate::trace::Trace;

/// Memory of a fixed capacity whose growth and syncs are recorded; clones are handles to the same bytes.
#[derive(Clone)]
pub struct LabMemory {
    buffer: Arc<Buffer>,
    capacity: u64,
    trace: Trace,
}

impl LabMemory {
    /// `len` zeros that can grow to `capacity`.
    ///
    /// # Panics
    /// If a length is not a multiple of 64, or the trace has a memory already.
    pub fn new(trace: &Trace, len: u64, capacity: u64) -> LabMemory {
        check_lengths(len, capacity);
        let buffer = Buffer::new(capacity);
        buffer.grow(len);
        LabMemory::made(trace, Arc::new(buffer), &[], capacity)
    }

    /// Memory in a buffer whose bytes are zeros after the first few.
    pub(crate) fn made(trace: &Trace, buffer: Arc<Buffer>, content: &[u8], capacity: u64) -> LabMemory {
        let event = Event::MemoryCreate { len: buffer.len(), content: content.into(), capacity };
        LabMemory::adopt(trace, buffer, capacity, Some(event))
    }

    /// Memory that begins with these bytes, durable already, and can grow to `capacity`.
    ///
    /// # Panics
    /// If a length is not a multiple of 64, or the trace has a memory already.
    pub fn from_bytes(trace: &Trace, bytes: &[u8], capacity: u64) -> LabMemory {
        check_lengths(bytes.len() as u64, capacity);
        let mut buffer = Buffer::new(capacity);
        buffer.reset(bytes.len() as u64).copy_from_slice(bytes);
        LabMemory::made(trace, Arc::new(buffer), bytes, capacity)
    }

    /// The memory after a crash; the explorer knows its contents.
    pub(crate) fn reopened(trace: &Trace, buffer: Arc<Buffer>, capacity: u64) -> LabMemory {
        LabMemory::adopt(trace, buffer, capacity, None)
    }

    fn adopt(trace: &Trace, buffer: Arc<Buffer>, capacity: u64, event: Option<Event>) -> LabMemory {
        trace.adopt_memory(&buffer, event);
        LabMemory { buffer, capacity, trace: trace.clone() }
    }

    /// The persistence domain that records stores to this memory.
    pub fn recorder(&self) -> Recorder {
        Recorder { memory: self.clone() }
    }

    /// The word at `offset`, to be read, or to be stored to through the [`Recorder`].
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8, or beyond the length.
    pub fn word(&self, offset: u64) -> &AtomicU64 {
        self.buffer.word(offset)
    }

    /// The value of the word at `offset`.
    ///
    /// # Panics
    /// As [`word`](LabMemory::word).
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }
}

/// Lines are never cut in two.
pub(crate) fn check_lengths(len: u64, capacity: u64) {
    assert!(
        len.is_multiple_of(LINE) && capacity.is_multiple_of(LINE) && len <= capacity,
        "lengths are multiples of 64 within the capacity: {len} of {capacity}"
    );
}

impl fmt::Debug for LabMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LabMemory")
            .field("len", &self.buffer.len())
            .field("capacity", &self.capacity)
            .finish()
    }
}

// SAFETY: the buffer never moves and is freed only with the last handle; growing only extends its length.
unsafe impl Backing for LabMemory {
    fn base(&self) -> *mut u8 {
        self.buffer.base()
    }

    fn len(&self) -> u64 {
        self.buffer.len()
    }

    fn max_len(&self) -> u64 {
        self.capacity
    }

    fn grow(&self, len: u64) -> Result<(), ImageError> {
        self.trace.record_with(|| {
            let old = self.buffer.len();
            if len > self.capacity {
                let why = format!("the test's memory ends at {} bytes; give it more capacity", self.capacity);
                return (Err(ImageError::OutOfSpace { wanted: len - old, why }), None);
            }
            if !len.is_multiple_of(LINE) {
                let source = std::io::ErrorKind::InvalidInput.into();
                let path = PathBuf::from("(test memory)");
                return (Err(ImageError::Io { path, doing: "grow by part of a line", source }), None);
            }
            if len <= old {
                return (Ok(()), None);
            }
            self.buffer.grow(len);
            (Ok(()), Some(Event::Grow { len }))
        })
    }

    fn sync(&self, site: &'static str) -> Result<(), ImageError> {
        self.trace.record_site(site, SiteKind::MemorySync, Event::MemorySync { site });
        Ok(())
    }
}

/// The persistence domain of a [`LabMemory`]: performs each call and records it.
#[derive(Clone, Debug)]
pub struct Recorder {
    memory: LabMemory,
}

impl Recorder {
    /// Records stores to this memory.
    pub fn new(memory: &LabMemory) -> Recorder {
        memory.recorder()
    }

    /// The offset of an address in the memory.
    ///
    /// # Panics
    /// If `len` bytes from it do not lie inside: the code under test would have written somewhere else.
    fn offset(&self, address: *const u8, len: usize) -> u64 {
        let (start, base) = (address as usize as u64, self.memory.buffer.base() as usize as u64);
        let inside = start >= base && start - base + len as u64 <= self.memory.buffer.len();
        assert!(inside, "{len} bytes at {address:p} are not inside the memory under test");
        start - base
    }
}

impl Persist for Recorder {
    fn store(&self, word: &AtomicU64, value: u64) {
        let offset = self.offset(word.as_ptr().cast(), 8);
        self.memory.trace.record_with(|| {
            word.store(value, Ordering::Release);
            ((), Some(Event::Store { offset, value }))
        });
    }

    fn cas(&self, word: &AtomicU64, current: u64, new: u64) -> Result<u64, u64> {
        let offset = self.offset(word.as_ptr().cast(), 8);
        self.memory.trace.record_with(|| {
            let result = word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
            (result, result.is_ok().then_some(Event::Store { offset, value: new }))
        })
    }

    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let offset = self.offset(to, bytes.len());
        self.memory.trace.record_with(|| {
            // SAFETY: the caller guarantees that `to` is valid; a shared slice cannot overlap bytes to which this
            // call has exclusive access.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            // The outer words may hold bytes of a neighbour: they are read back, not made up.
            let (first, end) = (offset & !7, (offset + bytes.len() as u64).next_multiple_of(8));
            let words: Arc<[u64]> = (first..end).step_by(8).map(|at| self.memory.load(at)).collect();
            let event = match *words {
                [value] => Event::Store { offset: first, value },
                _ => Event::Write { offset: first, words },
            };
            ((), Some(event))
        });
    }

    fn flush(&self, site: &'static str, start: *const u8, len: usize) {
        if len == 0 {
            return;
        }
        let event = Event::Flush { offset: self.offset(start, len), len: len as u64, site };
        self.memory.trace.record_site(site, SiteKind::Flush, event);
    }

    fn fence(&self, site: &'static str) {
        self.memory.trace.record_site(site, SiteKind::Fence, Event::Fence { site });
    }
}
