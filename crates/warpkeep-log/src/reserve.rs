//! Space set aside in the log directory, so that a full disk can be left again.
//!
//! The reserve is a few files that hold nothing. What leads out of a full disk (a checkpoint, after which old segments
//! can go) or into the store at all (the segment and the manifest of an opening) gives them up one by one when there is
//! no space, and goes on with what that frees. They are made again when there is room. They are never synced and never
//! read, so a crash cannot harm them: whatever is left of them is what the next opening has.

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
    /// Some of it was given up for a checkpoint that is still being made: what it freed is for that one.
    is_lent: AtomicBool,
}

#[derive(Default)]
struct Files {
    /// Number and length, the one to give up next last.
    pieces: Vec<(u64, u64)>,
    next_number: u64,
    /// What should be set aside; and what at least, where there is no space for all of it.
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

    /// Whether space that becomes free now is not for segments.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }
}

impl Directory {
    /// Takes over the files of a reserve that are there already.
    pub(crate) fn adopt_reserve(&self, names: &[String]) {
        let mut files = self.reserve().lock();
        for name in names {
            let FileName::Reserve(number) = FileName::parse(name) else { continue };
            // One that cannot be opened is of no use, and no reason to stop.
            let Ok(len) = self.open(name).and_then(|file| file.len()) else { continue };
            files.next_number = files.next_number.max(number.saturating_add(1));
            files.pieces.push((number, len));
        }
        // So that it is not cut before it is known how much is wanted.
        files.wanted = files.bytes();
    }

    /// Sets `wanted` bytes aside; an error if there is no space for so much, and then it may be `least` only.
    pub(crate) fn provide_reserve(&self, least: u64, wanted: u64) -> Result<(), LogError> {
        let mut files = self.reserve().lock();
        (files.least, files.wanted) = (least, wanted);
        // Not every time that a few items are deleted.
        while files.bytes() > wanted.saturating_mul(2).saturating_add(PIECE) {
            let Some((number, _)) = files.pieces.pop() else { break };
            self.discard(&reserve_name(number));
        }
        self.refill(&mut files)
    }

    fn refill(&self, files: &mut Files) -> Result<(), LogError> {
        let missing = files.wanted.saturating_sub(files.bytes());
        match self.free_bytes() {
            // What is no help to a checkpoint is better left to others.
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
                    // Where there is no space for so much there may be for less.
                    if !error.is_disk_full() || piece <= SMALLEST {
                        return Err(error);
                    }
                    piece = len / 2;
                }
            }
        }
    }

    /// Does what may find no space, and gives up the reserve for it, file by file.
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
        // If it could not be removed, there is as little space as before, and the next one is tried.
        self.discard(&reserve_name(number));
        true
    }

    /// What was given up is no longer in use: it is set aside again, as far as there is space.
    pub(crate) fn return_reserve(&self) {
        if self.reserve().is_lent() {
            // How much is missing can be asked; the next one who provides for it tries again.
            let _ = self.refill(&mut self.reserve().lock());
            self.reserve().is_lent.store(false, Ordering::Release);
        }
    }
}
