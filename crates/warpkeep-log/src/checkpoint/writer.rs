//! Writes a checkpoint, block by block.

use warpkeep_core::{Change, ChangeKind, Lsn};

use super::{BLOCK_MAGIC, BLOCK_UNIT, CheckpointInfo, FOOTER_MAGIC, MAGIC};
use crate::block::{self, Seed};
use crate::change;
use crate::error::LogError;
use crate::files::{Directory, File};
use crate::layout::{BLOCK_HEADER, PAGE, put_u64};
use crate::page::Page;
use crate::site;

/// A block is closed once it is this long.
const BLOCK_TARGET: usize = 256 << 10;
/// Bytes that may be dirty before they are synced. A concurrent commit waits for at most this much write-back.
const PACE: u64 = 8 << 20;

/// Takes the items of a checkpoint.
pub struct CheckpointWriter {
    /// Its reserve is for checkpoints.
    directory: Directory,
    file: File,
    seed: Seed,
    id: u64,
    start: Lsn,
    /// The block being filled, from its header on.
    block: Vec<u8>,
    block_changes: u64,
    block_index: u64,
    offset: u64,
    synced: u64,
    changes: u64,
    /// A write failed. Syncing again proves nothing about pages whose write-back failed, so the file is given up.
    broken: bool,
}

impl std::fmt::Debug for CheckpointWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointWriter")
            .field("id", &self.id)
            .field("start", &self.start)
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}

impl CheckpointWriter {
    pub(crate) fn new(
        directory: &Directory,
        file: File,
        store_id: &[u8; 16],
        id: u64,
        start: Lsn,
    ) -> Result<CheckpointWriter, LogError> {
        let mut page = Page::new(MAGIC, store_id);
        page.set_word(32, id);
        page.set_word(40, start.bits());
        let page = page.sealed();
        directory.with_reserve(|| file.write(&page[..], 0))?;
        Ok(CheckpointWriter {
            directory: directory.clone(),
            file,
            seed: Seed::of(store_id),
            id,
            start,
            block: vec![0; BLOCK_HEADER],
            block_changes: 0,
            block_index: 0,
            offset: PAGE,
            synced: 0,
            changes: 0,
            broken: false,
        })
    }

    /// Adds an item. A checkpoint holds only live items, so a delete is refused.
    pub fn push(&mut self, change: &Change<'_>) -> Result<(), LogError> {
        if change.kind != ChangeKind::Put {
            return Err(LogError::BadChange { what: "a delete in a checkpoint" });
        }
        self.check()?;
        change::encode(change, &mut self.block)?;
        self.block_changes += 1;
        self.changes += 1;
        if self.block.len() < BLOCK_TARGET {
            return Ok(());
        }
        let written = self.write_block(BLOCK_MAGIC, self.block_changes, Lsn::ZERO).and_then(|()| self.pace());
        self.broken = written.is_err();
        written
    }

    fn pace(&mut self) -> Result<(), LogError> {
        if self.offset - self.synced >= PACE {
            self.file.sync(site::CHECKPOINT_PACE)?;
            self.synced = self.offset;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), LogError> {
        if self.broken {
            let source = std::io::Error::other("an earlier write of it failed");
            return Err(LogError::io("complete", self.file.name(), source));
        }
        Ok(())
    }

    /// How many items were pushed.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn write_block(&mut self, magic: &[u8; 4], changes: u64, end: Lsn) -> Result<(), LogError> {
        put_u64(&mut self.block, 16, self.id);
        put_u64(&mut self.block, 24, self.block_index);
        put_u64(&mut self.block, 32, changes);
        put_u64(&mut self.block, 40, end.bits());
        block::seal(&mut self.block, magic, None, self.seed);
        let padded = self.block.len().next_multiple_of(BLOCK_UNIT as usize);
        self.block.resize(padded, 0);
        self.directory.with_reserve(|| self.file.write(&self.block, self.offset))?;
        self.offset += padded as u64;
        self.block_index += 1;
        self.block.truncate(BLOCK_HEADER);
        self.block_changes = 0;
        Ok(())
    }

    /// Completes the file and makes it durable.
    pub(crate) fn finish(mut self, end: Lsn) -> Result<CheckpointInfo, LogError> {
        self.check()?;
        if self.block_changes > 0 {
            self.write_block(BLOCK_MAGIC, self.block_changes, Lsn::ZERO)?;
        }
        self.write_block(FOOTER_MAGIC, self.changes, end)?;
        self.file.sync(site::CHECKPOINT_FILE)?;
        Ok(CheckpointInfo { id: self.id, start: self.start, end, changes: self.changes, bytes: self.offset })
    }
}
