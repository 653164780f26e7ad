//! A copy of a log that is in use: checkpoint, segments, manifest, as they would be found after a crash right now.

use std::sync::{Arc, PoisonError};

use serde::Serialize;
use warpkeep_core::Lsn;

use crate::block::{Seed, payload_len};
use crate::disk::Disk;
use crate::error::LogError;
use crate::files::{Directory, File};
use crate::layout::{MANIFEST, PAGE, SECOND_MANIFEST, checkpoint_name, segment_name};
use crate::log::Log;
use crate::manifest::Manifest;
use crate::scan::SegmentReader;
use crate::segment::SegmentPage;
use crate::site;

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CopiedFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of all its bytes.
    pub crc32c: u32,
}

/// The contents of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogCopy {
    /// Its files; the manifest is the last.
    pub files: Vec<CopiedFile>,
    /// Every record up to this one is in it.
    pub last_lsn: Lsn,
}

impl Log {
    /// Copies everything a rebuild needs to an empty directory, while writers go on: everything appended before the call
    /// is in the copy. Checkpoints wait meanwhile, for they would remove what is being copied.
    ///
    /// The files of the copy are durable when this returns; syncing the directory's own entry is left to the caller.
    /// `progress` receives the bytes copied so far and the estimated total.
    pub fn copy_to(
        &self,
        to: Arc<dyn Disk>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LogCopy, LogError> {
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        self.directory.poison().check()?;
        if self.owes_checkpoint() {
            return Err(LogError::CheckpointNeeded);
        }
        let last_lsn = self.last_lsn();
        self.wait_durable(last_lsn)?;
        // Later bytes may be half written when they are read.
        let (finished, current, end) = self.commit.tail().durable(manifest.first_segment);

        let to = Directory::new(to);
        let mut copier =
            Copier { from: &self.directory, to: &to, progress, done: 0, total: 0, files: vec![] };
        copier.total = manifest.checkpoint_bytes + end + 2 * PAGE;
        for &number in &finished {
            copier.total += self.directory.open(&segment_name(number))?.len()?;
        }
        if manifest.checkpoint != 0 {
            copier.checkpoint(&checkpoint_name(manifest.checkpoint))?;
        }
        for number in finished {
            copier.segment(&manifest, number, None)?;
        }
        copier.segment(&manifest, current, Some(end))?;
        // A copy has no image; restoring it creates one.
        Manifest { generation: 1, clean_at: None, image: None, ..manifest.clone() }.write(&to)?;
        copier.note_manifest()?;
        let files = copier.files;
        Ok(LogCopy { files, last_lsn })
    }
}

struct Copier<'a> {
    from: &'a Directory,
    to: &'a Directory,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
    files: Vec<CopiedFile>,
}

impl Copier<'_> {
    fn checkpoint(&mut self, name: &str) -> Result<(), LogError> {
        let (from, to) = (self.from.open(name)?, self.to.create(name)?);
        let bytes = from.len()?;
        let crc32c = self.bytes(&from, &to, 0..bytes, 0)?;
        self.keep(&to, bytes, crc32c)
    }

    /// Copies the frames of a segment. Its first page is rewritten, because the copy is only as long as the frames.
    fn segment(&mut self, manifest: &Manifest, number: u64, end: Option<u64>) -> Result<(), LogError> {
        let name = segment_name(number);
        let room = self.from.open(&name)?.len()?;
        let end = match end {
            Some(end) => end,
            None => frames_end(self.from, manifest, number)?,
        };
        let (from, to) = (self.from.open(&name)?, self.to.create(&name)?);
        let page = SegmentPage { store_id: manifest.store_id, number, len: end }.to_page();
        let page = page.sealed();
        to.write(&page[..], 0)?;
        self.done += PAGE;
        let crc32c = self.bytes(&from, &to, PAGE..end, crc32c::crc32c(&page[..]))?;
        // The total included space that was allocated and never used.
        self.total -= room.saturating_sub(end).min(self.total.saturating_sub(self.done));
        self.keep(&to, end, crc32c)
    }

    fn bytes(
        &mut self,
        from: &File,
        to: &File,
        range: std::ops::Range<u64>,
        mut crc: u32,
    ) -> Result<u32, LogError> {
        let mut piece = vec![0; PIECE];
        let mut at = range.start;
        while at < range.end {
            let want = PIECE.min((range.end - at) as usize);
            let read = from.read(&mut piece[..want], at)?;
            if read < want {
                let what = "it became shorter while it was copied".to_owned();
                return Err(LogError::ForeignFile { file: from.name().to_owned(), what });
            }
            to.write(&piece[..want], at)?;
            crc = crc32c::crc32c_append(crc, &piece[..want]);
            at += want as u64;
            self.done += want as u64;
            (self.progress)(self.done, self.total.max(self.done));
        }
        Ok(crc)
    }

    fn keep(&mut self, to: &File, bytes: u64, crc32c: u32) -> Result<(), LogError> {
        to.sync(site::COPY_FILE)?;
        self.files.push(CopiedFile { name: to.name().to_owned(), bytes, crc32c });
        Ok(())
    }

    fn note_manifest(&mut self) -> Result<(), LogError> {
        for name in [SECOND_MANIFEST, MANIFEST] {
            let mut bytes = vec![0; PAGE as usize];
            let read = self.to.open(name)?.read(&mut bytes, 0)?;
            let crc32c = crc32c::crc32c(&bytes[..read]);
            self.files.push(CopiedFile { name: name.to_owned(), bytes: read as u64, crc32c });
            self.done += read as u64;
        }
        (self.progress)(self.done, self.done);
        Ok(())
    }
}

/// Where the frames of a finished segment end. Unused space follows, or the remains of a frame that a crash
/// interrupted.
fn frames_end(directory: &Directory, manifest: &Manifest, number: u64) -> Result<u64, LogError> {
    let mut reader = SegmentReader::open(directory, Seed::of(&manifest.store_id), number)?;
    let mut end = PAGE;
    while let Some((header, _)) = reader.frame(end)? {
        end += crate::frame::footprint(payload_len(&header));
    }
    Ok(end)
}
