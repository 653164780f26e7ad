//! Rebuilds a manifest from checkpoints and segments if no copy of it can be read.

use std::sync::Arc;

use serde::Serialize;
use warpkeep_core::Lsn;

use crate::block::Seed;
use crate::checkpoint::{CheckpointInfo, CheckpointReader, Described};
use crate::disk::Disk;
use crate::error::LogError;
use crate::files::Directory;
use crate::image_note::ImageNote;
use crate::layout::{FileName, PAGE, segment_name};
use crate::log::file_with_data;
use crate::manifest::Manifest;
use crate::options::LogOptions;
use crate::page::Page;
use crate::recovery::{Recovery, check_end};
use crate::scan::{self, Chain, SegmentReader};
use crate::segment::SEGMENT_MAGIC;

/// A rebuilt manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepairedManifest {
    /// The epoch it has.
    pub epoch: u64,
    /// The checkpoint it names.
    pub checkpoint: Option<CheckpointInfo>,
    /// Records in the segments from the first that it names; the checkpoint may already include some of them.
    pub records: u64,
    /// The last of them.
    pub last_lsn: Lsn,
}

/// Rebuilds the manifest of a log directory. Returns `None` and changes nothing if a valid one exists, or if there
/// is no log at all.
///
/// The newest checkpoint is read as a whole, and the chain of frames must lead from its start to the end of the log without
/// a gap: everything the manifest names is complete, or an error is returned. How the log ended is unknown, so it
/// counts as not closed.
///
/// `image_epoch` is the epoch of the image that is used with it, if any. An opening that logged nothing leaves no
/// other trace. `image` is noted as the image that the log was last used with.
pub fn repair_manifest(
    disk: Arc<dyn Disk>,
    image_epoch: Option<u64>,
    image: Option<ImageNote>,
) -> Result<Option<RepairedManifest>, LogError> {
    match Recovery::open(Arc::clone(&disk), LogOptions::default()) {
        Err(LogError::ManifestDamaged { .. } | LogError::ManifestMissing { .. }) => {}
        Ok(_) | Err(LogError::NoLog) => return Ok(None),
        Err(error) => return Err(error),
    }
    let directory = Directory::new(disk);
    let names = directory.list()?;
    let (mut numbers, mut checkpoint) = (Vec::new(), 0);
    for name in &names {
        match FileName::parse(name) {
            FileName::Segment(number) => numbers.push(number),
            FileName::Checkpoint(id) => checkpoint = checkpoint.max(id),
            _ => {}
        }
    }
    numbers.sort_unstable();
    if image_epoch.is_none() && file_with_data(&directory, &names)?.is_none() {
        let what = "nothing beside it says what the store had".to_owned();
        return Err(LogError::ManifestDamaged { what });
    }
    let mut manifest = Manifest { image, ..describe(&directory, checkpoint, &numbers)? };
    let info = match checkpoint {
        0 => None,
        _ => {
            let reader = CheckpointReader::open(&directory, &manifest)?;
            let info = reader.info();
            reader.read(|_| Ok::<(), LogError>(()))?;
            Some(info)
        }
    };
    let chain = find_chain(&directory, &mut manifest, &numbers)?;
    let seen = last_epoch(&directory, &manifest, &chain)?.max(info.map_or(0, |info| info.end.epoch()));
    manifest.epoch = seen.max(image_epoch.unwrap_or(0));
    check_end(&manifest, info.as_ref(), chain.last)?;
    manifest.write(&directory)?;
    Ok(Some(RepairedManifest {
        epoch: manifest.epoch,
        checkpoint: info,
        records: chain.report.records,
        last_lsn: chain.last,
    }))
}

/// A manifest for the checkpoint, if it is not 0, from the checkpoint's own description.
fn describe(directory: &Directory, checkpoint: u64, numbers: &[u64]) -> Result<Manifest, LogError> {
    let described = match checkpoint {
        0 => None,
        id => Some(Described::read(directory, id)?),
    };
    let store_id = match &described {
        Some(described) => described.store_id,
        None => store_of_segments(directory, numbers)?,
    };
    Ok(Manifest {
        store_id,
        generation: 1,
        epoch: 0,
        checkpoint,
        checkpoint_start: described.as_ref().map_or(Lsn::ZERO, |described| described.start),
        checkpoint_changes: described.as_ref().map_or(0, |described| described.changes),
        checkpoint_bytes: described.as_ref().map_or(0, |described| described.bytes),
        first_segment: 0,
        clean_at: None,
        image: None,
    })
}

/// The store that the first good segment belongs to; the others are compared with it when they are read.
fn store_of_segments(directory: &Directory, numbers: &[u64]) -> Result<[u8; 16], LogError> {
    for &number in numbers {
        let mut page = vec![0; PAGE as usize];
        let read = directory.open(&segment_name(number))?.read(&mut page, 0)?;
        if let Ok(page) = Page::check(&page[..read], SEGMENT_MAGIC) {
            return Ok(page.store_id());
        }
    }
    let what = "no checkpoint or segment beside it says which store it was of".to_owned();
    Err(LogError::ManifestDamaged { what })
}

/// The chain of frames, from the earliest segment that leads to the end. The first frame must follow the checkpoint's start
/// without a gap, so a later beginning cannot leave anything out.
fn find_chain(directory: &Directory, manifest: &mut Manifest, numbers: &[u64]) -> Result<Chain, LogError> {
    let mut refused = None;
    for (at, &first) in numbers.iter().enumerate() {
        match scan::scan(directory, manifest, &numbers[at..]) {
            // Segments without frames prove nothing about those before them.
            Ok(chain) if at == 0 || chain.report.frames > 0 => {
                manifest.first_segment = first;
                return Ok(chain);
            }
            Ok(_) => {}
            // A segment that should have been removed after a checkpoint may have a gap behind it.
            Err(error) => {
                refused.get_or_insert(error);
            }
        }
    }
    Err(refused.unwrap_or_else(|| LogError::SegmentMissing { file: segment_name(1) }))
}

/// The last epoch that anything was logged in, be it that it does not count.
fn last_epoch(directory: &Directory, manifest: &Manifest, chain: &Chain) -> Result<u64, LogError> {
    let mut epoch = chain.last.epoch();
    for &number in &chain.report.unsealed_segments {
        let mut reader = SegmentReader::open(directory, Seed::of(&manifest.store_id), number)?;
        if let Some((_, header)) = reader.frame(PAGE)? {
            epoch = epoch.max(header.last.epoch());
        }
    }
    Ok(epoch)
}
