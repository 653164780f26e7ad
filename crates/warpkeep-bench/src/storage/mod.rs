//! The storage benchmark: the cost of durability, and the time of recovery.
//!
//! *Group commit*: `Power` commits by one writer and by many, against bare loops of write and `fdatasync` on the
//! same disk in the same rounds. *Recovery*: re-attaching an image after its process died, and rebuilding it from
//! checkpoint and log, next to the cost of reading the file and copying memory.

mod commit;
mod place;
mod recovery;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use crate::report::Report;
use crate::size::Size;
use crate::{BenchError, Progress};

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Options {
    /// A directory on the disk to be measured; a directory of its own is made in it, and removed.
    pub dir: PathBuf,
    /// A directory for images, best on tmpfs; used the same way.
    pub image_dir: PathBuf,
    /// How many threads commit at once, case by case.
    pub writers: Vec<usize>,
    /// Rounds of each variant.
    pub rounds: u32,
    /// How long a round takes.
    pub round_time: Duration,
    /// Live data of the stores to recover.
    pub sizes: Vec<Size>,
    /// Bytes in a value.
    pub value_bytes: usize,
    /// Writes after the checkpoint, as a share of the items in per cent.
    pub tail_percent: u32,
    /// How often each store is brought back.
    pub repeats: u32,
    /// Of everything random.
    pub seed: u64,
    /// How the benchmark was started, for the report.
    pub command: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dir: PathBuf::from("."),
            image_dir: PathBuf::from("/dev/shm"),
            writers: vec![1, 16, 64],
            rounds: 7,
            round_time: Duration::from_secs(1),
            sizes: vec![Size(1 << 30)],
            value_bytes: 1024,
            tail_percent: 10,
            repeats: 3,
            seed: 1,
            command: "warpkeep bench storage".to_owned(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), BenchError> {
        let wrong = |what: String| Err(BenchError::Invalid(what));
        if self.writers.iter().any(|&writers| writers == 0 || writers > 1024) {
            return wrong("writers must be 1 to 1024 in each case".to_owned());
        }
        if self.rounds == 0 || self.repeats == 0 {
            return wrong("at least one round and one repeat are needed".to_owned());
        }
        if self.value_bytes < 8 || self.value_bytes > 1 << 20 {
            return wrong(format!("values of {} bytes are not possible; take 8 to 1 MiB", self.value_bytes));
        }
        match self.sizes.iter().find(|size| size.0 < self.value_bytes as u64) {
            Some(size) => {
                wrong(format!("a store of {size} has no room for a value of {} bytes", self.value_bytes))
            }
            None => Ok(()),
        }
    }
}

/// Runs the benchmark. Files are made in directories of their own and removed, also after an error.
///
/// ```no_run
/// use warpkeep_bench::{Quiet, storage};
///
/// let report = storage::run(&storage::Options::default(), &Quiet)?;
/// print!("{}", report.to_text());
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
pub fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    options.check()?;
    let mut report = Report::new("storage", &options.command, options.seed);
    report.machine.add_place("log", &options.dir)?;
    report.machine.add_place("image", &options.image_dir)?;
    commit::run(options, progress, &mut report)?;
    recovery::run(options, progress, &mut report)?;
    report.finish();
    Ok(report)
}
