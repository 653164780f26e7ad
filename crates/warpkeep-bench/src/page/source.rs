//! The source of a page: a report, as far as a page shows it, as any version of the program wrote it.
//!
//! Reports are JSON. The CSV files of a benchmark have its figures without how and where they were measured: the
//! folder that they are kept in says that.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::table;
use crate::BenchError;
use crate::chart::{Chart, Drawing};
use crate::report::Unit;

/// The layout of reports that is understood.
const SCHEMA: u32 = 1;

/// One result.
#[derive(Clone, Debug)]
pub struct Source {
    /// How and where it was measured; `None` if the file does not say.
    pub(super) origin: Option<Origin>,
    pub(super) benchmark: String,
    pub(super) summaries: Vec<Summary>,
    pub(super) ratios: Vec<Ratio>,
    pub(super) notes: Vec<String>,
    pub(super) charts: Vec<Chart>,
    /// The base name of its files.
    pub(super) name: String,
}

/// A report in JSON.
#[derive(Deserialize)]
struct Written {
    schema: u32,
    #[serde(flatten)]
    origin: Origin,
    benchmark: String,
    summaries: Vec<Summary>,
    #[serde(default)]
    ratios: Vec<Ratio>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    charts: Vec<Chart>,
}

/// How and where a result was measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Origin {
    pub(super) version: String,
    pub(super) command: String,
    pub(super) date: String,
    pub(super) seconds: f64,
    pub(super) seed: u64,
    pub(super) machine: Machine,
}

/// Where it was measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) memory_bytes: u64,
    pub(super) kernel: String,
    pub(super) load_before: f64,
    pub(super) load_after: Option<f64>,
    #[serde(default)]
    pub(super) places: Vec<Place>,
}

/// A directory that was used.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Place {
    pub(super) purpose: String,
    pub(super) path: String,
    pub(super) file_system: String,
}

/// The figures of all rounds together.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Summary {
    pub(super) case: String,
    pub(super) variant: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) spread: Spread,
    pub(super) limit: Option<Relation>,
    pub(super) beside: Option<Relation>,
}

/// Their spread. Numbers that are not finite are null in JSON.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Spread {
    pub(super) count: usize,
    pub(super) q1: Option<f64>,
    pub(super) median: Option<f64>,
    pub(super) q3: Option<f64>,
}

impl Spread {
    pub(super) fn q1(&self) -> f64 {
        self.q1.unwrap_or(f64::NAN)
    }

    pub(super) fn median(&self) -> f64 {
        self.median.unwrap_or(f64::NAN)
    }

    pub(super) fn q3(&self) -> f64 {
        self.q3.unwrap_or(f64::NAN)
    }
}

/// A figure in proportion to another.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Relation {
    pub(super) to: String,
    pub(super) ratio: Option<f64>,
    #[serde(default)]
    pub(super) too_close_to_tell: bool,
}

/// How two variants compare.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) spread: Spread,
    #[serde(default)]
    pub(super) too_close_to_tell: bool,
    pub(super) goal: Option<Goal>,
    pub(super) verdict: Option<String>,
}

/// The target of a ratio.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Source {
    /// Reads a file that a benchmark wrote with `--json` or `--csv`.
    pub fn read(path: &Path) -> Result<Source, BenchError> {
        let wrong = |error: &dyn std::fmt::Display| {
            BenchError::Invalid(format!(
                "cannot read {}: {error}; give files that --json or --csv wrote",
                path.display()
            ))
        };
        let name = base_name(path);
        if !is_csv(path) {
            let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
            return Source::parse(&name, &text).map_err(|error| wrong(&error));
        }
        let path = std::path::absolute(path).map_err(|error| wrong(&error))?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let file = std::fs::File::open(&path).map_err(|error| wrong(&error))?;
        let (benchmark, summaries) = table::read(file).map_err(|error| wrong(&error))?;
        Ok(Source {
            origin: None,
            benchmark,
            summaries,
            ratios: Vec::new(),
            notes: vec![format!("README.md of the folder {folder} has machine, date and command.")],
            charts: Vec::new(),
            name: format!("{folder}, {name}"),
        })
    }

    /// The files of results in a folder, by name: of each result the report in JSON, or else the summaries in CSV, or
    /// else the rows in CSV.
    pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
        let read = || {
            let entries = std::fs::read_dir(folder)?;
            entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()
        };
        let mut files = read().map_err(BenchError::io(format!("read {}", folder.display())))?;
        files.retain(|path| {
            let name = base_name(path);
            let beside = |end: &str| path.with_file_name(format!("{name}.{end}"));
            let is_summed_up =
                beside("json").exists() || (path == &beside("csv") && beside("summary.csv").exists());
            path == &beside("json") || (is_csv(path) && !is_summed_up && table::is_of_a_benchmark(path))
        });
        files.sort();
        Ok(files)
    }

    /// A result by the text of its file, under a name that its plots are called after.
    pub fn parse(name: &str, text: &str) -> Result<Source, BenchError> {
        let wrong = |error: serde_json::Error| {
            BenchError::Invalid(format!(
                "this is no report of a benchmark: {error}; give files that --json wrote"
            ))
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
        if let Some(schema) = value.get("schema").and_then(serde_json::Value::as_u64)
            && schema != u64::from(SCHEMA)
        {
            return Err(BenchError::Invalid(format!(
                "this report has layout {schema}, and {SCHEMA} is understood; use the program that wrote it"
            )));
        }
        let written: Written = serde_json::from_value(value).map_err(wrong)?;
        debug_assert_eq!(written.schema, SCHEMA);
        let Written { schema: _, origin, benchmark, summaries, ratios, notes, charts } = written;
        Ok(Source {
            origin: Some(origin),
            benchmark,
            summaries,
            ratios,
            notes,
            charts,
            name: name.to_owned(),
        })
    }

    /// The cases in their order.
    pub(super) fn cases(&self) -> Vec<&str> {
        in_order(self.summaries.iter().map(|summary| summary.case.as_str()))
    }

    /// Whether a case is one size of batches among several, of which a curve shows all.
    pub(super) fn is_one_of_sizes(&self, case: &str) -> bool {
        let is_trade = |chart: &Chart| matches!(chart.drawing, Drawing::Trades(_));
        case.contains("batches of ") && self.charts.iter().any(is_trade)
    }

    /// The summaries of a case.
    pub(super) fn of_case<'a>(&'a self, case: &'a str) -> impl Iterator<Item = &'a Summary> {
        self.summaries.iter().filter(move |summary| summary.case == case)
    }
}

impl Summary {
    /// A figure of this summary for people. A unit that is not known is written as it is.
    pub(super) fn show(&self, value: f64) -> String {
        const UNITS: [Unit; 7] = [
            Unit::BytesPerSecond,
            Unit::PerSecond,
            Unit::Micros,
            Unit::Seconds,
            Unit::Bytes,
            Unit::Count,
            Unit::Percent,
        ];
        match UNITS.into_iter().find(|unit| unit.name() == self.unit) {
            Some(unit) => unit.show(value),
            None => format!("{value:.3} {}", self.unit),
        }
    }
}

/// What all files of a result begin with: `map` of `map.summary.csv`.
fn base_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "csv")
}

/// Each once, in the order of first appearance.
pub(super) fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
