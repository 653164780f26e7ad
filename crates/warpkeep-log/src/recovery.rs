//! Reads a log directory after a crash or a clean close. Nothing is changed until [`Recovery::start`].

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use warpkeep_core::{Change, Lsn};

use crate::block::Seed;
use crate::checkpoint::{CheckpointInfo, CheckpointReader};
use crate::disk::Disk;
use crate::error::LogError;
use crate::files::Directory;
use crate::frame::{OwnedRecord, Record, Records};
use crate::image_note::ImageNote;
use crate::layout::{FileName, PAGE, checkpoint_name, segment_name};
use crate::log::{Beginning, Log};
use crate::manifest::{Found, Manifest};
use crate::options::LogOptions;
use crate::report::RecoveryReport;
use crate::scan::{self, Chain, ScannedSegment, SegmentReader};
use crate::site;
use crate::tail::Finished;

/// Bytes of a frame that are rewritten in one write.
const COPY: u64 = 1 << 20;

/// A log directory that has been read and found good.
///
/// First [`load_checkpoint`](Recovery::load_checkpoint), then [`redo`](Recovery::redo), then
/// [`start`](Recovery::start):
///
/// ```
/// use std::sync::Arc;
/// use warpkeep_core::{Change, ChangeKind, Durability};
/// use warpkeep_log::{ChangeBatch, Log, LogError, LogOptions, OsDisk, Recovery};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path();
///
/// let log = Log::create(Arc::new(OsDisk::open(path)?), [7; 16], 1, LogOptions::default())?;
/// let mut batch = ChangeBatch::new();
/// batch.push(&Change { table: 1, kind: ChangeKind::Put, version: 1, key: b"warp", value: b"weft" })?;
/// let lsn = log.append(&batch, Durability::Power, |_| ())?;
/// log.wait_durable(lsn)?;
/// drop(log); // as good as a crash
///
/// let recovery = Recovery::open(Arc::new(OsDisk::open(path)?), LogOptions::default())?;
/// assert!(!recovery.closed_cleanly());
/// let mut values = Vec::new();
/// recovery.redo(|record| {
///     values.extend(record.changes().map(|change| change.value.to_vec()));
///     Ok::<(), LogError>(())
/// })?;
/// assert_eq!(values, [b"weft"]);
/// let log = recovery.start(2, false)?;
/// log.close()?;
/// # Ok::<(), LogError>(())
/// ```
#[derive(Debug)]
pub struct Recovery {
    directory: Directory,
    options: LogOptions,
    manifest: Manifest,
    checkpoint: Option<CheckpointInfo>,
    chain: Chain,
    names: Vec<String>,
    settled: Cell<bool>,
}

impl Recovery {
    /// Reads manifest and log, checks the ends of the checkpoint, and finds where the log ends.
    pub fn open(disk: Arc<dyn Disk>, options: LogOptions) -> Result<Recovery, LogError> {
        options.check()?;
        let begun = Instant::now();
        let directory = Directory::new(disk);
        let names = directory.list()?;
        let Some(Found { manifest, damaged_copy }) = Manifest::read(&directory)? else {
            return Err(match crate::log::file_with_data(&directory, &names)? {
                Some(file) => LogError::ManifestMissing { file },
                None => LogError::NoLog,
            });
        };
        let mut numbers = Vec::new();
        let mut foreign_files = Vec::new();
        for name in &names {
            match FileName::parse(name) {
                FileName::Segment(number) if number >= manifest.first_segment => numbers.push(number),
                FileName::Foreign => foreign_files.push(name.clone()),
                _ => {}
            }
        }
        numbers.sort_unstable();
        if numbers.first() != Some(&manifest.first_segment) {
            return Err(LogError::SegmentMissing { file: segment_name(manifest.first_segment) });
        }
        let checkpoint = match manifest.checkpoint {
            0 => None,
            _ => Some(CheckpointReader::open(&directory, &manifest)?.info()),
        };
        let mut chain = scan::scan(&directory, &manifest, &numbers)?;
        check_end(&manifest, checkpoint.as_ref(), chain.last)?;
        foreign_files.sort_unstable();
        chain.report.foreign_files = foreign_files;
        chain.report.damaged_manifest = damaged_copy;
        chain.report.seconds = begun.elapsed().as_secs_f64();
        Ok(Recovery { directory, options, manifest, checkpoint, chain, names, settled: Cell::new(false) })
    }

