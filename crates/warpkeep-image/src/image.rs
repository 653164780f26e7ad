//! The image: header, state, roots and pending commits over a backing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::{seal48, unseal48};
use crate::layout::{DIRECTORY, OFFSET_BITS, PAGE, ROOT_COUNT, ROOTS, STATE_SLOTS, STATIC_HEADER};
use crate::pending::PendingTable;
use crate::region::Region;
use crate::state::{STATE_BYTES, State};
use crate::static_header::StaticHeader;
use crate::{Backing, Holder, Identity, ImageError, LastUse, MappedFile, Owner, Persist};

/// The parameters of a new image.
#[derive(Clone, Debug)]
pub struct Format {
    /// Drawn at random; shared with the log directory.
    pub store_id: [u8; 16],
    /// Bytes in a chunk: a power of two; [`DEFAULT_CHUNK`](crate::DEFAULT_CHUNK) unless it is for a test.
    pub chunk_size: u64,
    /// Seed of every hash taken over keys.
    pub hash_seed: u64,
}

/// The machine, boot and process in which an image is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings {
    /// The file and the running machine.
    pub identity: Identity,
    /// Whether flushed and fenced stores survive the machine.
    pub persistent: bool,
    /// This process.
    pub pid: u64,
    /// The start time of this process, in clock ticks since boot: with the id, it identifies a process uniquely.
    pub start_time: u64,
    /// Seconds since 1970, to be written down.
    pub now: u64,
    /// Whether a cleanly closed image may be opened from a copy of its file.
    pub adopt: bool,
}

/// Why the bytes of an opened image can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// Its last holder closed it.
    Clean,
    /// Its last holder died, but every store it made is there.
    Reattached,
}

/// An opened image, and how its state was found.
pub struct Attached<P: Persist> {
    /// The image.
    pub image: Image<P>,
    /// Why it can be trusted.
    pub attachment: Attachment,
    /// One of the two state slots was torn or damaged and has been (or, read-only, would be) restored from
    /// the other.
    pub slot_repaired: bool,
}

/// A memory image: bytes addressed by offset, which outlive the process.
///
/// `P` determines how stores become durable; see [`Persist`].
pub struct Image<P: Persist> {
    region: Region,
    persist: P,
    header: StaticHeader,
    path: PathBuf,
    surroundings: Surroundings,
    owner: Owner,
    writable: bool,
    chunks: AtomicU64,
    state: Mutex<State>,
    pending: PendingTable,
    file: Option<Arc<MappedFile>>,
}

impl<P: Persist> Image<P> {
    /// Lays out a new image over zeroed bytes. The static header is written last: without it the bytes are not an
    /// image, so an interrupted creation leaves nothing that could be mistaken for one.
    pub fn format(
        backing: Arc<dyn Backing>,
        persist: P,
        path: &Path,
        format: &Format,
        surroundings: Surroundings,
    ) -> Result<Image<P>, ImageError> {
        let header =
            StaticHeader::new(format.store_id, format.chunk_size, format.hash_seed, surroundings.now)?;
        let chunks = backing.len() / header.chunk_size;
        if chunks < 2 {
            return Err(ImageError::Invalid(format!(
                "{} bytes are too few for an image with chunks of {} bytes; give it at least {}",
                backing.len(),
                header.chunk_size,
                2 * header.chunk_size
            )));
        }
        let region = Region::new(backing, chunks * header.chunk_size);
        let image = Image {
            region,
            persist,
            header,
            path: path.to_path_buf(),
            surroundings,
            owner: Owner::here(),
            writable: true,
            chunks: AtomicU64::new(chunks),
            state: Mutex::new(State {
                chunks,
                clean: true,
                identity: surroundings.identity,
                ..State::default()
            }),
            pending: PendingTable::new(),
            file: None,
        };
        // The fences of the state, which come before the header, cover the directory too.
        image.prepare_directory(0, chunks);
        let state = image.state().clone();
        image.write_state(&state);
        let page = image.header.encode();
        // SAFETY: no other code has the image yet.
        unsafe { image.region.write(&image.persist, STATIC_HEADER, &page) };
        image.flush("image.format.header", STATIC_HEADER, PAGE);
        image.fence("image.format.header");
        Ok(image)
    }

