//! The figures of a case as rows and columns.

use super::source::{Relation, Source, Spread, Summary, in_order};

/// Other processes; not a contestant.
const OTHERS: &str = "others";

/// Headings, and a row for each variant, which begins with its name.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The table of a case.
pub(super) fn of(source: &Source, case: &str) -> Grid {
    let all = || source.of_case(case).filter(|summary| summary.variant != OTHERS);
    let metrics = in_order(all().map(|summary| summary.metric.as_str()));
    let beside = all().find_map(|summary| Some(format!("beside {}", summary.beside.as_ref()?.to)));
    let limited = all().any(|summary| summary.limit.is_some()).then(|| "of its limit".to_owned());
    let row = |variant: &str| {
        let of_variant = || all().filter(|summary| summary.variant == variant);
        let mut cells = vec![variant.to_owned()];
        for metric in &metrics {
            cells.push(
                of_variant().find(|summary| summary.metric == *metric).map_or_else(String::new, figure),
            );
        }
        if beside.is_some() {
            let found = of_variant().find_map(|summary| summary.beside.as_ref());
            cells.push(found.map_or_else(String::new, |relation| proportion(relation, "times")));
        }
        if limited.is_some() {
            let found = of_variant().find_map(|summary| summary.limit.as_ref());
            cells
                .push(found.map_or_else(String::new, |limit| proportion(limit, &format!("of {}", limit.to))));
        }
        cells
    };
    let rows = in_order(all().map(|summary| summary.variant.as_str())).into_iter().map(row).collect();
    let headings = std::iter::once(String::new()).chain(metrics.iter().map(|metric| (*metric).to_owned()));
    Grid { headings: headings.chain(beside.clone()).chain(limited.clone()).collect(), rows }
}

/// The share of the processors that other processes took during a case, if that was measured.
pub(super) fn taken_by_others(source: &Source, case: &str) -> Option<String> {
    source.of_case(case).find(|summary| summary.variant == OTHERS).map(figure)
}

fn figure(summary: &Summary) -> String {
    let spread: Spread = summary.spread;
    let middle = summary.show(spread.median());
    // A single figure, or quartiles that print the same: a range would add nothing.
    match spread.count > 1 && summary.show(spread.q1()) != summary.show(spread.q3()) {
        true => {
            let half = 50.0 * (spread.q3() - spread.q1()) / spread.median().abs().max(f64::MIN_POSITIVE);
            format!("{middle} ±{half:.0}%")
        }
        false => middle,
    }
}

fn proportion(relation: &Relation, words: &str) -> String {
    let about = if relation.too_close_to_tell { "~" } else { "" };
    relation.ratio.map_or_else(String::new, |ratio| format!("{about}{ratio:.2} {words}"))
}
