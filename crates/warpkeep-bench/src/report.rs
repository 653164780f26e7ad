//! What a benchmark gives out: a table for people, CSV and JSON for programs.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Instant, SystemTime};

use serde::Serialize;

use crate::chart::Chart;
use crate::machine::{Machine, load_average};
use crate::measure::{Goal, Ratio, Spread, Verdict};
use crate::size::Size;
use crate::{BenchError, Table};

/// The share of the processors that others may take before a comparison means nothing.
const CROWDED: f64 = 0.15;

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bytes a second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Things a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Things.
    #[serde(rename = "count")]
    Count,
    /// Hundredths of a whole.
    #[serde(rename = "%")]
    Percent,
}

impl Unit {
    /// Its name in CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "1/s",
            Unit::Micros => "us",
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Percent => "%",
        }
    }

    /// A figure for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BytesPerSecond => format!("{} MB/s", digits(value / 1e6)),
            Unit::PerSecond if value.abs() >= 1e6 => format!("{} M/s", digits(value / 1e6)),
            Unit::PerSecond => format!("{}/s", digits(value)),
            Unit::Micros => format!("{} us", digits(value)),
            Unit::Seconds => format!("{value:.3} s"),
            Unit::Bytes => Size(value.round() as u64).to_string(),
            Unit::Count => digits(value),
            Unit::Percent => format!("{}%", digits(value)),
        }
    }
}

/// Three digits, no more behind the point than are meant.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// One figure of one round.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done: everything under one case may be compared.
    pub case: String,
    /// Who did it.
    pub variant: String,
    /// In which round.
    pub round: u32,
    /// What was measured.
    pub metric: String,
    /// In what.
    pub unit: Unit,
    /// The figure.
    pub value: f64,
}

