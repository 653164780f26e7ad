//! Finds the end of the log: walks the chain of frames through the segments, and distinguishes a write that a crash
//! interrupted from damage that no crash can cause.
//!
//! A frame is written only after the one before it is durable, and every opening begins a new segment. So after
//! the first bad frame there can be no good one in the same segment, and a later segment must take up the chain
//! exactly where it broke off.

use warpkeep_core::Lsn;

use crate::block::{self, BlockHeader, BlockReader, Seed};
use crate::error::LogError;
use crate::files::Directory;
use crate::frame::{self, FRAME_MAGIC, FrameHeader};
use crate::layout::{PAGE, segment_name};
use crate::manifest::Manifest;
use crate::page::{Page, PageFault};
use crate::report::{RecoveryReport, TornTail};
use crate::segment::{SEGMENT_MAGIC, SegmentPage};

/// The part of a segment that counts.
#[derive(Clone, Debug)]
pub(crate) struct ScannedSegment {
    pub(crate) number: u64,
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    /// Where the last frame begins, and where it ends.
    pub(crate) last_frame: u64,
    pub(crate) end: u64,
}

/// The log, as far as it counts.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The segments with frames that count, in order.
    pub(crate) segments: Vec<ScannedSegment>,
    pub(crate) last: Lsn,
    /// Bytes of the frames that hold a record after the checkpoint's start.
    pub(crate) since_checkpoint: u64,
    pub(crate) report: RecoveryReport,
}

/// Reads one segment.
pub(crate) struct SegmentReader {
    pub(crate) blocks: BlockReader,
    number: u64,
}

impl SegmentReader {
    pub(crate) fn open(directory: &Directory, seed: Seed, number: u64) -> Result<SegmentReader, LogError> {
        let file = directory.open(&segment_name(number))?;
        Ok(SegmentReader { blocks: BlockReader::new(file, seed)?, number })
    }

    /// The frame at `offset`, if its header makes sense; the checksum is not verified.
    pub(crate) fn plausible(&mut self, offset: u64) -> Result<Option<(BlockHeader, FrameHeader)>, LogError> {
        let Some(bytes) = self.blocks.header(offset)? else { return Ok(None) };
        Ok(FrameHeader::plausible(&bytes, self.number).map(|header| (bytes, header)))
    }

    /// The frame at `offset`, if it is valid.
    pub(crate) fn frame(&mut self, offset: u64) -> Result<Option<(BlockHeader, FrameHeader)>, LogError> {
        match self.plausible(offset)? {
            Some((bytes, header)) if self.blocks.verify(offset, &bytes)? => Ok(Some((bytes, header))),
            _ => Ok(None),
        }
    }

    /// The first page: `None` if it is what a crash leaves of a page that was never synced.
    fn first_page(&mut self, store_id: &[u8; 16]) -> Result<Option<SegmentPage>, LogError> {
        let bytes = self.blocks.peek(0, PAGE as usize)?;
        let magic = bytes.get(..8).map(|magic| magic == SEGMENT_MAGIC || *magic == [0; 8]);
        let page = Page::check(bytes, SEGMENT_MAGIC);
        let name = self.blocks.file().name();
        let foreign = |what: String| LogError::ForeignFile { file: name.to_owned(), what };
        match page {
            Ok(page) => {
                let page = SegmentPage::from_page(&page);
                if page.store_id != *store_id {
                    let (expected, found) = (*store_id, page.store_id);
                    return Err(LogError::ForeignStore { file: name.to_owned(), expected, found });
                }
                if page.number != self.number {
                    return Err(foreign(format!("its first page says it is segment {}", page.number)));
                }
                Ok(Some(page))
            }
            Err(PageFault::Damaged(_)) if magic == Some(false) => {
                Err(foreign("it does not begin like a segment".to_owned()))
            }
            Err(PageFault::Damaged(_)) => Ok(None),
            Err(PageFault::Newer(version)) => Err(LogError::NewerVersion { file: name.to_owned(), version }),
        }
    }
}

/// The contents of a segment after its last valid frame.
struct Rest {
    /// Bytes up to the last page that is not all zeros.
    bytes: u64,
    /// A valid frame, where none can be.
    frame: Option<(u64, FrameHeader)>,
}

struct Walk<'a> {
    manifest: &'a Manifest,
    /// The last record seen; `None` until the first frame determines where the chain begins.
    last: Option<Lsn>,
    segments: Vec<ScannedSegment>,
    since_checkpoint: u64,
    report: RecoveryReport,
}

/// Walks the segments of these numbers, which are in ascending order.
pub(crate) fn scan(directory: &Directory, manifest: &Manifest, numbers: &[u64]) -> Result<Chain, LogError> {
    let seed = Seed::of(&manifest.store_id);
    let report = RecoveryReport::default();
    let mut walk = Walk { manifest, last: None, segments: Vec::new(), since_checkpoint: 0, report };
    for &number in numbers {
        walk.segment(&mut SegmentReader::open(directory, seed, number)?)?;
    }
    let last = walk.last.unwrap_or(manifest.checkpoint_start);
    walk.report.last_lsn = last;
    walk.report.segments = numbers.len() as u64;
    let Walk { segments, since_checkpoint, report, .. } = walk;
    Ok(Chain { segments, last, since_checkpoint, report })
}