    /// The store the log belongs to.
    pub fn store_id(&self) -> [u8; 16] {
        self.manifest.store_id
    }

    /// The epoch of the last opening for writing.
    pub fn epoch(&self) -> u64 {
        self.manifest.epoch
    }

    /// Whether the log was closed, rather than left.
    pub fn closed_cleanly(&self) -> bool {
        self.manifest.clean_at.is_some()
    }

    /// The last record in the log, or the start of the checkpoint if no record comes after it.
    pub fn last_lsn(&self) -> Lsn {
        self.chain.last
    }

    /// The checkpoint to begin with.
    pub fn checkpoint(&self) -> Option<CheckpointInfo> {
        self.checkpoint
    }

    /// The image that the log was last used with, if that was noted.
    pub fn image(&self) -> Option<&ImageNote> {
        self.manifest.image.as_ref()
    }

    /// Sets the image that the log is used with from [`Recovery::start`] on; `None` if the image has no path.
    pub fn note_image(&mut self, image: Option<ImageNote>) {
        self.manifest.image = image;
    }

    /// The recovery report.
    pub fn report(&self) -> &RecoveryReport {
        &self.chain.report
    }

    /// Gives every item of the checkpoint to `each`; none if there is no checkpoint.
    ///
    /// Damage inside the checkpoint is found here, possibly after some items were given out.
    pub fn load_checkpoint<E: From<LogError>>(
        &self,
        each: impl FnMut(Change<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.checkpoint {
            None => Ok(()),
            Some(_) => CheckpointReader::open(&self.directory, &self.manifest)?.read(each),
        }
    }

    /// Gives every record after the checkpoint's start to `each`, in the order they were logged.
    pub fn redo<E: From<LogError>>(
        &self,
        mut each: impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.manifest.checkpoint_start;
        for segment in self.chain.segments.iter().filter(|segment| segment.last > start) {
            self.replay(segment, start, Lsn::from_bits(u64::MAX), &mut each)?;
        }
        Ok(())
    }

    /// The record of that number, if the log still has it: used to finish a commit that is pending in the image.
    pub fn find(&self, lsn: Lsn) -> Result<Option<OwnedRecord>, LogError> {
        let mut found = None;
        let segment =
            self.chain.segments.iter().find(|segment| (segment.first..=segment.last).contains(&lsn));
        if let (Some(segment), Some(before)) = (segment, lsn.bits().checked_sub(1)) {
            self.replay(segment, Lsn::from_bits(before), lsn, &mut |record: Record<'_>| {
                found = Some(record.to_owned());
                Ok::<(), LogError>(())
            })?;
        }
        Ok(found)
    }

