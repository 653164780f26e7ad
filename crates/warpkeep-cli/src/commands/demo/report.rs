//! The results of the demonstration, as text and JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use warpkeep::TableStats;
use warpkeep_bench::Table;
use warpkeep_bench::size::Size;
use warpkeep_image::{HeapUsage, Medium};

use super::plan::ROW_BYTES;
use crate::output::count;
use crate::store::StoreAt;

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

/// The lookups.
#[derive(Debug, Serialize)]
pub(crate) struct LookingUp {
    pub(crate) lookups: u64,
    pub(crate) seconds: f64,
    pub(crate) lookups_per_second: f64,
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

/// The space of the rows at the end.
#[derive(Debug, Serialize)]
pub(crate) struct Space {
    pub(crate) table: TableStats,
    pub(crate) heap: HeapUsage,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    #[serde(skip)]
    pub(crate) store: StoreAt,
    pub(crate) image: Place,
    pub(crate) log: Place,
    pub(crate) loading: Loading,
    pub(crate) lookups: LookingUp,
    pub(crate) kills: Vec<Kill>,
    pub(crate) power_cut: PowerCut,
    pub(crate) space: Space,
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

impl LookingUp {
    pub(crate) fn line(&self) -> String {
        format!(
            "looked up {} rows at random in {:.2} s: {} rows/s with one thread",
            count(self.lookups),
            self.seconds,
            count(self.lookups_per_second as u64)
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
            1 => "the newest Process write is gone, as it may".to_owned(),
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
    /// The closing text.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new(["", ""]);
        let rate = |rate: f64| format!("{}/s", count(rate as u64));
        table.row(["rows loaded".to_owned(), rate(self.loading.rows_per_second)]);
        table.row(["rows looked up".to_owned(), rate(self.lookups.lookups_per_second)]);
        table.row(["load factor".to_owned(), format!("{:.1}%", 100.0 * self.space.table.load_factor())]);
        let heap = &self.space.heap;
        let in_use = format!("{} of {}", Size(heap.used_bytes()), Size(heap.total_bytes()));
        table.row(["image in use".to_owned(), in_use]);
        let slowest = self.kills.iter().map(|kill| kill.reattach_seconds).fold(0.0, f64::max);
        if !self.kills.is_empty() {
            table.row(["back after a kill".to_owned(), format!("{slowest:.3} s")]);
        }
        table.row(["back after a power cut".to_owned(), format!("{:.3} s", self.power_cut.rebuild_seconds)]);
        let acknowledged: u64 = self.kills.iter().map(|kill| kill.acknowledged).sum();
        let acknowledged = acknowledged + self.power_cut.acknowledged;
        table.row(["acknowledged writes checked".to_owned(), count(acknowledged)]);
        let mut text = table.to_string().trim_start().to_owned();
        text.insert(0, '\n');
        if self.kept {
            let _ = write!(text, "\nkept; look at it with: warpkeep stat {}", self.store.directory.display());
            if let Some(image) = &self.store.image {
                let _ = write!(text, " --image {}", image.display());
            }
        }
        text + "\neverything promised was kept\n"
    }
}
