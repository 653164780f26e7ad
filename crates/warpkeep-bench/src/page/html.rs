//! The page as HTML. Well-formed as XML too, so that it can be checked by any reader.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::plots::Plot;
use super::source::{Goal, Machine, Origin, Ratio, Source};
use super::tables;
use crate::size::Size;

const STYLE: &str = include_str!("page.css");
/// Elements without an end, closed as XML wants it.
const META: PreEscaped<&str> = PreEscaped(
    r#"<meta charset="utf-8" /><meta name="viewport" content="width=device-width, initial-scale=1" /><meta name="color-scheme" content="light dark" />"#,
);

pub(super) fn page(sources: &[Source], plots: &[Vec<Plot>]) -> String {
    let title = "Warpkeep: benchmark results";
    let page = html! {
        (DOCTYPE)
        html lang="en" xmlns="http://www.w3.org/1999/xhtml" {
            head {
                (META)
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p {
                        "Bars and figures are medians of the rounds. Whiskers and ± show where the middle half of the rounds \
                         lies; a difference smaller than that tells nothing. Dashed lines are limits: what the memory, the \
                         disk or the generator of the load gives at most."
                    }
                    nav { ul {
                        @for (place, source) in sources.iter().enumerate() {
                            li { a href={ "#r" (place) } { (name_of(source)) } @if let Some(origin) = &source.origin { ": " (origin.date) } }
                        }
                    } }
                }
                main {
                    @for (place, (source, plots)) in sources.iter().zip(plots).enumerate() {
                        (section(place, source, plots))
                    }
                }
            }
        }
    };
    page.into_string()
}

/// The benchmark, and which of several results of it.
fn name_of(source: &Source) -> String {
    match source.name == source.benchmark || source.name.is_empty() {
        true => source.benchmark.clone(),
        false => format!("{} ({})", source.benchmark, source.name),
    }
}

fn section(place: usize, source: &Source, plots: &[Plot]) -> Markup {
    html! {
        section id={ "r" (place) } {
            h2 { (name_of(source)) }
            @if let Some(origin) = &source.origin { (circumstances(origin)) }
            @for plot in plots.iter().filter(|plot| plot.case.is_none()) {
                (figure(plot))
            }
            @for case in source.cases().into_iter().filter(|case| !source.is_one_of_sizes(case)) {
                (one_case(source, case, plots))
            }
            @let sizes: Vec<&str> = source.cases().into_iter().filter(|case| source.is_one_of_sizes(case)).collect();
            @if !sizes.is_empty() {
                details {
                    summary { "every size of batches by itself: " (sizes.len()) " tables" }
                    @for case in sizes { (one_case(source, case, plots)) }
                }
            }
            @if !source.ratios.is_empty() {
                h3 { "ratios, by rounds" }
                (ratios(&source.ratios))
            }
            @if !source.notes.is_empty() {
                h3 { "notes" }
                ul { @for note in &source.notes { li { (note) } } }
            }
        }
    }
}

fn one_case(source: &Source, case: &str, plots: &[Plot]) -> Markup {
    html! {
        h3 { (case) }
        @for plot in plots.iter().filter(|plot| plot.case.as_deref() == Some(case)) {
            (figure(plot))
        }
        (table(&tables::of(source, case)))
        @if let Some(share) = tables::taken_by_others(source, case) {
            p class="small" { "Meanwhile others took " (share) " of the processors." }
        }
    }
}

fn circumstances(origin: &Origin) -> Markup {
    let Machine { cpu, cores, memory_bytes, kernel, load_before, load_after, places } = &origin.machine;
    html! {
        pre { code { (origin.command) } }
        dl {
            dt { "machine" }
            dd { (cpu) ", " (cores) " cores, " (Size(*memory_bytes)) " of memory, Linux " (kernel) }
            dt { "busy with" }
            dd {
                (format!("{load_before:.1}")) " processes before"
                @if let Some(load) = load_after { ", " (format!("{load:.1}")) " at the end" }
            }
            @for place in places {
                dt { (place.purpose) }
                dd { (place.path) " (" (place.file_system) ")" }
            }
            dt { "measured" }
            dd {
                (origin.date) ", in " (format!("{:.0}", origin.seconds)) " s, version " (origin.version) ", seed " (origin.seed)
            }
        }
    }
}

/// A plot's own text is for the eye; readers who cannot see it have the table.
fn figure(plot: &Plot) -> Markup {
    html! {
        figure role="img" aria-label=(plot.title) { (PreEscaped(&plot.svg)) }
    }
}

fn table(grid: &tables::Grid) -> Markup {
    html! {
        div class="wide" { table {
            thead { tr { @for heading in &grid.headings { th scope="col" { (heading) } } } }
            tbody {
                @for row in &grid.rows {
                    tr {
                        @for (column, cell) in row.iter().enumerate() {
                            @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                        }
                    }
                }
            }
        } }
    }
}

fn ratios(ratios: &[Ratio]) -> Markup {
    let row = |ratio: &Ratio| {
        let spread = ratio.spread;
        let goal = match ratio.goal {
            None => String::new(),
            Some(Goal::AtLeast(least)) => format!("at least {least}"),
            Some(Goal::AtMost(most)) => format!("at most {most}"),
        };
        let verdict = match (ratio.goal, ratio.verdict.as_deref()) {
            (None, _) if ratio.too_close_to_tell => "too close to tell",
            (None, _) => "",
            (_, Some("met")) => "met",
            (_, Some("missed")) => "missed",
            _ => "this run does not tell",
        };
        vec![
            ratio.name.clone(),
            format!("{:.2}", spread.median()),
            format!("{:.2} to {:.2}", spread.q1(), spread.q3()),
            goal,
            verdict.to_owned(),
        ]
    };
    let headings = ["", "median", "middle half", "goal", ""].map(str::to_owned).into();
    table(&tables::Grid { headings, rows: ratios.iter().map(row).collect() })
}
