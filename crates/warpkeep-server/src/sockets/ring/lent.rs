//! Receive buffers lent to the kernel: it picks a buffer when input arrives, so that idle connections need none.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The number of buffers; a power of two. Tests have few, so that they run out.
const COUNT: u16 = if cfg!(test) { 16 } else { 256 };
/// Bytes of each.
pub(super) const BYTES: usize = 16 << 10;
/// How many there are, for tests.
#[cfg(test)]
pub(super) const BUFFERS: usize = COUNT as usize;
/// The entries by which the kernel finds the buffers, before the buffers themselves.
const ENTRIES: usize = (COUNT as usize * size_of::<BufRingEntry>()).next_multiple_of(4096);
const ALL: usize = ENTRIES + COUNT as usize * BYTES;
/// The group that requests name.
pub(super) const GROUP: u16 = 0;

/// Memory that is lent to the kernel.
#[derive(Debug)]
pub(super) struct Lent {
    base: NonNull<u8>,
    tail: u16,
}

/// A buffer returned by the kernel, with bytes in it. There is at most one for each.
#[derive(Debug)]
pub(super) struct Filled {
    buffer: u16,
    from: usize,
    to: usize,
}

// SAFETY: the memory belongs to this alone and is reached through it alone.
unsafe impl Send for Lent {}

impl Lent {
    /// Lends all buffers to a ring.
    ///
    /// # Safety
    ///
    /// The memory must stay, that is, this must not be dropped, while the ring has receive requests.
    pub(super) unsafe fn to(submitter: &Submitter<'_>) -> io::Result<Lent> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, of memory that no other code uses.
        let base = unsafe { mmap_anonymous(null_mut(), ALL, protection, flags) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut lent = Lent { base, tail: 0 };
        // SAFETY: the entries are COUNT zeroed ones at the beginning of a page, and stay by this function's promise.
        unsafe { submitter.register_buf_ring_with_flags(base.as_ptr() as u64, COUNT, GROUP, 0) }?;
        (0..COUNT).for_each(|buffer| lent.give(buffer));
        Ok(lent)
    }

    /// A buffer that the kernel has filled.
    ///
    /// # Safety
    ///
    /// A completion must have named the buffer and reported `bytes` bytes in it, and this is called once for it.
    pub(super) unsafe fn filled(&self, buffer: u16, bytes: usize) -> Filled {
        Filled { buffer, from: 0, to: bytes.min(BYTES) }
    }

    /// The unread bytes of a buffer.
    pub(super) fn bytes(&self, filled: &Filled) -> &[u8] {
        let start = ENTRIES + usize::from(filled.buffer) * BYTES + filled.from;
        // SAFETY: `filled` is a buffer of this mapping that is not lent at the moment, so neither the kernel nor
        // this process writes to it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(start), filled.to - filled.from) }
    }

    /// Copies from a buffer as much as fits. Returns whether it is empty now.
    pub(super) fn read(&self, filled: &mut Filled, into: &mut [u8]) -> (usize, bool) {
        let bytes = self.bytes(filled);
        let count = bytes.len().min(into.len());
        into[..count].copy_from_slice(&bytes[..count]);
        filled.from += count;
        (count, filled.from == filled.to)
    }

    /// Lends a buffer again.
    #[expect(clippy::needless_pass_by_value, reason = "it cannot be used after it is given back")]
    pub(super) fn give_back(&mut self, filled: Filled) {
        self.give(filled.buffer);
    }

    fn give(&mut self, buffer: u16) {
        let base = self.base.as_ptr();
        let entries = base.cast::<BufRingEntry>();
        // SAFETY: the index is within the entries, and the kernel does not read this one before the tail is
        // advanced past it; the buffer is within the mapping.
        let address = unsafe {
            let entry = &mut *entries.add(usize::from(self.tail & (COUNT - 1)));
            let address = base.add(ENTRIES + usize::from(buffer) * BYTES) as u64;
            entry.set_addr(address);
            entry.set_len(BYTES as u32);
            entry.set_bid(buffer);
            BufRingEntry::tail(entries)
        };
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is aligned, lies in the mapping, and is written here alone; the kernel reads it.
        unsafe { AtomicU16::from_ptr(address.cast_mut()) }.store(self.tail, Ordering::Release);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping; by the promise to `to` no request receives into it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), ALL) };
    }
}
