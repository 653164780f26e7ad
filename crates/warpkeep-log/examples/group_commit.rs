//! Group commit against a bare loop of write + fdatasync, in one run on one disk.
//!
//! `cargo run --release -p warpkeep-log --example group_commit -- [directory]`
//!
//! The bare loops write the same number of bytes per sync as the log does, to a file that grows, one that was
//! preallocated, one that was filled with zeros, and one that was written before (a recycled segment).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpkeep_core::{Change, ChangeKind, Durability};
use warpkeep_log::{ChangeBatch, Disk, DiskFile, Log, LogOptions, OsDisk};

/// Many short rounds, of which the best counts: other programs on the machine disturb some, seldom all.
const ROUND: Duration = Duration::from_millis(120);
const ROUNDS: usize = 12;
const FILE_BYTES: u64 = 64 << 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Counts what the log writes and syncs.
struct Counting {
    inner: OsDisk,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    syncs: AtomicU64,
    bytes: AtomicU64,
}

struct CountingFile(Box<dyn DiskFile>, Arc<Counts>);

impl Disk for Counting {
    fn open(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountingFile(self.inner.open(name)?, Arc::clone(&self.counts))))
    }
    fn create(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(CountingFile(self.inner.create(name)?, Arc::clone(&self.counts))))
    }
    fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, name: &str) -> std::io::Result<()> {
        self.inner.remove(name)
    }
    fn list(&self) -> std::io::Result<Vec<String>> {
        self.inner.list()
    }
    fn sync_dir(&self, site: &'static str) -> std::io::Result<()> {
        self.inner.sync_dir(site)
    }
}

impl DiskFile for CountingFile {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.1.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.0.write_at(bytes, offset)
    }
    fn allocate(&self, len: u64) -> std::io::Result<()> {
        self.0.allocate(len)
    }
    fn sync(&self, site: &'static str) -> std::io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::Relaxed);
        self.0.sync(site)
    }
}

struct Measured {
    latencies: Vec<Duration>,
    commits_per_s: f64,
    bytes_per_s: f64,
    bytes_per_sync: u64,
}

fn show(name: &str, mut measured: Measured) {
    measured.latencies.sort_unstable();
    let at = |percent: usize| measured.latencies[(measured.latencies.len() - 1) * percent / 100].as_micros();
    println!(
        "  {name:<34} {:>8} {:>8} {:>12.0} {:>9.1} {:>10}",
        at(50),
        at(99),
        measured.commits_per_s,
        measured.bytes_per_s / 1e6,
        measured.bytes_per_sync
    );
}

