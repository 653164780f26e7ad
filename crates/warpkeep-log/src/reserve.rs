//! Space set aside in the log directory, so that the store can recover from a full disk.
//!
//! The reserve is a few files without contents. A checkpoint (after which old segments can be removed) and an
//! opening (which needs a segment and a manifest) remove these files one by one when there is no other space, and
//! use the space that this frees. They are created again when there is room. They are never synced and never read,
//! so a crash cannot harm them: the next opening uses the ones that remain.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::LogError;
use crate::files::Directory;
use crate::layout::{FileName, reserve_name};

/// The smallest file of the reserve but for the last one, so that there are few of them.
const PIECE: u64 = 1 << 20;
/// About how many files the reserve has at most.
const PIECES: u64 = 32;
/// A file of fewer bytes is not worth making.
const SMALLEST: u64 = 16 << 10;

/// The files of the reserve.
#[derive(Default)]
pub(crate) struct Reserve {
    files: Mutex<Files>,
    /// Part of the reserve was given up for a running checkpoint: the freed space is for that checkpoint only.
    is_lent: AtomicBool,
}

#[derive(Default)]
struct Files {
    /// Number and length; the last one is given up first.
    pieces: Vec<(u64, u64)>,
    next_number: u64,
    /// Bytes that should be set aside, and the minimum where there is no space for all of them.
    wanted: u64,
    least: u64,
}

impl Files {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|&(_, len)| len).sum()
    }
}

impl Reserve {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are set aside, and bytes that should be.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let files = self.lock();
        (files.bytes(), files.wanted)
    }

    /// Whether newly freed space must not be used for segments.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }
}

impl Directory {
    /// Takes over the existing files of a reserve.
    pub(crate) fn adopt_reserve(&self, names: &[String]) {
        let mut files = self.reserve().lock();
        for name in names {
            let FileName::Reserve(number) = FileName::parse(name) else { continue };
            // A file that cannot be opened is useless, but not an error.
            let Ok(len) = self.open(name).and_then(|file| file.len()) else { continue };
            files.next_number = files.next_number.max(number.saturating_add(1));
            files.pieces.push((number, len));
        }
        // Keeps the reserve from being cut before the wanted size is known.
        files.wanted = files.bytes();
    }

    /// Sets `wanted` bytes aside; an error if there is not enough space, and then only `least` may be set aside.
    pub(crate) fn provide_reserve(&self, least: u64, wanted: u64) -> Result<(), LogError> {
        let mut files = self.reserve().lock();
        (files.least, files.wanted) = (least, wanted);
        // Not at every deletion of a few items.
        while files.bytes() > wanted.saturating_mul(2).saturating_add(PIECE) {
            let Some((number, _)) = files.pieces.pop() else { break };
            self.discard(&reserve_name(number));
        }
        self.refill(&mut files)
    }

    fn refill(&self, files: &mut Files) -> Result<(), LogError> {
        let missing = files.wanted.saturating_sub(files.bytes());
        match self.free_bytes() {
            // A reserve too small for a checkpoint is useless; leave the space to other users.
            Some(free) if free < missing => {
                self.fill(files, files.least)?;
                let what = format!("{missing} bytes more are wanted, {free} are free");
                let source = io::Error::new(io::ErrorKind::StorageFull, what);
                Err(LogError::io("set space aside in", "the log directory", source))
            }
            _ => self.fill(files, files.wanted),
        }
    }

    fn fill(&self, files: &mut Files, wanted: u64) -> Result<(), LogError> {
        let mut piece = (wanted / PIECES).next_multiple_of(PIECE).max(PIECE);
        loop {
            let missing = wanted.saturating_sub(files.bytes());
            if missing == 0 {
                return Ok(());
            }
            let (number, len) = (files.next_number, missing.clamp(SMALLEST, piece.max(SMALLEST)));
            files.next_number += 1;
            let name = reserve_name(number);
            match self.create(&name).and_then(|file| file.allocate(len)) {
                Ok(()) => files.pieces.push((number, len)),
                Err(error) => {
                    self.discard(&name);
                    // If there is not enough space for this size, a smaller size may fit.
                    if !error.is_disk_full() || piece <= SMALLEST {
                        return Err(error);
                    }
                    piece = len / 2;
                }
            }
        }
    }

    /// Runs an operation that may find no space, and gives up the reserve for it, file by file.
    pub(crate) fn with_reserve<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        loop {
            match attempt() {
                Err(full @ LogError::DiskFull { .. }) => {
                    if !self.give_up_piece() {
                        return Err(full);
                    }
                }
                done => return done,
            }
        }
    }

    fn give_up_piece(&self) -> bool {
        let mut files = self.reserve().lock();
        let Some((number, _)) = files.pieces.pop() else { return false };
        self.reserve().is_lent.store(true, Ordering::Release);
        // If it could not be removed, nothing was freed, and the next one is tried.
        self.discard(&reserve_name(number));
        true
    }

    /// The space that was given up is no longer in use: it is set aside again, as far as possible.
    pub(crate) fn return_reserve(&self) {
        if self.reserve().is_lent() {
            // A failure is ignored: the missing bytes can be queried, and the next caller tries again.
            let _ = self.refill(&mut self.reserve().lock());
            self.reserve().is_lent.store(false, Ordering::Release);
        }
    }
}
