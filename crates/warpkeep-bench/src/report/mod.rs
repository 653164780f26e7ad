//! The output of a benchmark: a table for people, CSV and JSON for programs.

mod summary;
mod text;
mod unit;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::Serialize;

use self::summary::Place;
pub use self::summary::{Relation, Summary};
pub use self::unit::Unit;
use crate::BenchError;
use crate::chart::Chart;
use crate::machine::{Machine, load_average};
use crate::measure::{Goal, Ratio, Verdict};

/// The share of the processors that other processes may take before a comparison means nothing.
const CROWDED: f64 = 0.15;
/// Other processes, as a variant of a case.
const OTHERS: &str = "others";

/// One figure of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The work: everything under one case may be compared.
    pub case: String,
    /// The contestant.
    pub variant: String,
    /// In which round.
    pub round: u32,
    /// The measured quantity.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
}

/// Everything a run found.
///
/// ```
/// use warpkeep_bench::report::{Report, Unit};
///
/// let mut report = Report::new("storage", "warpkeep bench storage", 1);
/// for round in 0..3 {
///     report.add("read", "ours", round, "rate", Unit::BytesPerSecond, 2e9 + f64::from(round));
/// }
/// assert!(report.to_csv().starts_with("benchmark,case,variant,round,metric,unit,value\nstorage,read,ours,0,rate,"));
/// assert!(report.to_text().contains("2000 MB/s"));
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// Which benchmark.
    pub benchmark: String,
    /// The version of the program.
    pub version: String,
    /// How it was started.
    pub command: String,
    /// When, in UTC.
    pub date: String,
    /// How long it took.
    pub seconds: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Where.
    pub machine: Machine,
    /// Every figure.
    pub rows: Vec<Row>,
    /// The figures by case, variant and metric.
    pub summaries: Vec<Summary>,
    /// How they compare.
    pub ratios: Vec<Ratio>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Cases during which other processes interfered.
    pub crowded: Vec<String>,
    /// Figures that are best looked at.
    pub charts: Vec<Chart>,
    #[serde(skip)]
    begun: Option<Instant>,
    /// The relations of the summaries' figures.
    #[serde(skip)]
    relations: Vec<(Place, Relation)>,
}

impl Report {
    /// A report of a run that begins now.
    pub fn new(benchmark: &str, command: &str, seed: u64) -> Report {
        Report {
            schema: 1,
            benchmark: benchmark.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.to_owned(),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            seconds: 0.0,
            seed,
            machine: Machine::describe(),
            rows: Vec::new(),
            summaries: Vec::new(),
            ratios: Vec::new(),
            notes: Vec::new(),
            crowded: Vec::new(),
            charts: Vec::new(),
            begun: Some(Instant::now()),
            relations: Vec::new(),
        }
    }

    /// Adds a figure.
    pub fn add(&mut self, case: &str, variant: &str, round: u32, metric: &str, unit: Unit, value: f64) {
        let (case, variant, metric) = (case.to_owned(), variant.to_owned(), metric.to_owned());
        self.rows.push(Row { case, variant, round, metric, unit, value });
    }

    /// The figures of a metric, round by round.
    pub fn series(&self, case: &str, variant: &str, metric: &str) -> Vec<f64> {
        let wanted = |row: &&Row| row.case == case && row.variant == variant && row.metric == metric;
        self.rows.iter().filter(wanted).map(|row| row.value).collect()
    }

    /// Records the share of the processors that other processes took during a case. If it is more than a little,
    /// nothing in it is compared with a goal.
    pub fn others(&mut self, case: &str, share: f64) {
        self.add(case, OTHERS, 0, "processor time", Unit::Percent, 100.0 * share);
        if share > CROWDED {
            self.notes.push(format!(
                "{case}: others took {:.0}% of the processors, so its ratios decide nothing; run it again when the machine \
                 is quiet",
                100.0 * share
            ));
            self.crowded.push(case.to_owned());
        }
    }

    /// Compares two variants of a case by a metric, and keeps the ratio.
    pub fn compare(&mut self, case: &str, metric: &str, ours: &str, theirs: &str, goal: Option<Goal>) {
        self.ratios.extend(self.ratio(case, metric, ours, theirs, goal));
    }