/// Commits from `writers` threads for one round.
fn grouped(directory: &Path, writers: usize, value_bytes: usize, fill_ahead_bytes: u64) -> Result<Measured> {
    let scratch = tempfile::tempdir_in(directory)?;
    let counts = Arc::new(Counts::default());
    let disk = Counting { inner: OsDisk::open(scratch.path())?, counts: Arc::clone(&counts) };
    let options = LogOptions { fill_ahead_bytes, ..LogOptions::default() };
    let log = Log::create(Arc::new(disk), [1; 16], 1, options)?;
    let (syncs, bytes) = (counts.syncs.load(Ordering::Relaxed), counts.bytes.load(Ordering::Relaxed));
    let begun = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|_| {
                scope.spawn(|| {
                    let value = vec![0xa5; value_bytes];
                    let change = Change {
                        table: 1,
                        kind: ChangeKind::Put,
                        version: 1,
                        key: b"somekey8",
                        value: &value,
                    };
                    let mut batch = ChangeBatch::new();
                    let mut latencies = Vec::new();
                    while begun.elapsed() < ROUND {
                        let start = Instant::now();
                        batch.clear();
                        let lsn =
                            batch.push(&change).and_then(|()| log.append(&batch, Durability::Power, |_| ()));
                        lsn.and_then(|lsn| log.wait_durable(lsn)).expect("the disk works");
                        latencies.push(start.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("the writer works")).collect::<Vec<_>>()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let syncs = counts.syncs.load(Ordering::Relaxed) - syncs;
    let bytes = counts.bytes.load(Ordering::Relaxed) - bytes;
    log.close()?;
    // Zeros written ahead are not a commit's bytes.
    let record = (value_bytes + 8 + 48) as u64;
    let per_sync = (64 + record * latencies.len() as u64 / syncs).next_multiple_of(4096);
    Ok(Measured {
        commits_per_s: latencies.len() as f64 / seconds,
        bytes_per_s: (per_sync * syncs).min(bytes) as f64 / seconds,
        bytes_per_sync: per_sync,
        latencies,
    })
}

#[derive(Clone, Copy)]
enum Bare {
    Growing,
    Preallocated,
    ZeroFilled,
    Recycled,
}

fn bare(directory: &Path, kind: Bare, bytes_per_sync: u64) -> Result<Measured> {
    let scratch = tempfile::tempdir_in(directory)?;
    let path = scratch.path().join("bare");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let fill = |byte: u8| -> Result<()> {
        let chunk = vec![byte; 1 << 20];
        for at in (0..FILE_BYTES).step_by(chunk.len()) {
            file.write_all_at(&chunk, at)?;
        }
        Ok(())
    };
    if !matches!(kind, Bare::Growing) {
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, FILE_BYTES)?;
    }
    match kind {
        Bare::ZeroFilled => fill(0)?,
        Bare::Recycled => fill(0x5a)?,
        _ => {}
    }
    file.sync_all()?;
    bare_loop(&file, bytes_per_sync)
}

fn bare_loop(file: &File, bytes_per_sync: u64) -> Result<Measured> {
    let bytes = vec![0xa5; bytes_per_sync as usize];
    let mut latencies = Vec::new();
    let mut offset = 0;
    let begun = Instant::now();
    while begun.elapsed() < ROUND {
        let start = Instant::now();
        file.write_all_at(&bytes, offset)?;
        file.sync_data()?;
        latencies.push(start.elapsed());
        offset = if offset + 2 * bytes_per_sync > FILE_BYTES { 0 } else { offset + bytes_per_sync };
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Measured {
        commits_per_s: latencies.len() as f64 / seconds,
        bytes_per_s: latencies.len() as f64 * bytes_per_sync as f64 / seconds,
        bytes_per_sync,
        latencies,
    })
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = Path::new(&directory);
    let ahead = LogOptions::default().fill_ahead_bytes;
    for (writers, value_bytes) in [(1, 4096 - 128), (8, 1024), (64, 1024), (16, 65536)] {
        println!("{writers} writer(s), values of {value_bytes} bytes");
        println!(
            "  {:<34} {:>8} {:>8} {:>12} {:>9} {:>10}",
            "", "p50 us", "p99 us", "commits/s", "MB/s", "bytes/sync"
        );
        let mut best: [Option<Measured>; 6] = Default::default();
        for _ in 0..ROUNDS {
            let log = grouped(directory, writers, value_bytes, ahead)?;
            let size = best[0].as_ref().map_or(log.bytes_per_sync, |best| best.bytes_per_sync);
            let round = [
                log,
                grouped(directory, writers, value_bytes, 0)?,
                bare(directory, Bare::Growing, size)?,
                bare(directory, Bare::Preallocated, size)?,
                bare(directory, Bare::ZeroFilled, size)?,
                bare(directory, Bare::Recycled, size)?,
            ];
            for (best, measured) in best.iter_mut().zip(round) {
                if best.as_ref().is_none_or(|best| best.bytes_per_s < measured.bytes_per_s) {
                    *best = Some(measured);
                }
            }
        }
        let names = [
            "log",
            "log, no zeros written ahead",
            "bare, file grows",
            "bare, preallocated",
            "bare, filled with zeros",
            "bare, written before",
        ];
        for (name, best) in names.into_iter().zip(best) {
            best.into_iter().for_each(|best| show(name, best));
        }
    }
    Ok(())
}