    /// Opens the image in a backing and decides whether its bytes can be trusted. Nothing is changed except that a
    /// damaged state slot is restored; [`Image::begin`] starts the use of the image.
    pub fn attach(
        backing: Arc<dyn Backing>,
        persist: P,
        path: &Path,
        surroundings: Surroundings,
        writable: bool,
    ) -> Result<Attached<P>, ImageError> {
        let available = backing.len();
        if available < DIRECTORY {
            return Err(ImageError::Foreign {
                path: path.to_path_buf(),
                found: format!("{available} bytes, too few for a header"),
            });
        }
        let region = Region::new(backing, available & !7);
        let header = StaticHeader::decode(&read_page(&region, STATIC_HEADER), path)?;
        let slots = STATE_SLOTS.map(|at| State::decode(&read_page(&region, at)));
        let slots_agree = slots[0].is_some() && slots[0] == slots[1];
        let newest = slots.into_iter().flatten().max_by_key(|state| state.sequence);
        let state = newest.ok_or_else(|| no_whole_slot(path, surroundings.persistent))?;
        let expected =
            state.chunks.checked_mul(header.chunk_size).filter(|_| state.chunks >= 2).ok_or_else(|| {
                ImageError::Damaged {
                    path: path.to_path_buf(),
                    what: format!("a length of {} chunks", state.chunks),
                }
            })?;
        // First: in a power cut an ordinary file may lose a growth that its state already records, and then it is not
        // damaged but lost, as its contents are.
        let attachment = judge(&state, &surroundings, path)?;
        if available < expected {
            return Err(ImageError::Truncated { path: path.to_path_buf(), found: available, expected });
        }
        // A file longer than the recorded length is a growth that was never published: those bytes do not count.
        region.set_len(expected);
        let image = Image {
            region,
            persist,
            header,
            path: path.to_path_buf(),
            surroundings,
            owner: Owner::here(),
            writable,
            chunks: AtomicU64::new(state.chunks),
            state: Mutex::new(state.clone()),
            pending: PendingTable::new(),
            file: None,
        };
        for index in 0..ROOT_COUNT {
            image.root(index)?;
        }
        image.pending()?;
        if !slots_agree && writable {
            image.write_state(&state);
        }
        // The last stores of a killed process may be visible but still in the caches. A process that continues from
        // the visible state must not lose them to a later power cut.
        if attachment == Attachment::Reattached && surroundings.persistent && writable {
            image.flush("image.reattach", 0, image.len());
            image.fence("image.reattach");
        }
        Ok(Attached { image, attachment, slot_repaired: !slots_agree })
    }

    /// Starts the use of the image: records the holder, and the epoch of its LSNs. The last holder's
    /// [pending](Image::pending) batches must have been finished; they are dropped.
    pub fn begin(&self, epoch: u64) -> Result<(), ImageError> {
        self.check_writable()?;
        let mut state = self.state();
        let mut next = state.clone();
        next.sequence += 1;
        next.clean = false;
        next.epoch = epoch;
        next.identity = self.surroundings.identity;
        next.holder_pid = self.surroundings.pid;
        next.holder_start = self.surroundings.start_time;
        next.attached = self.surroundings.now;
        self.forget_pending();
        self.write_state(&next);
        *state = next;
        // The kernel may write changed pages of an ordinary file back at any moment, so "in use" must be on the
        // disk before the first change is: otherwise a power cut could leave a changed image that says "clean".
        // Also if it says "in use" already: the process that recorded it may have died before this point.
        if !self.surroundings.persistent {
            self.region.backing().sync_start("image.begin", DIRECTORY)?;
        }
        Ok(())
    }