    /// Gives the records of a segment from after `from` up to `to`.
    fn replay<E: From<LogError>>(
        &self,
        segment: &ScannedSegment,
        from: Lsn,
        to: Lsn,
        each: &mut impl FnMut(Record<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let seed = Seed::of(&self.manifest.store_id);
        let mut reader = SegmentReader::open(&self.directory, seed, segment.number)?;
        let mut payload = Vec::new();
        let mut offset = PAGE;
        let mut last = segment.first;
        while offset < segment.end {
            let changed = |offset, what: &str| LogError::Corrupt {
                file: segment_name(segment.number),
                offset,
                after: last,
                what: what.to_owned(),
            };
            let frame = reader.plausible(offset)?;
            let Some((bytes, header)) = frame else {
                return Err(changed(offset, "a frame that was good is damaged now").into());
            };
            if header.last > from && header.first <= to {
                if !reader.blocks.payload(offset, &bytes, &mut payload)? {
                    return Err(changed(offset, "a frame that was good is damaged now").into());
                }
                for record in Records::new(&header, &payload) {
                    let record = record.map_err(|what| changed(offset, what))?;
                    if record.lsn() > from && record.lsn() <= to {
                        each(record)?;
                    }
                }
            }
            last = header.last;
            offset += crate::frame::footprint(crate::block::payload_len(&bytes));
        }
        Ok(())
    }

    /// Makes the recovered records durable: the last frame may be in the page cache only. Call it before any
    /// durable action that relies on a record, such as finishing a pending commit; [`Recovery::start`] does it in
    /// any case.
    pub fn settle(&self) -> Result<(), LogError> {
        if self.settled.get() {
            return Ok(());
        }
        if let Some(segment) = self.chain.segments.last() {
            self.write_again(segment)?;
        }
        self.settled.set(true);
        Ok(())
    }

    /// Makes the directory ready for writing and begins a new segment.
    ///
    /// `epoch` must be larger than every epoch before it. `gap` means that the image holds effects which this log
    /// lacks, because it was re-attached after a crash. Then logged records do not count until a checkpoint
    /// completes, and `Power` appends are refused.
    pub fn start(self, epoch: u64, gap: bool) -> Result<Log, LogError> {
        let last = self.manifest.epoch;
        if epoch <= last || epoch > Lsn::MAX_EPOCH {
            return Err(LogError::BadEpoch { asked: epoch, last });
        }
        let mut next_number = self.manifest.first_segment;
        for name in &self.names {
            match FileName::parse(name) {
                FileName::Temporary => self.directory.discard(name),
                FileName::Segment(number) => {
                    next_number = next_number.max(number.checked_add(1).ok_or_else(|| {
                        LogError::ForeignFile { file: name.clone(), what: "numbers have run out".to_owned() }
                    })?);
                }
                _ => {}
            }
        }
        self.directory.adopt_reserve(&self.names);
        self.settle()?;
        let start = self.manifest.checkpoint_start;
        let kept: Vec<Finished> = self
            .chain
            .segments
            .iter()
            .filter(|segment| segment.last > start)
            .map(|segment| Finished { number: segment.number, last: segment.last })
            .collect();
        let owed = if gap { self.manifest.checkpoint + 1 } else { 0 };
        let log = Log::begin(Beginning {
            directory: self.directory.clone(),
            options: self.options.clone(),
            manifest: Manifest { epoch, ..self.manifest.clone() },
            last: self.chain.last,
            finished: kept.clone(),
            next_number,
            since_checkpoint: self.chain.since_checkpoint,
            after_checkpoint: owed,
        })?;
        // Only now: the manifest that was read may not have been durable, but this one is, and it needs none of
        // these files. A file that cannot be removed, or that comes back after a crash, is harmless: it counts
        // neither now nor after the next checkpoint.
        for name in &self.names {
            let needed = match FileName::parse(name) {
                FileName::Segment(number) => kept.iter().any(|segment| segment.number == number),
                FileName::Checkpoint(_) => *name == checkpoint_name(self.manifest.checkpoint),
                _ => true,
            };
            if !needed {
                self.directory.discard(name);
            }
        }
        Ok(log)
    }

    /// Writes the last frame again and syncs it. It may be in the page cache only, and if a sync of it has failed,
    /// only a page that is dirty again is sure to be written. All frames before it are durable.
    fn write_again(&self, segment: &ScannedSegment) -> Result<(), LogError> {
        let file = self.directory.open(&segment_name(segment.number))?;
        let mut bytes = Vec::new();
        let mut at = segment.last_frame;
        while at < segment.end {
            let len = (segment.end - at).min(COPY);
            bytes.resize(len as usize, 0);
            let read = file.read(&mut bytes, at)?;
            file.write(&bytes[..read], at)?;
            at += len;
        }
        file.sync(site::REDO_FRAME)
    }
}

/// Checks that the log ends where manifest and checkpoint say it must.
pub(crate) fn check_end(
    manifest: &Manifest,
    checkpoint: Option<&CheckpointInfo>,
    found: Lsn,
) -> Result<(), LogError> {
    if found.epoch() > manifest.epoch {
        let what = format!("it is of epoch {}, but the log goes on to record {found}", manifest.epoch);
        return Err(LogError::ManifestDamaged { what });
    }
    if let Some(checkpoint) = checkpoint.filter(|checkpoint| checkpoint.end > found) {
        let promise = "the checkpoint was made when it was durable to";
        return Err(LogError::EndMissing { found, expected: checkpoint.end, promise });
    }
    match manifest.clean_at {
        Some(expected) if expected != found => {
            Err(LogError::EndMissing { found, expected, promise: "it was closed cleanly at" })
        }
        _ => Ok(()),
    }
}
