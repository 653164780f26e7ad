//! Charts as SVG.
//!
//! Drawn in few fixed colours of paper, ink and grid, so that a page can adapt them to a dark screen by a style
//! sheet alone.

mod axis;
mod bars;
mod curves;
mod pen;

use super::{Chart, Curve, Drawing, Trade};

/// Draws a chart; the error is the library's.
pub(super) fn draw(chart: &Chart) -> Result<String, String> {
    match &chart.drawing {
        Drawing::Bars(found) => bars::draw(chart, found),
        Drawing::Curves(found) => curves::draw(chart, &lines(found)),
        Drawing::Trades(found) => curves::draw(chart, &steps(found)),
    }
}

/// A line to draw: finite points, and their labels.
struct Line<'a> {
    name: &'a str,
    points: Vec<(f64, f64)>,
    labels: Vec<&'a str>,
}

fn lines(curves: &[Curve]) -> Vec<Line<'_>> {
    curves.iter().map(line).collect()
}

fn line(curve: &Curve) -> Line<'_> {
    let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let points = curve.points.iter().copied().filter(finite).collect();
    Line { name: &curve.name, points, labels: Vec::new() }
}

fn steps(trades: &[Trade]) -> Vec<Line<'_>> {
    trades.iter().map(step_line).collect()
}

fn step_line(trade: &Trade) -> Line<'_> {
    let finite = trade.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite());
    let (points, labels) = finite.map(|point| ((point.x, point.y), point.label.as_str())).unzip();
    Line { name: &trade.name, points, labels }
}
