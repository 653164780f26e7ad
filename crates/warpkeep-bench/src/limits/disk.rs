//! The disk from one end of a file to the other.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use super::bare::BareFile;
use super::{RATE, Rounds, median};
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

const CASE: &str = "limits of the disk";
const PIECE: usize = 1 << 20;
/// Bytes written in a round, for each second of it, at least and at most.
const PER_SECOND: f64 = (512 << 20) as f64;
const MIN_BYTES: u64 = 4 << 20;
const MAX_BYTES: u64 = 256 << 20;

/// Bytes a second to a disk, and times a second that a page can be made durable there.
pub(crate) fn measure(
    directory: &Path,
    rounds: Rounds,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(f64, f64), BenchError> {
    let bytes = ((rounds.time.as_secs_f64() * PER_SECOND) as u64).min(MAX_BYTES);
    measure_of(directory, bytes, rounds, progress, report)
}

/// The same with a given file size.
pub(crate) fn measure_of(
    directory: &Path,
    bytes: u64,
    rounds: Rounds,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(f64, f64), BenchError> {
    let (path, bytes) = (directory.join("sequential"), bytes.max(MIN_BYTES));
    let bare = BareFile::filled(&directory.join("bare"), rounds.time)?;
    let (mut writes, mut syncs) = (Vec::new(), Vec::new());
    for round in 0..rounds.count {
        progress.check()?;
        let mut add = |variant, metric, unit, value| report.add(CASE, variant, round, metric, unit, value);
        let rate = write_rate(&path, bytes)?;
        writes.push(rate);
        add("sequential write", RATE, Unit::BytesPerSecond, rate);
        forget_file(&path)?;
        add("sequential read", RATE, Unit::BytesPerSecond, read_rate(&path)?);
        let measured = bare.round(4096.0, rounds.time, progress)?;
        let per_second = measured.syncs as f64 / measured.seconds;
        syncs.push(per_second);
        add("a page and fdatasync", "syncs", Unit::PerSecond, per_second);
        for (metric, percent) in [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)] {
            add("a page and fdatasync", metric, Unit::Micros, measured.latencies.micros(percent));
        }
        progress.advance(1);
    }
    Ok((median(&writes), median(&syncs)))
}

/// Drops the files in a directory from the page cache, so that the next reader has to use the disk.
pub(crate) fn forget(directory: &Path) -> Result<(), BenchError> {
    let doing = || BenchError::io("list the files whose cache is to be dropped");
    for entry in std::fs::read_dir(directory).map_err(doing())? {
        let path = entry.map_err(doing())?.path();
        if path.is_file() {
            forget_file(&path)?;
        }
    }
    Ok(())
}

/// Drops a file from the page cache.
pub(crate) fn forget_file(path: &Path) -> Result<(), BenchError> {
    let doing = || BenchError::io(format!("drop the page cache of {}", path.display()));
    let file = File::open(path).map_err(doing())?;
    // Pages that are not on the disk yet stay.
    file.sync_all().map_err(doing())?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| doing()(error.into()))
}

/// Bytes a second of reading a file from start to end.
pub(crate) fn read_rate(path: &Path) -> Result<f64, BenchError> {
    let doing = || BenchError::io(format!("read {}", path.display()));
    let mut file = File::open(path).map_err(doing())?;
    let mut buffer = vec![0; PIECE];
    let mut bytes = 0_u64;
    let begun = Instant::now();
    loop {
        match file.read(&mut buffer).map_err(doing())? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

/// Bytes a second of writing a file of about `bytes` bytes from start to end, until the disk has it.
pub(crate) fn write_rate(path: &Path, bytes: u64) -> Result<f64, BenchError> {
    let doing = || BenchError::io(format!("write {}", path.display()));
    let mut file = File::create(path).map_err(doing())?;
    // No zeros, which a disk may save itself the trouble to write.
    let piece = vec![0xa5; PIECE];
    let pieces = bytes.div_ceil(PIECE as u64).max(1);
    let begun = Instant::now();
    for _ in 0..pieces {
        file.write_all(&piece).map_err(doing())?;
    }
    file.sync_data().map_err(doing())?;
    Ok((pieces * PIECE as u64) as f64 / begun.elapsed().as_secs_f64())
}
