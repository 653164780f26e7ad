//! A report for people: tables for a terminal.

use std::fmt::Write as _;

use super::{OTHERS, Relation, Report, Summary};
use crate::Table;
use crate::measure::{Goal, Ratio, Spread, Verdict};
use crate::size::Size;

impl Report {
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
            let of_case =
                || summaries.iter().filter(|summary| summary.case == case && summary.variant != OTHERS);
            let columns = columns(of_case);
            let headings = columns.iter().map(|column| column.heading.clone());
            let mut table = Table::new(std::iter::once(case.to_owned()).chain(headings));
            for variant in in_order(of_case().map(|summary| summary.variant.as_str())) {
                let of = |metric: &str| {
                    of_case().find(|summary| summary.variant == variant && summary.metric == metric)
                };
                let cell = |column: &Column<'_>| of(column.metric).map_or_else(String::new, column.show);
                table.row(std::iter::once(variant.to_owned()).chain(columns.iter().map(cell)));
            }
            let _ = write!(text, "\n{table}");
            let others = |summary: &&Summary| summary.case == case && summary.variant == OTHERS;
            if let Some(others) = summaries.iter().find(others) {
                let _ = writeln!(text, "(others took {} of the processors)", show(others));
            }
        }
        let close =
            |summary: &Summary| summary.beside.as_ref().is_some_and(|beside| beside.too_close_to_tell);
        if summaries.iter().any(close) {
            let _ = writeln!(text, "\n~ the spread of the rounds is wider than the difference");
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

    /// The goals and their results, as a table; empty if there are none.
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
}

/// A column of a case's table.
struct Column<'a> {
    heading: String,
    metric: &'a str,
    show: fn(&Summary) -> String,
}

/// A column a metric, each followed by its relations.
fn columns<'a, I: Iterator<Item = &'a Summary>>(of_case: impl Fn() -> I) -> Vec<Column<'a>> {
    let mut columns = Vec::new();
    for metric in in_order(of_case().map(|summary| summary.metric.as_str())) {
        let of_metric = || of_case().filter(|summary| summary.metric == metric);
        columns.push(Column { heading: metric.to_owned(), metric, show });
        if let Some(beside) = of_metric().find_map(|summary| summary.beside.as_ref()) {
            columns.push(Column { heading: format!("beside {}", beside.to), metric, show: show_beside });
        }
        if of_metric().any(|summary| summary.limit.is_some()) {
            columns.push(Column { heading: "of its limit".to_owned(), metric, show: show_limit });
        }
    }
    columns
}

fn show(summary: &Summary) -> String {
    let Spread { count, q1, median, q3, .. } = summary.spread;
    let middle = summary.unit.show(median);
    // A single figure, or quartiles that print the same: a range would add nothing.
    match count > 1 && summary.unit.show(q1) != summary.unit.show(q3) {
        true => format!("{middle} ±{:.0}%", 50.0 * (q3 - q1) / median.max(f64::MIN_POSITIVE)),
        false => middle,
    }
}

fn show_beside(summary: &Summary) -> String {
    let show = |beside: &Relation| {
        format!("{:.2}{}", beside.ratio, if beside.too_close_to_tell { " ~" } else { "" })
    };
    summary.beside.as_ref().map_or_else(String::new, show)
}

fn show_limit(summary: &Summary) -> String {
    let show = |limit: &Relation| format!("{:.2} of {}", limit.ratio, limit.to);
    summary.limit.as_ref().map_or_else(String::new, show)
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

#[cfg(test)]
mod tests {
    use super::super::tests::report;

    #[test]
    fn text_shows_medians_spreads_and_ratios() {
        let text = report().to_text();
        assert!(text.contains("warpkeep bench test") && text.contains("92.0/s ±1%"), "{text}");
        assert!(text.contains("0.92 (0.91 to 0.93); goal at least 0.8: met"), "{text}");
        assert!(text.contains("a, b: rate, ours / bare  >= 0.8  0.92  met"), "{text}");
    }
}
