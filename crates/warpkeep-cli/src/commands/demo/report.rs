//! What the demonstration found, for people and for programs.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use warpkeep_bench::size::Size;
use warpkeep_image::{HeapUsage, Medium};

use super::plan::ROW_BYTES;
use crate::output::count;

/// A directory that was used.
#[derive(Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) file_system: String,
    pub(crate) medium: Medium,
}

/// The loading.
#[derive(Debug, Serialize)]
pub(crate) struct Loading {
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_second: f64,
    pub(crate) power_commits: u64,
    pub(crate) power_p50_us: f64,
    pub(crate) power_p99_us: f64,
}

/// A writer was killed, and the store re-attached.
#[derive(Debug, Serialize)]
pub(crate) struct Kill {
    pub(crate) acknowledged: u64,
    pub(crate) with_power: u64,
    pub(crate) writer_seconds: f64,
    pub(crate) finished_commits: u64,
    pub(crate) reattach_seconds: f64,
}

/// A writer was killed and the image thrown away.
#[derive(Debug, Serialize)]
pub(crate) struct PowerCut {
    pub(crate) acknowledged: u64,
    pub(crate) with_power: u64,
    pub(crate) loaded: u64,
    pub(crate) redone: u64,
    pub(crate) rebuild_seconds: f64,
    pub(crate) power_commits_there: u64,
    pub(crate) process_writes_gone: u64,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) image: Place,
    pub(crate) log: Place,
    pub(crate) loading: Loading,
    pub(crate) kills: Vec<Kill>,
    pub(crate) power_cut: PowerCut,
    pub(crate) heap: HeapUsage,
    pub(crate) kept: bool,
    pub(crate) held: bool,
}

impl Place {
    pub(crate) fn line(&self, what: &str, survives: &str) -> String {
        format!("{what} {} ({}: {survives})", self.path.display(), self.file_system)
    }
}

impl Loading {
    pub(crate) fn line(&self) -> String {
        format!(
            "loaded {} rows of {ROW_BYTES} bytes in {:.2} s: {} rows/s; {} commits with Power among them, half of them \
             within {:.0} us",
            count(self.rows),
            self.seconds,
            count(self.rows_per_second as u64),
            self.power_commits,
            self.power_p50_us
        )
    }
}

impl Kill {
    pub(crate) fn line(&self, number: usize) -> String {
        format!(
            "kill {number}: SIGKILL {:.0} ms into {} acknowledged writes ({} with Power); re-attached in {:.3} s; all there",
            1000.0 * self.writer_seconds,
            count(self.acknowledged),
            count(self.with_power),
            self.reattach_seconds
        )
    }
}

impl PowerCut {
    pub(crate) fn line(&self) -> String {
        let gone = match self.process_writes_gone {
            0 => "no Process write is gone".to_owned(),
            gone => format!("the newest {} Process writes are gone, as they may", count(gone)),
        };
        format!(
            "power cut: image thrown away after {} acknowledged writes; rebuilt in {:.3} s from {} items and {} redone \
             changes; all {} commits with Power are there, {gone}; what is left is a prefix",
            count(self.acknowledged),
            self.rebuild_seconds,
            count(self.loaded),
            count(self.redone),
            count(self.power_commits_there),
        )
    }
}

impl Report {
    pub(crate) fn end(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "heap: {} of {} in use, {} blocks",
            Size(self.heap.used_bytes()),
            Size(self.heap.total_bytes()),
            count(self.heap.used_blocks())
        );
        if self.kept {
            let image = self.image.path.join("image");
            let _ = writeln!(
                text,
                "kept; look at it with: warpkeep stat --image {} --log {}",
                image.display(),
                self.log.path.join("log").display()
            );
        }
        let _ = write!(text, "everything promised was kept");
        text
    }
}