/// The figures of all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What was done.
    pub case: String,
    /// Who did it.
    pub variant: String,
    /// What was measured.
    pub metric: String,
    /// In what.
    pub unit: Unit,
    /// The figures.
    pub spread: Spread,
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
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Cases during which others were in the way.
    pub crowded: Vec<String>,
    /// Figures that are best looked at.
    pub charts: Vec<Chart>,
    #[serde(skip)]
    begun: Option<Instant>,
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

    /// Notes how much of the processors others took during a case. More than a little, and nothing in it is compared
    /// with a goal.
    pub fn others(&mut self, case: &str, share: f64) {
        self.add(case, "others", 0, "processor time", Unit::Percent, 100.0 * share);
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

    /// Completes the report: how long it took, how busy the machine was, the summaries.
    pub fn finish(&mut self) {
        self.seconds = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self.machine.load_after = Some(load_average());
        self.summaries = self.summarise();
    }

    fn summarise(&self) -> Vec<Summary> {
        let mut groups: Vec<(&Row, Vec<f64>)> = Vec::new();
        for row in &self.rows {
            let same = |other: &Row| {
                (&other.case, &other.variant, &other.metric) == (&row.case, &row.variant, &row.metric)
            };
            match groups.iter_mut().find(|(first, _)| same(first)) {
                Some((_, values)) => values.push(row.value),
                None => groups.push((row, vec![row.value])),
            }
        }
        let summary = |(row, values): (&Row, Vec<f64>)| {
            Some(Summary {
                case: row.case.clone(),
                variant: row.variant.clone(),
                metric: row.metric.clone(),
                unit: row.unit,
                spread: Spread::of(&values)?,
            })
        };
        groups.into_iter().filter_map(summary).collect()
    }

    /// The report for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let machine = &self.machine;
        let _ = writeln!(
            text,
            "{} benchmark, {}, seed {}\n{}\n{}, {} cores, {} of memory, Linux {}, load {:.1}",
            self.benchmark,
            self.date,
            self.seed,
            self.command,
            machine.cpu,
            machine.cores,
            Size(machine.memory_bytes),
            machine.kernel,
            machine.load_before
        );
        for place in &machine.places {
            let _ = writeln!(text, "{}: {} ({})", place.purpose, place.path.display(), place.file_system);
        }
        let summaries = self.summarise();
        for case in in_order(summaries.iter().map(|summary| summary.case.as_str())) {
            let of_case = || summaries.iter().filter(|summary| summary.case == case);
            let metrics = in_order(of_case().map(|summary| summary.metric.as_str()));
            let headings = std::iter::once(case).chain(metrics.iter().copied());
            let mut table = Table::new(headings);
            for variant in in_order(of_case().map(|summary| summary.variant.as_str())) {
                let cell = |metric: &&str| {
                    let found =
                        of_case().find(|summary| summary.variant == variant && summary.metric == **metric);
                    found.map_or_else(String::new, show)
                };
                table.row(std::iter::once(variant.to_owned()).chain(metrics.iter().map(cell)));
            }
            let _ = write!(text, "\n{table}");
        }
        if !self.ratios.is_empty() {
            let _ = writeln!(text, "\nratios, median of the rounds (and the middle half of them):");
        }
        for ratio in &self.ratios {
            let _ = writeln!(text, "  {}", show_ratio(ratio));
        }
        text += &self.goals();
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// What was asked for and what came of it, as a table; empty if nothing was.
    fn goals(&self) -> String {
        let mut table = Table::new(["goals", "wanted", "got", ""]);
        let goals = self.ratios.iter().filter_map(|ratio| Some((ratio, ratio.goal?)));
        let mut any = false;
        for (ratio, goal) in goals {
            any = true;
            let wanted = match goal {
                Goal::AtLeast(least) => format!(">= {least}"),
                Goal::AtMost(most) => format!("<= {most}"),
            };
            let got = format!("{:.2}", ratio.spread.median);
            table.row([ratio.name.clone(), wanted, got, verdict_name(ratio.verdict).to_owned()]);
        }
        if any { format!("\n{table}") } else { String::new() }
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

    /// The whole report as JSON.
    pub fn to_json(&self) -> Result<String, BenchError> {
        serde_json::to_string_pretty(self)
            .map_err(|error| BenchError::Invalid(format!("the report cannot be written as JSON: {error}")))
    }

    /// Writes the CSV to a file, and the charts beside it, each as CSV and as SVG with its name at the end.
    pub fn write_csv(&self, path: &Path) -> Result<(), BenchError> {
        let write = |path: &Path, text: String| {
            std::fs::write(path, text).map_err(BenchError::io(format!("write {}", path.display())))
        };
        write(path, self.to_csv())?;
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

fn show(summary: &Summary) -> String {
    let Spread { count, q1, median, q3, .. } = summary.spread;
    let middle = summary.unit.show(median);
    // A figure a round, or quartiles that read the same: a range would say nothing.
    match count > 1 && summary.unit.show(q1) != summary.unit.show(q3) {
        true => format!("{middle} ±{:.0}%", 50.0 * (q3 - q1) / median.max(f64::MIN_POSITIVE)),
        false => middle,
    }
}

fn show_ratio(ratio: &Ratio) -> String {
    let Spread { q1, median, q3, .. } = ratio.spread;
    let mut text = format!("{}: {median:.2} ({q1:.2} to {q3:.2})", ratio.name);
    if let Some(goal) = ratio.goal {
        let _ = match goal {
            Goal::AtLeast(least) => write!(text, "; goal at least {least}: "),
            Goal::AtMost(most) => write!(text, "; goal at most {most}: "),
        };
        text += verdict_name(ratio.verdict);
    }
    if ratio.too_close_to_tell {
        text += "; the spread is wider than the difference";
    }
    text
}

fn verdict_name(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Met) => "met",
        Some(Verdict::Missed) => "MISSED",
        Some(Verdict::Unclear) | None => "this run does not tell",
    }
}

/// Each once, in the order of first appearance.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

pub(crate) fn quote(cell: &str) -> String {
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
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
    fn json_has_the_figures_the_machine_and_the_verdict() {
        let value: serde_json::Value = serde_json::from_str(&report().to_json().unwrap()).unwrap();
        assert_eq!(value["ratios"][0]["verdict"], "met");
        assert_eq!(value["summaries"][0]["spread"]["median"], 92.0);
        assert_eq!(value["rows"].as_array().unwrap().len(), 6);
        assert!(value["machine"]["cores"].as_u64().unwrap() > 0);
        assert!(value["date"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn text_shows_medians_spreads_and_ratios() {
        let text = report().to_text();
        assert!(text.contains("warpkeep bench test") && text.contains("92.0/s ±1%"), "{text}");
        assert!(text.contains("0.92 (0.91 to 0.93); goal at least 0.8: met"), "{text}");
        assert!(text.contains("a, b: rate, ours / bare  >= 0.8  0.92  met"), "{text}");
    }

    #[test]
    fn figures_for_people() {
        assert_eq!(Unit::BytesPerSecond.show(1.234e9), "1234 MB/s");
        assert_eq!(Unit::PerSecond.show(1.234e7), "12.3 M/s");
        assert_eq!(Unit::Micros.show(12.34), "12.3 us");
        assert_eq!(Unit::Seconds.show(0.12345), "0.123 s");
        assert_eq!(Unit::Bytes.show(8192.0), "8 KiB");
        assert_eq!(Unit::Count.show(0.0), "0");
    }
}