    /// Closes the image: everything is made as durable as the medium can, then it is marked clean.
    /// `last_lsn` is where the log ends, 0 without one.
    pub fn close(self, last_lsn: u64) -> Result<(), ImageError> {
        self.check_process()?;
        if !self.writable {
            return Ok(());
        }
        self.region.backing().sync("image.close.data")?;
        let mut state = self.state();
        let mut next = state.clone();
        next.sequence += 1;
        next.clean = true;
        next.last_lsn = last_lsn;
        self.write_state(&next);
        // If the sync fails, the image is given up as one that was not closed, under a later number.
        state.sequence = next.sequence;
        self.region.backing().sync("image.close.state")?;
        *state = next;
        Ok(())
    }

    /// Releases an image that is not closed: it stays "in use", to be re-attached, but names no holder, so that
    /// another process does not wait for the end of this one. The last step of dropping an image; nothing may be
    /// stored after it.
    ///
    /// Only for a file, since no other process can wait for plain memory. A copy of the process made by `fork`
    /// holds nothing, so it releases nothing.
    fn give_up(&self) {
        let in_its_process = self.file.as_ref().is_some_and(|file| file.is_in_its_process());
        if !self.writable || !in_its_process {
            return;
        }
        let mut state = self.state();
        let here = &self.surroundings;
        let ours = state.holder_pid == here.pid && state.holder_start == here.start_time;
        if state.clean || !ours {
            return;
        }
        let mut next = state.clone();
        next.sequence += 1;
        (next.holder_pid, next.holder_start) = (0, 0);
        self.write_state(&next);
        *state = next;
    }

    /// Extends the image to `chunks` chunks while it is in use.
    pub fn grow(&self, chunks: u64) -> Result<(), ImageError> {
        self.check_writable()?;
        let mut state = self.state();
        if chunks <= state.chunks {
            return Ok(());
        }
        let too_large = || ImageError::OutOfSpace {
            wanted: chunks.saturating_mul(self.header.chunk_size),
            why: "an image holds at most 2^48 bytes".into(),
        };
        let len = chunks
            .checked_mul(self.header.chunk_size)
            .filter(|&l| l < 1 << OFFSET_BITS)
            .ok_or_else(too_large)?;
        self.region.grow_backing(len)?;
        // The state must not name bytes that the file could turn out not to have.
        if self.surroundings.persistent {
            self.region.backing().sync("image.grow")?;
        }
        self.region.set_len(len);
        self.prepare_directory(state.chunks, chunks);
        self.fence("image.grow.directory");
        let mut next = state.clone();
        next.sequence += 1;
        next.chunks = chunks;
        self.write_state(&next);
        *state = next;
        self.chunks.store(chunks, Ordering::Release);
        Ok(())
    }

    /// A reference kept in the header: the offset in root `index`, `None` if it is unset.
    pub fn root(&self, index: usize) -> Result<Option<u64>, ImageError> {
        let word = self.word(root_offset(index)).load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        match unseal48(index as u64, word) {
            Some(offset) if offset != 0 && offset < self.len() => Ok(Some(offset)),
            _ => Err(self.damaged(format!("root {index}"))),
        }
    }

    /// Changes a root in one atomic, durable step. The data at `offset` must be durable already.
    pub fn set_root(&self, index: usize, offset: Option<u64>) -> Result<(), ImageError> {
        self.check_writable()?;
        let at = root_offset(index);
        let word = match offset {
            None => 0,
            Some(offset) if offset != 0 && offset < self.len() => seal48(index as u64, offset),
            Some(offset) => {
                return Err(ImageError::Invalid(format!("root {index} cannot name offset {offset}")));
            }
        };
        self.store(at, word);
        self.flush("image.root", at, 8);
        self.fence("image.root");
        Ok(())
    }

    /// The immutable header of the image.
    pub fn header(&self) -> &StaticHeader {
        &self.header
    }

