//! Reads a checkpoint, block by block.

use warpkeep_core::{Change, ChangeKind, Lsn};

use super::{BLOCK_MAGIC, BLOCK_UNIT, CheckpointInfo, FOOTER_MAGIC, MAGIC};
use crate::block::{self, BlockHeader, BlockReader, Seed};
use crate::change::Changes;
use crate::error::LogError;
use crate::files::Directory;
use crate::layout::{BLOCK_HEADER, PAGE, checkpoint_name, u64_at};
use crate::manifest::Manifest;
use crate::page::Page;

pub(crate) struct CheckpointReader {
    blocks: BlockReader,
    info: CheckpointInfo,
}

/// The contents of a checkpoint's first page and footer.
pub(crate) struct Described {
    pub(crate) store_id: [u8; 16],
    pub(crate) start: Lsn,
    pub(crate) changes: u64,
    pub(crate) bytes: u64,
}

impl Described {
    /// Reads the first page and the footer without checking them; opening the checkpoint checks them.
    pub(crate) fn read(directory: &Directory, id: u64) -> Result<Described, LogError> {
        let name = checkpoint_name(id);
        let damaged = |offset: u64, what: &str| LogError::CheckpointDamaged {
            file: name.clone(),
            offset,
            what: what.to_owned(),
        };
        let file = directory.open(&name)?;
        let bytes = file.len()?;
        let mut page = vec![0; PAGE as usize];
        let read = file.read(&mut page, 0)?;
        let page = Page::check(&page[..read], MAGIC)
            .map_err(|fault| fault.into_error(&name, |what| damaged(0, what)))?;
        let footer_at = bytes.saturating_sub(BLOCK_HEADER as u64);
        let mut footer = [0; BLOCK_HEADER];
        if footer_at < PAGE || file.read(&mut footer, footer_at)? < BLOCK_HEADER {
            return Err(damaged(bytes, "the footer is missing"));
        }
        let (store_id, start) = (page.store_id(), Lsn::from_bits(page.word(40)));
        Ok(Described { store_id, start, changes: u64_at(&footer, 32), bytes })
    }
}

impl CheckpointReader {
    /// Opens the checkpoint that the manifest names, and checks everything but the blocks between first page and
    /// footer: those are checked as they are read.
    pub(crate) fn open(directory: &Directory, manifest: &Manifest) -> Result<CheckpointReader, LogError> {
        let name = checkpoint_name(manifest.checkpoint);
        let damaged = |offset: u64, what: &str| LogError::CheckpointDamaged {
            file: name.clone(),
            offset,
            what: what.to_owned(),
        };
        let file = directory
            .open_if_there(&name)?
            .ok_or_else(|| damaged(0, "the manifest names it, but the file is missing"))?;
        let mut blocks = BlockReader::new(file, Seed::of(&manifest.store_id))?;
        if blocks.len() != manifest.checkpoint_bytes || blocks.len() < PAGE + BLOCK_HEADER as u64 {
            let what = format!("it has {} bytes instead of {}", blocks.len(), manifest.checkpoint_bytes);
            return Err(damaged(blocks.len().min(manifest.checkpoint_bytes), &what));
        }
        let page = Page::check(blocks.peek(0, PAGE as usize)?, MAGIC)
            .map_err(|fault| fault.into_error(&name, |what| damaged(0, what)))?;
        if page.store_id() != manifest.store_id {
            return Err(LogError::ForeignStore {
                file: name.clone(),
                expected: manifest.store_id,
                found: page.store_id(),
            });
        }
        if page.word(32) != manifest.checkpoint || page.word(40) != manifest.checkpoint_start.bits() {
            return Err(damaged(0, "it is not the checkpoint that the manifest means"));
        }
        let footer_at = blocks.len() - BLOCK_HEADER as u64;
        let footer = blocks.header(footer_at)?.filter(|header| header[..4] == *FOOTER_MAGIC);
        let Some(footer) = footer else { return Err(damaged(footer_at, "the footer is missing")) };
        let info = CheckpointInfo {
            id: manifest.checkpoint,
            start: manifest.checkpoint_start,
            end: Lsn::from_bits(u64_at(&footer, 40)),
            changes: manifest.checkpoint_changes,
            bytes: blocks.len(),
        };
        let good = block::payload_len(&footer) == 0
            && blocks.verify(footer_at, &footer)?
            && u64_at(&footer, 16) == info.id
            && u64_at(&footer, 32) == info.changes
            && info.end >= info.start;
        if !good {
            return Err(damaged(footer_at, "the footer is not that of the manifest's checkpoint"));
        }
        Ok(CheckpointReader { blocks, info })
    }

    pub(crate) fn info(&self) -> CheckpointInfo {
        self.info
    }

    /// Gives every item to `each`, in the order they were written.
    pub(crate) fn read<E: From<LogError>>(
        mut self,
        mut each: impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let footer_at = self.info.bytes - BLOCK_HEADER as u64;
        let mut offset = PAGE;
        let mut payload = Vec::new();
        let mut seen = 0;
        let mut index = 0;
        while offset < footer_at {
            let header = self.block_at(offset, index)?;
            if !self.blocks.payload(offset, &header, &mut payload)? {
                return Err(self.damaged(offset, "a block fails its checksum").into());
            }
            let changes = Changes::checked(&payload, u64_at(&header, 32))
                .filter(|changes| changes.clone().all(|change| change.kind == ChangeKind::Put))
                .ok_or_else(|| self.damaged(offset, "a block holds something else than items"))?;
            seen += changes.len() as u64;
            for change in changes {
                each(change)?;
            }
            offset += (BLOCK_HEADER as u64 + payload.len() as u64).next_multiple_of(BLOCK_UNIT);
            index += 1;
        }
        if offset != footer_at || seen != self.info.changes {
            let what = format!("it holds {seen} items instead of {}", self.info.changes);
            return Err(self.damaged(offset, &what).into());
        }
        Ok(())
    }

    fn block_at(&mut self, offset: u64, index: u64) -> Result<BlockHeader, LogError> {
        let id = self.info.id;
        self.blocks
            .header(offset)?
            .filter(|header| {
                header[..4] == *BLOCK_MAGIC && u64_at(header, 16) == id && u64_at(header, 24) == index
            })
            .ok_or_else(|| self.damaged(offset, "a block's header is damaged"))
    }

    fn damaged(&self, offset: u64, what: &str) -> LogError {
        LogError::CheckpointDamaged {
            file: self.blocks.file().name().to_owned(),
            offset,
            what: what.to_owned(),
        }
    }
}