    /// How two variants of a case compare by a metric in the rounds that both took part in; `None` if there is none.
    pub fn ratio(
        &self,
        case: &str,
        metric: &str,
        ours: &str,
        theirs: &str,
        goal: Option<Goal>,
    ) -> Option<Ratio> {
        let rows = |variant: &str| {
            let wanted = |row: &&Row| row.case == case && row.variant == variant && row.metric == metric;
            self.rows.iter().filter(wanted).collect::<Vec<_>>()
        };
        let (our_rows, their_rows) = (rows(ours), rows(theirs));
        let partner = |row: &&Row| their_rows.iter().find(|other| other.round == row.round).copied();
        let pairs = our_rows.into_iter().filter_map(|row| Some((row.value, partner(&row)?.value)));
        let (our_values, their_values): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let name = format!("{case}: {metric}, {ours} / {theirs}");
        let ratio = Ratio::of(name, &our_values, &their_values, goal)?;
        let crowded = self.crowded.iter().any(|crowded| crowded == case);
        let verdict = ratio.verdict.map(|verdict| if crowded { Verdict::Unclear } else { verdict });
        Some(Ratio { verdict, ..ratio })
    }

    /// Records the proportion of a metric's figures to the limit that binds them.
    pub fn set_limit(&mut self, case: &str, variant: &str, metric: &str, limit: Relation) {
        self.relations.push((Place::limit(case, variant, metric), limit));
    }

    /// Records the proportion of a metric's figures to another variant's.
    pub fn set_beside(&mut self, case: &str, variant: &str, metric: &str, other: Relation) {
        self.relations.push((Place::beside(case, variant, metric), other));
    }

    /// Adds another benchmark's results, with a prefix to the names of its cases and charts.
    pub fn take_in(&mut self, other: Report, before: &str) {
        let named = |name: &str| format!("{before}{name}");
        self.rows.extend(other.rows.into_iter().map(|row| Row { case: named(&row.case), ..row }));
        self.ratios.extend(other.ratios.into_iter().map(|ratio| Ratio { name: named(&ratio.name), ..ratio }));
        self.crowded.extend(other.crowded.iter().map(|case| named(case)));
        let notes = other.notes.into_iter().map(|note| named(&note));
        self.notes.extend(notes);
        self.charts
            .extend(other.charts.into_iter().map(|chart| Chart { title: named(&chart.title), ..chart }));
    }

    /// Completes the report: how long it took, how busy the machine was, the summaries.
    pub fn finish(&mut self) {
        self.seconds = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self.machine.load_after = Some(load_average());
        self.summaries = self.summarise();
    }

    /// Every figure as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = "benchmark,case,variant,round,metric,unit,value\n".to_owned();
        for row in &self.rows {
            let cells = [&self.benchmark, &row.case, &row.variant, &row.round.to_string(), &row.metric];
            let cells: Vec<String> = cells.into_iter().map(|cell| quote(cell)).collect();
            let _ = writeln!(text, "{},{},{}", cells.join(","), row.unit.name(), row.value);
        }
        text
    }

    /// The figures of all rounds together, with their relations, as CSV.
    pub fn summaries_to_csv(&self) -> String {
        let mut text = "benchmark,case,variant,metric,unit,rounds,q1,median,q3,limit,of limit,beside,ratio,within the spread\n".to_owned();
        for Summary { case, variant, metric, unit, spread, limit, beside } in &self.summaries {
            let names = [&self.benchmark, case, variant, metric].map(|cell| quote(cell)).join(",");
            let cells = |relation: &Option<Relation>| match relation {
                Some(relation) => format!("{},{}", quote(&relation.to), relation.ratio),
                None => ",".to_owned(),
            };
            let close = beside.as_ref().map_or(String::new(), |beside| beside.too_close_to_tell.to_string());
            let _ = writeln!(
                text,
                "{names},{},{},{},{},{},{},{},{close}",
                unit.name(),
                spread.count,
                spread.q1,
                spread.median,
                spread.q3,
                cells(limit),
                cells(beside)
            );
        }
        text
    }

    /// The whole report as JSON.
    pub fn to_json(&self) -> Result<String, BenchError> {
        serde_json::to_string_pretty(self)
            .map_err(|error| BenchError::Invalid(format!("the report cannot be written as JSON: {error}")))
    }

    /// Writes the CSV to a file, the summaries beside it if they have limits, and the charts, each as CSV and as SVG with
    /// its name at the end.
    pub fn write_csv(&self, path: &Path) -> Result<(), BenchError> {
        let write = |path: &Path, text: String| {
            std::fs::write(path, text).map_err(BenchError::io(format!("write {}", path.display())))
        };
        write(path, self.to_csv())?;
        if self.summaries.iter().any(|summary| summary.limit.is_some() || summary.beside.is_some()) {
            write(&path.with_extension("summary.csv"), self.summaries_to_csv())?;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for chart in &self.charts {
            let beside = |end: &str| path.with_file_name(format!("{stem}-{}.{end}", chart.file_name()));
            write(&beside("csv"), chart.to_csv())?;
            write(&beside("svg"), chart.to_svg()?)?;
        }
        Ok(())
    }

    /// Writes the JSON to a file.
    pub fn write_json(&self, path: &Path) -> Result<(), BenchError> {
        std::fs::write(path, self.to_json()? + "\n")
            .map_err(BenchError::io(format!("write {}", path.display())))
    }
}

