//! What the machine could do at most: reading a file from its disk, copying memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};

use crate::BenchError;

/// Forgets what the page cache holds of the files in a directory, so that the next reader has to ask the disk.
pub(crate) fn forget(directory: &Path) -> Result<(), BenchError> {
    let doing = || BenchError::io("drop the page cache of the log's files");
    for entry in std::fs::read_dir(directory).map_err(doing())? {
        let path = entry.map_err(doing())?.path();
        if path.is_file() {
            let file = File::open(&path).map_err(doing())?;
            // Pages that are not on the disk yet stay.
            file.sync_all().map_err(doing())?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| doing()(error.into()))?;
        }
    }
    Ok(())
}

/// Bytes a second of reading a file from start to end.
pub(crate) fn read_rate(path: &Path) -> Result<f64, BenchError> {
    let doing = || BenchError::io(format!("read {}", path.display()));
    let mut file = File::open(path).map_err(doing())?;
    let mut buffer = vec![0; 1 << 20];
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

/// Bytes a second of copying memory with one thread, from and to more than the caches hold.
pub(crate) fn copy_rate() -> f64 {
    const LEN: usize = 256 << 20;
    let from = vec![0x5a_u8; LEN];
    let mut to = vec![0_u8; LEN];
    // The first pass takes the pages.
    to.copy_from_slice(&from);
    let begun = Instant::now();
    let passes = 4;
    for _ in 0..passes {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    (passes * LEN) as f64 / begun.elapsed().as_secs_f64()
}