impl Walk<'_> {
    fn segment(&mut self, reader: &mut SegmentReader) -> Result<(), LogError> {
        let page = reader.first_page(&self.manifest.store_id)?;
        let mut offset = PAGE;
        let mut counted: Option<ScannedSegment> = None;
        let mut unsealed = false;
        while let Some((bytes, header)) = reader.frame(offset)? {
            if page.is_none() {
                return Err(self.corrupt(reader, 0, "the first page is damaged, but frames follow"));
            }
            let end = offset + frame::footprint(block::payload_len(&bytes));
            if self.is_unsealed(&header) {
                if counted.is_some() {
                    return Err(self.corrupt(
                        reader,
                        offset,
                        "a frame waits for a checkpoint, those before do not",
                    ));
                }
                unsealed = true;
            } else {
                if unsealed {
                    return Err(self.corrupt(reader, offset, "a frame counts, but those before it do not"));
                }
                self.link(reader, offset, &header)?;
                let segment = counted.get_or_insert(ScannedSegment {
                    number: reader.number,
                    first: header.first,
                    last: header.last,
                    last_frame: offset,
                    end,
                });
                (segment.last, segment.last_frame, segment.end) = (header.last, offset, end);
                self.report.frames += 1;
                self.report.records += header.records();
                self.report.bytes += end - offset;
                if header.last > self.manifest.checkpoint_start {
                    self.since_checkpoint += end - offset;
                }
            }
            offset = end;
        }
        let rest = rest_of(reader, offset)?;
        if let Some((at, header)) = rest.frame {
            if counted.is_some() || !self.is_unsealed(&header) {
                let what = format!("a bad frame, with a good one after it at byte {at}");
                return Err(self.corrupt(reader, offset, &what));
            }
            unsealed = true;
        }
        let short = page.as_ref().is_some_and(|page| reader.blocks.len() < page.len);
        if short && counted.is_some() {
            return Err(self.corrupt(reader, reader.blocks.len(), "the file has been cut short"));
        }
        if unsealed {
            self.report.unsealed_segments.push(reader.number);
        } else if page.is_none() || short || rest.bytes > 0 {
            let offset = if page.is_none() { 0 } else { offset.min(reader.blocks.len()) };
            let torn = TornTail { segment: reader.number, offset, bytes: rest.bytes };
            if self.report.torn_tail.replace(torn).is_some() {
                self.report.old_torn_tails += 1;
            }
        }
        self.segments.extend(counted);
        Ok(())
    }

    fn is_unsealed(&self, header: &FrameHeader) -> bool {
        header.after_checkpoint > self.manifest.checkpoint
    }

    /// Checks that the frame continues the chain.
    fn link(&mut self, reader: &SegmentReader, offset: u64, header: &FrameHeader) -> Result<(), LogError> {
        let fits = match self.last {
            Some(last) => header.prev == last,
            // There must be no records between the checkpoint's start and the first frame.
            None => header.prev <= self.manifest.checkpoint_start,
        };
        if !fits || !header.follows_prev() {
            let what = format!("the frame comes after record {}: something between is missing", header.prev);
            return Err(match self.report.torn_tail {
                // The damage is where the chain broke, not where that was noticed.
                Some(torn) => self.corrupt_in(segment_name(torn.segment), torn.offset, what),
                None => self.corrupt(reader, offset, &what),
            });
        }
        if self.report.torn_tail.take().is_some() {
            self.report.old_torn_tails += 1;
        }
        self.last = Some(header.last);
        Ok(())
    }

    fn corrupt(&self, reader: &SegmentReader, offset: u64, what: &str) -> LogError {
        self.corrupt_in(reader.blocks.file().name().to_owned(), offset, what.to_owned())
    }

    fn corrupt_in(&self, file: String, offset: u64, what: String) -> LogError {
        let after = self.last.unwrap_or(self.manifest.checkpoint_start);
        LogError::Corrupt { file, offset, after, what }
    }
}

/// Examines every page from `offset` on.
fn rest_of(reader: &mut SegmentReader, mut offset: u64) -> Result<Rest, LogError> {
    let from = offset;
    let mut rest = Rest { bytes: 0, frame: None };
    while offset < reader.blocks.len() {
        let page = reader.blocks.peek(offset, PAGE as usize)?;
        if page.is_empty() {
            break;
        }
        if page.iter().fold(0, |all, byte| all | byte) != 0 {
            rest.bytes = offset + page.len() as u64 - from;
            if page.starts_with(FRAME_MAGIC) && rest.frame.is_none() {
                rest.frame = reader.frame(offset)?.map(|(_, header)| (offset, header));
            }
        }
        offset += PAGE;
    }
    Ok(rest)
}