pub(crate) fn quote(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(super) fn report() -> Report {
        let mut report = Report::new("test", "warpkeep bench test", 3);
        for (round, (ours, bare)) in [(90.0, 100.0), (92.0, 100.0), (94.0, 100.0)].into_iter().enumerate() {
            report.add("a, b", "ours", round as u32, "rate", Unit::PerSecond, ours);
            report.add("a, b", "bare", round as u32, "rate", Unit::PerSecond, bare);
        }
        report.compare("a, b", "rate", "ours", "bare", Some(Goal::AtLeast(0.8)));
        report.finish();
        report
    }

    #[test]
    fn a_crowded_machine_meets_no_goal() {
        let mut report = report();
        report.others("a, b", 0.05);
        report.compare("a, b", "rate", "ours", "bare", Some(Goal::AtLeast(0.8)));
        assert_eq!(report.ratios[1].verdict, Some(Verdict::Met));
        report.others("a, b", 0.5);
        report.compare("a, b", "rate", "ours", "bare", Some(Goal::AtLeast(0.8)));
        assert_eq!(report.ratios[2].verdict, Some(Verdict::Unclear));
        assert!(report.to_text().contains("decide nothing"));
    }

    #[test]
    fn csv_has_a_line_a_figure_and_quotes_commas() {
        let csv = report().to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[1], "test,\"a, b\",ours,0,rate,1/s,90");
        assert_eq!(quote("say \"no\""), "\"say \"\"no\"\"\"");
    }

    #[test]
    fn summaries_say_what_they_are_in_proportion_to() {
        let mut report = report();
        let relation =
            |to: &str, ratio, too_close_to_tell| Relation { to: to.to_owned(), ratio, too_close_to_tell };
        report.set_limit("a, b", "ours", "rate", relation("the disk", 0.5, false));
        report.set_beside("a, b", "bare", "rate", relation("ours", 1.02, true));
        report.finish();
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["summaries"][0]["limit"]["to"], "the disk");
        assert_eq!(json["summaries"][0].get("beside"), None);
        assert_eq!(json["summaries"][1]["beside"]["too_close_to_tell"], true);
        let csv = report.summaries_to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1], "test,\"a, b\",ours,rate,1/s,3,91,92,93,the disk,0.5,,,");
        assert_eq!(lines[2], "test,\"a, b\",bare,rate,1/s,3,100,100,100,,,ours,1.02,true");
        let text = report.to_text();
        assert!(text.contains("0.50 of the disk") && text.contains("1.02 ~"), "{text}");
    }

    #[test]
    fn json_has_the_figures_the_machine_and_the_verdict() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        assert_eq!(value["ratios"][0]["verdict"], "met");
        assert_eq!(value["summaries"][0]["spread"]["median"], 92.0);
        assert_eq!(value["rows"].as_array().unwrap().len(), 6);
        assert!(value["machine"]["cores"].as_u64().unwrap() > 0);
        assert!(value["date"].as_str().unwrap().ends_with('Z'));
    }
}
