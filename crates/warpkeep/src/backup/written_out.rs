//! The log of a backup that is not copied from a log but written from the items: that of a store opened for
//! reading.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use warpkeep_image::Persist;
use warpkeep_log::{CopiedFile, Disk, Log, LogCopy, LogOptions, OsDisk};

use super::LOCK;
use crate::{Error, Items, Result, Store};

/// Bytes that are read back at once.
const PIECE: usize = 1 << 20;

/// Writes all items to a checkpoint in an empty log directory.
pub(super) fn write_out<P: Persist>(
    store: &Store<P>,
    to: &Arc<OsDisk>,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LogCopy> {
    let image = store.keeper.image();
    let segment_bytes = LogOptions::MIN_SEGMENT_BYTES;
    let options =
        LogOptions { segment_bytes, background: false, fill_ahead_bytes: 0, ..LogOptions::default() };
    let disk = Arc::clone(to) as Arc<dyn Disk>;
    let log = Log::create(disk, image.header().store_id, image.epoch(), options)?;
    log.checkpoint(|writer| store.keeper.items().scan(&mut |change| Ok::<(), Error>(writer.push(change)?)))?;
    let last_lsn = log.last_lsn();
    drop(log);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(Error::io(path, "look into it"))? {
        let entry = entry.map_err(Error::io(path, "look into it"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".tmp") {
            // Space that the log preallocated for more records.
            std::fs::remove_file(entry.path()).map_err(Error::io(&entry.path(), "remove it"))?;
        } else if name != LOCK {
            let (bytes, crc32c) = sum(&entry.path()).map_err(Error::io(&entry.path(), "read it"))?;
            files.push(CopiedFile { name, bytes, crc32c });
        }
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let total = files.iter().map(|file| file.bytes).sum();
    progress(total, total);
    Ok(LogCopy { files, last_lsn })
}

/// The length and the checksum of a file.
fn sum(path: &Path) -> std::io::Result<(u64, u32)> {
    let (mut file, mut piece) = (File::open(path)?, vec![0; PIECE]);
    let (mut bytes, mut crc) = (0, 0);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok((bytes, crc)),
            Ok(read) => {
                bytes += read as u64;
                crc = crc32c::crc32c_append(crc, &piece[..read]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
