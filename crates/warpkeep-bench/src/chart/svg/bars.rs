//! Bars with the range they were found in, beside each other.

use plotters::style::RGBColor;

use super::axis::{Axis, figure};
use super::pen::{Anchor, GRID, INK, Pen, Style, width_of};
use crate::chart::{Bar, Chart, Limit, Scale};

const WIDTH: i32 = 660;
const MARGIN: i32 = 14;
const HEAD: i32 = 40;
const ROW: i32 = 26;
/// Half the thickness of a bar.
const HALF: i32 = 8;
const FOOT: i32 = 52;
/// The figure behind a bar.
const FIGURE: i32 = 60;
/// A limit further off than this many times the longest bar would make the bars invisible.
const FAR: f64 = 2.5;
/// The other contestants, beside our own.
const OTHERS: RGBColor = RGBColor(0x99, 0x99, 0x99);

/// How variants of ours begin, in any of the benchmarks.
const OURS: [&str; 3] = ["warpkeep", "store", "log"];

/// Bars of ours stand out.
fn colour(name: &str) -> RGBColor {
    if OURS.iter().any(|ours| name.starts_with(ours)) { Style::at(0).colour } else { OTHERS }
}

pub(super) fn draw(chart: &Chart, bars: &[Bar]) -> Result<String, String> {
    let longest = bars.iter().filter_map(|bar| Some(bar.value.max(finite(bar)?.1))).fold(0.0, f64::max);
    let finite_limits = chart.limits.iter().filter(|limit| limit.value.is_finite());
    let (near, far): (Vec<&Limit>, Vec<&Limit>) =
        finite_limits.partition(|limit| longest == 0.0 || limit.value <= FAR * longest);
    let values = [0.0, longest].into_iter().chain(near.iter().map(|limit| limit.value));
    let scale = if chart.x_scale == Scale::Logarithmic { Scale::Logarithmic } else { Scale::Linear };
    let axis = Axis::new(values, scale, bars.len());

    let widest = bars.iter().map(|bar| width_of(&bar.name)).max().unwrap_or(0);
    let left = (MARGIN + widest + 8).min(WIDTH / 2);
    let right = WIDTH - MARGIN - FIGURE;
    let top = HEAD + ROW * chart.limits.len() as i32;
    let bottom = top + ROW * bars.len() as i32 + 6;
    let across = |value: f64| left + (axis.place(value) * f64::from(right - left)).round() as i32;

    let mut text = String::new();
    let mut pen = Pen::new(&mut text, (WIDTH, bottom + FOOT));
    pen.title(&chart.title, (MARGIN, 20));
    pen.text(&chart.x, ((left + right) / 2, bottom + 38), Anchor::Middle);
    for (value, label) in axis.ticks() {
        pen.line(&[(across(value), top), (across(value), bottom)], &GRID, 1);
        pen.text(&label, (across(value), bottom + 16), Anchor::Middle);
    }
    for (place, bar) in bars.iter().enumerate() {
        let y = top + ROW * place as i32 + ROW / 2 + 2;
        pen.text(&bar.name, (left - 8, y), Anchor::End);
        let Some((from, to)) = finite(bar) else {
            pen.text("no figure", (left + 8, y), Anchor::Start);
            continue;
        };
        pen.bar([(left, y - HALF), (across(bar.value).max(left + 1), y + HALF)], &colour(&bar.name));
        let (from, to) = (across(from), across(to));
        if to > from {
            pen.line(&[(from, y), (to, y)], &INK, 1);
            for end in [from, to] {
                pen.line(&[(end, y - 4), (end, y + 4)], &INK, 1);
            }
        }
        pen.text(&figure(bar.value), (to.max(across(bar.value)) + 6, y), Anchor::Start);
    }
    pen.line(&[(left, top), (left, bottom)], &INK, 1);
    for (row, limit) in near.iter().chain(&far).enumerate() {
        let y = HEAD + ROW * row as i32 + ROW / 2;
        let words = format!("limit, {}: {}", limit.name, figure(limit.value));
        if limit.value > axis.end() {
            pen.text(&format!("{words}, off the scale"), (right, y), Anchor::End);
            continue;
        }
        let x = across(limit.value);
        pen.dashes((x, y + 9), (x, bottom), &INK);
        match x - MARGIN > width_of(&words) {
            true => pen.text(&words, (x + 4, y), Anchor::End),
            false => pen.text(&words, (MARGIN, y), Anchor::Start),
        }
    }
    pen.finish()?;
    Ok(text)
}

/// The range of a bar, its value if it has none; `None` if it cannot be shown.
fn finite(bar: &Bar) -> Option<(f64, f64)> {
    let own = (bar.value, bar.value);
    let known = bar.range.filter(|range| range.0.is_finite() && range.1.is_finite()).unwrap_or(own);
    bar.value.is_finite().then_some(known)
}