    /// The file, as it was named when opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mapped file, for its placement and its pages; `None` for an image in plain memory.
    pub fn file(&self) -> Option<&MappedFile> {
        self.file.as_deref()
    }

    /// The last or current user of the image, as recorded in it.
    pub fn last_use(&self) -> LastUse {
        let state = self.state();
        LastUse {
            clean: state.clean,
            holder: Holder { pid: state.holder_pid, start_time: state.holder_start },
            attached: state.attached,
        }
    }

    /// How often the image was taken into use.
    pub fn epoch(&self) -> u64 {
        self.state().epoch
    }

    /// Where the log ended when the image was last closed cleanly.
    pub fn last_lsn(&self) -> u64 {
        self.state().last_lsn
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.chunks.load(Ordering::Acquire)
    }

    /// Bytes in a chunk.
    pub fn chunk_size(&self) -> u64 {
        self.header.chunk_size
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "an image always has a header")]
    pub fn len(&self) -> u64 {
        self.region.len()
    }

    /// The most bytes it can grow to without being reopened.
    pub fn max_len(&self) -> u64 {
        self.region.backing().max_len()
    }

    /// Whether it was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The aligned word at an offset, for loads; stores go through [`Image::store`] and [`Image::cas`].
    ///
    /// # Panics
    /// If the offset is not a multiple of 8 or lies outside the image: validate references read from the
    /// image with [`Image::contains`] first.
    #[inline]
    pub fn load(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Whether a range lies within the image.
    #[inline]
    pub fn contains(&self, offset: u64, len: u64) -> bool {
        self.region.contains(offset, len)
    }

    /// Stores a word with release order.
    ///
    /// # Panics
    /// As [`Image::load`]; also if the image is read-only.
    #[inline]
    pub fn store(&self, offset: u64, value: u64) {
        assert!(self.writable, "a read-only image was stored to");
        self.persist.store(self.word(offset), value);
    }

    /// Replaces a word if it still is `current`.
    ///
    /// # Panics
    /// As [`Image::store`].
    #[inline]
    pub fn cas(&self, offset: u64, current: u64, new: u64) -> Result<u64, u64> {
        assert!(self.writable, "a read-only image was stored to");
        self.persist.cas(self.word(offset), current, new)
    }

    /// Copies bytes out; a concurrent store shows as an old or a new word.
    ///
    /// # Panics
    /// If the range lies outside the image.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        self.region.read(offset, into);
    }

    /// Bytes in place.
    ///
    /// # Safety
    /// No thread may write to the range for as long as it is borrowed.
    ///
    /// # Panics
    /// If the range lies outside the image.
    #[inline]
    pub unsafe fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        // SAFETY: in bounds by `pointer`, mapped while the image lives; not written to by this function's contract.
        unsafe { std::slice::from_raw_parts(self.region.pointer(offset, len), len as usize) }
    }

    /// Copies bytes in.
    ///
    /// # Safety
    /// No other thread may access the range meanwhile.
    ///
    /// # Panics
    /// If the range lies outside the image, or the image is read-only.
    pub unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.writable, "a read-only image was written to");
        // SAFETY: passed on to the caller.
        unsafe { self.region.write(&self.persist, offset, bytes) };
    }

    /// Fills a range with zeros, word by word, so that a concurrent reader sees old or zero words.
    ///
    /// # Panics
    /// If the range lies outside the image or is not aligned to words, or the image is read-only.
    pub fn zero(&self, offset: u64, len: u64) {
        assert!(len.is_multiple_of(8), "{len} bytes are not whole words");
        for at in (offset..offset + len).step_by(8).filter(|&at| self.load(at) != 0) {
            self.store(at, 0);
        }
    }

    /// Starts the way of a range to the medium.
    #[inline]
    pub fn flush(&self, site: &'static str, offset: u64, len: u64) {
        self.region.flush(&self.persist, site, offset, len);
    }

    /// Returns when everything this thread flushed is durable.
    #[inline]
    pub fn fence(&self, site: &'static str) {
        self.persist.fence(site);
    }

    /// The address of a range, for engines that copy or register it. Valid while the image lives.
    ///
    /// # Panics
    /// If the range lies outside the image.
    pub fn pointer(&self, offset: u64, len: u64) -> *const u8 {
        self.region.pointer(offset, len)
    }

    #[inline]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        self.region.word(offset)
    }

    pub(crate) fn set_file(&mut self, file: Arc<MappedFile>) {
        self.file = Some(file);
    }

    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    pub(crate) fn pending_table(&self) -> &PendingTable {
        &self.pending
    }

    pub(crate) fn damaged(&self, what: String) -> ImageError {
        ImageError::Damaged { path: self.path.clone(), what }
    }

    /// The process that opened it. A child of that process must not use it.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    fn check_process(&self) -> Result<(), ImageError> {
        if self.owner.is_here() { Ok(()) } else { Err(ImageError::Forked { pid: self.owner.pid() }) }
    }

    pub(crate) fn check_writable(&self) -> Result<(), ImageError> {
        self.check_process()?;
        if self.writable { Ok(()) } else { Err(ImageError::ReadOnly) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The state is replaced whole, so it is good even if a thread died holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a state to both slots, one after the other: at any moment one of them is whole.
    fn write_state(&self, state: &State) {
        let mut bytes = [0; PAGE as usize];
        bytes[..STATE_BYTES].copy_from_slice(&state.encode());
        for at in STATE_SLOTS {
            // A damaged slot may have stray bytes beyond the state; otherwise only the state is rewritten.
            let tail_is_zero = read_page(&self.region, at)[STATE_BYTES..].iter().all(|&b| b == 0);
            let len = if tail_is_zero { STATE_BYTES } else { PAGE as usize };
            // SAFETY: slots are written only here, under the lock of the state or before the image is shared.
            unsafe { self.region.write(&self.persist, at, &bytes[..len]) };
            self.flush("image.state", at, len as u64);
            self.fence("image.state");
        }
    }
}

impl<P: Persist> Drop for Image<P> {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn root_offset(index: usize) -> u64 {
    assert!(index < ROOT_COUNT, "there are {ROOT_COUNT} roots, no root {index}");
    ROOTS + 8 * index as u64
}

pub(crate) fn read_page(region: &Region, at: u64) -> [u8; PAGE as usize] {
    let mut page = [0; PAGE as usize];
    region.read(at, &mut page);
    page
}

/// On persistent memory one slot is durable before the other is touched. In an ordinary file the kernel may have
/// written both back half changed before the power failed; that is not damage, but the image is lost.
fn no_whole_slot(path: &Path, persistent: bool) -> ImageError {
    let (path, what) = (path.to_path_buf(), "neither of the two state slots is whole".to_owned());
    match persistent {
        true => ImageError::Damaged { path, what },
        false => ImageError::NotIntact { path, why: what },
    }
}

/// Decides whether these bytes can be those the last holder left.
fn judge(state: &State, now: &Surroundings, path: &Path) -> Result<Attachment, ImageError> {
    let then = &state.identity;
    let same_boot = then.boot_id == now.identity.boot_id;
    let same_inode = then.inode == now.identity.inode;
    // Device numbers are handed out anew at every start of the machine; within one they identify.
    let same_birth = then.born == now.identity.born || then.born == 0 || now.identity.born == 0;
    let same_file = same_inode && same_birth && (then.device == now.identity.device || !same_boot);
    if state.clean {
        return match same_file || now.adopt {
            true => Ok(Attachment::Clean),
            false => Err(ImageError::Copied { path: path.to_path_buf() }),
        };
    }
    let why = if !same_file {
        "it is a copy of a file that was in use, so it may mix old and new"
    } else if !same_boot && !now.persistent {
        "the machine was restarted since, and this medium does not survive that"
    } else {
        return Ok(Attachment::Reattached);
    };
    Err(ImageError::NotIntact { path: path.to_path_buf(), why: why.into() })
}
