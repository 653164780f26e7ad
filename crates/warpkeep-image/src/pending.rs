//! Batches between log and image: which log records an image may still lack.
//!
//! A batch committed with `Power` is durable in the log before its effects reach the image. If the process
//! dies in between, the opener must finish it, and must not touch any batch that was finished, because later
//! writes to the same keys may not be in the log. So each such batch is named in the image from before its
//! record can reach the log until after its effects are durable.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use warpkeep_core::Lsn;

use crate::check::{seal40, unseal40};
use crate::layout::{PENDING, PENDING_COUNT};
use crate::{Image, ImageError, Persist};

/// Which lines are taken by this process.
pub(crate) struct PendingTable {
    lines: Mutex<Lines>,
    returned: Condvar,
}

struct Lines {
    free: Vec<usize>,
    /// Lines whose batch was abandoned; they stay named until the image is opened again.
    abandoned: usize,
}

impl PendingTable {
    pub(crate) fn new() -> PendingTable {
        let lines = Lines { free: (0..PENDING_COUNT).rev().collect(), abandoned: 0 };
        PendingTable { lines: Mutex::new(lines), returned: Condvar::new() }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line of the pending table, held by one committing batch.
pub struct Pending<'a, P: Persist> {
    image: &'a Image<P>,
    line: usize,
    named: bool,
}

fn line_offset(line: usize) -> u64 {
    PENDING + 64 * line as u64
}

impl<P: Persist> Image<P> {
    /// The batches that were being committed when the last holder stopped: finish those that are in the log
    /// before [`Image::begin`], which drops them all.
    pub fn pending(&self) -> Result<Vec<Lsn>, ImageError> {
        let epoch = self.epoch();
        let mut found = Vec::new();
        for line in 0..PENDING_COUNT {
            let at = line_offset(line);
            let word = self.load(at);
            if word != 0 {
                let counter = unseal40(line as u64, word)
                    .ok_or_else(|| self.damaged(format!("line {line} of the pending commits")))?;
                found.push(Lsn::new(epoch, counter));
            }
            for rest in 1..8 {
                if self.load(at + 8 * rest) != 0 {
                    return Err(self.damaged(format!("line {line} of the pending commits")));
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Drops the batches of the last holder, durably: a line that came back after the epoch has changed would name
    /// a record that never existed.
    pub(crate) fn forget_pending(&self) {
        let mut any = false;
        for at in (0..PENDING_COUNT).map(line_offset).filter(|&at| self.load(at) != 0) {
            self.store(at, 0);
            self.flush("image.pending.recovered", at, 8);
            any = true;
        }
        if any {
            self.fence("image.pending.recovered");
        }
    }

    /// Takes a line for a batch, waiting while all are taken.
    pub fn claim_pending(&self) -> Result<Pending<'_, P>, ImageError> {
        self.check_writable()?;
        let table = self.pending_table();
        let mut lines = table.lines();
        loop {
            if let Some(line) = lines.free.pop() {
                return Ok(Pending { image: self, line, named: false });
            }
            if lines.abandoned == PENDING_COUNT {
                return Err(ImageError::Invalid(format!(
                    "{PENDING_COUNT} batches were abandoned half committed; close the store and open it again"
                )));
            }
            lines = table.returned.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<P: Persist> Pending<'_, P> {
    /// Names the batch, durably. Call it before the record can reach the log.
    pub fn name(&mut self, lsn: Lsn) {
        let at = line_offset(self.line);
        self.image.store(at, seal40(self.line as u64, lsn.counter()));
        self.image.flush("image.pending.name", at, 8);
        self.image.fence("image.pending.name");
        self.named = true;
    }

    /// The effects of the batch are durable in the image: forgets it and gives the line back.
    pub fn finish(mut self) {
        let at = line_offset(self.line);
        self.image.store(at, 0);
        self.image.flush("image.pending.finish", at, 8);
        self.image.fence("image.pending.finish");
        self.named = false;
    }
}

impl<P: Persist> Drop for Pending<'_, P> {
    fn drop(&mut self) {
        let table = self.image.pending_table();
        let mut lines = table.lines();
        // A batch that was named but not finished (the log failed, or a panic) must stay named, because the next
        // opener decides about it; so its line is not freed.
        match self.named {
            true => lines.abandoned += 1,
            false => lines.free.push(self.line),
        }
        table.returned.notify_all();
    }
}
