//! Charts as SVG.

use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Chart, Curve, Drawing};

const WIDTH: u32 = 860;
const HEIGHT: u32 = 420;
const LEGEND: u32 = 200;
const BAR: u32 = 26;
const BAR_COLOUR: RGBColor = RGBColor(52, 101, 164);
const FONT: &str = "sans-serif";

/// Draws a chart; the error is what the library said.
pub(super) fn draw(chart: &Chart) -> Result<String, String> {
    let mut text = String::new();
    match &chart.drawing {
        Drawing::Curves(curves) => {
            let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
            draw_curves(chart, curves, &area)
        }
        Drawing::Bars(bars) => {
            let height = 90 + BAR * bars.len() as u32;
            let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
            draw_bars(chart, bars, &area)
        }
    }
    .map_err(|error| error.to_string())?;
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_curves<'a>(chart: &Chart, curves: &[Curve], area: &Area<'a>) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let finite = |point: &&(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let points = || curves.iter().flat_map(|curve| curve.points.iter().filter(finite));
    let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let mut drawn = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 18))
        .margin(12)
        .margin_right(LEGEND + 12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(x, y)?;
    drawn
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, 13))
        .draw()?;
    for (place, curve) in curves.iter().enumerate() {
        let colour = colour(place, curves.len());
        let points: Vec<(f64, f64)> = curve.points.iter().filter(finite).copied().collect();
        // A few points are measurements, to be seen as such.
        let dots = if points.len() <= 16 { points.clone() } else { Vec::new() };
        drawn.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        drawn.draw_series(dots.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
        // Beside the plot, where no line runs.
        let (x, y) = ((WIDTH - LEGEND) as i32, 50 + 20 * place as i32);
        area.draw(&PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)))?;
        let beside = TextStyle::from((FONT, 13)).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(curve.name.clone(), (x + 24, y), beside))?;
    }
    area.present()
}

/// Colours all around the circle, every other one darker, so that neighbours differ.
fn colour(place: usize, of: usize) -> RGBAColor {
    let lightness = if place.is_multiple_of(2) { 0.45 } else { 0.3 };
    HSLColor(place as f64 / of.max(1) as f64, 0.75, lightness).to_rgba()
}

fn draw_bars<'a>(chart: &Chart, bars: &[(String, f64)], area: &Area<'a>) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let top = range(bars.iter().map(|bar| bar.1)).end;
    let count = bars.len().max(1);
    let mut drawn = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(230)
        // The first bar on top.
        .build_cartesian_2d(0.0..1.12 * top, count as f64..0.0)?;
    drawn
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(WHITE)
        .x_desc(&chart.x)
        .x_label_formatter(&|value| short(*value))
        .label_style((FONT, 13))
        .draw()?;
    let beside = TextStyle::from((FONT, 13)).pos(Pos::new(HPos::Right, VPos::Center));
    for (place, (name, _)) in bars.iter().enumerate() {
        let (x, y) = drawn.backend_coord(&(0.0, place as f64 + 0.5));
        area.draw(&Text::new(name.clone(), (x - 8, y), beside.clone()))?;
    }
    for (place, (_, value)) in bars.iter().enumerate().filter(|(_, bar)| bar.1.is_finite()) {
        let at = place as f64;
        let bar = Rectangle::new([(0.0, at + 0.15), (*value, at + 0.85)], BAR_COLOUR.filled());
        drawn.draw_series([bar])?;
        drawn.draw_series([Text::new(format!(" {}", short(*value)), (*value, at + 0.3), (FONT, 12))])?;
    }
    area.present()
}

/// From 0 to a little above the largest.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    0.0..if top > 0.0 { 1.03 * top } else { 1.0 }
}

/// Few digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.0}G", value / 1e9),
        v if v >= 1e7 => format!("{:.0}M", value / 1e6),
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e4 => format!("{:.0}k", value / 1e3),
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
