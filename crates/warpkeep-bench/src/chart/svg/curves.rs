//! Lines over a common axis.

use super::Line;
use super::axis::{Axis, FEW, figure};
use super::pen::{Anchor, GRID, INK, Pen, Style, width_of};
use crate::chart::Chart;

const WIDTH: i32 = 660;
const MARGIN: i32 = 14;
const PLOT: i32 = 300;
const HEAD: i32 = 62;
/// Tick labels and the axis's name.
const FOOT: i32 = 54;
const LEGEND_LINE: i32 = 22;
/// The stroke before a name in the legend, with the space around it.
const SAMPLE: i32 = 38;

/// Where the plot lies on the paper.
struct Frame {
    left: i32,
    right: i32,
    x: Axis,
    y: Axis,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (self.across(x), self.down(y))
    }

    fn across(&self, x: f64) -> i32 {
        self.left + (self.x.place(x) * f64::from(self.right - self.left)).round() as i32
    }

    fn down(&self, y: f64) -> i32 {
        HEAD + PLOT - (self.y.place(y) * f64::from(PLOT)).round() as i32
    }
}

pub(super) fn draw(chart: &Chart, lines: &[Line<'_>]) -> Result<String, String> {
    let longest = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let points = || lines.iter().flat_map(|line| &line.points);
    let limits = chart.limits.iter().map(|limit| limit.value);
    let y = Axis::new(points().map(|point| point.1).chain(limits), chart.y_scale, longest);
    let x = Axis::new(points().map(|point| point.0), chart.x_scale, longest);
    let widest = y.ticks().iter().map(|tick| width_of(&tick.1)).max().unwrap_or(0);
    let frame = Frame { left: MARGIN + widest + 8, right: WIDTH - MARGIN - 12, x, y };

    let legend = legend(lines);
    let rows = legend.last().map_or(0, |entry| entry.row + 1);
    let foot = HEAD + PLOT + FOOT;
    let mut text = String::new();
    let mut pen = Pen::new(&mut text, (WIDTH, foot + rows * LEGEND_LINE + MARGIN));
    pen.title(&chart.title, (MARGIN, 20));
    pen.text(&chart.y, (MARGIN, 44), Anchor::Start);
    pen.text(&chart.x, ((frame.left + frame.right) / 2, HEAD + PLOT + 38), Anchor::Middle);
    mesh(&mut pen, &frame);
    for limit in chart.limits.iter().filter(|limit| limit.value.is_finite()) {
        let y = frame.down(limit.value);
        pen.dashes((frame.left, y), (frame.right, y), &INK);
        pen.text(&format!("{}: {}", limit.name, figure(limit.value)), (frame.right, y - 10), Anchor::End);
    }
    for (place, line) in lines.iter().enumerate() {
        let style = Style::at(place);
        let points: Vec<(i32, i32)> = line.points.iter().map(|&point| frame.at(point)).collect();
        pen.curve(&points, style);
        // A few points are measurements, to be seen as such.
        if points.len() <= FEW {
            points.iter().for_each(|&at| pen.mark(at, style));
        }
        for (&(x, y), label) in points.iter().zip(&line.labels) {
            // Beside the line if there is room, and before it at the edge.
            match x + 9 + width_of(label) < WIDTH {
                true => pen.coloured(label, (x + 9, y + 10), Anchor::Start, style),
                false => pen.coloured(label, (x - 9, y + 10), Anchor::End, style),
            }
        }
    }
    for entry in &legend {
        let style = Style::at(entry.place);
        let y = foot + entry.row * LEGEND_LINE + LEGEND_LINE / 2;
        let (from, to) = ((entry.x, y), (entry.x + 26, y));
        pen.curve(&[from, to], style);
        if lines[entry.place].points.len() <= FEW {
            pen.mark((entry.x + 13, y), style);
        }
        pen.text(lines[entry.place].name, (entry.x + SAMPLE - 6, y), Anchor::Start);
    }
    pen.finish()?;
    Ok(text)
}

fn mesh(pen: &mut Pen<'_>, frame: &Frame) {
    let bottom = HEAD + PLOT;
    for (value, label) in frame.y.ticks() {
        let y = frame.down(value);
        pen.line(&[(frame.left, y), (frame.right, y)], &GRID, 1);
        pen.text(&label, (frame.left - 8, y), Anchor::End);
    }
    let mut free_from = i32::MIN;
    for (value, label) in frame.x.ticks() {
        let x = frame.across(value);
        pen.line(&[(x, HEAD), (x, bottom)], &GRID, 1);
        // Labels of close ticks would run into each other.
        if x - width_of(&label) / 2 >= free_from {
            pen.text(&label, (x, bottom + 16), Anchor::Middle);
            free_from = x + width_of(&label) / 2 + 6;
        }
    }
    pen.line(&[(frame.left, HEAD), (frame.left, bottom), (frame.right, bottom)], &INK, 1);
}

/// A name in the legend, below the plot where no line runs.
struct Entry {
    place: usize,
    x: i32,
    row: i32,
}

/// In columns; a long name takes several.
fn legend(lines: &[Line<'_>]) -> Vec<Entry> {
    const COLUMNS: i32 = 4;
    let column = (WIDTH - 2 * MARGIN) / COLUMNS;
    let (mut next, mut row) = (0, 0);
    let mut entries = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let taken = ((width_of(line.name) + SAMPLE + 8 + column - 1) / column).clamp(1, COLUMNS);
        if next + taken > COLUMNS {
            (next, row) = (0, row + 1);
        }
        entries.push(Entry { place, x: MARGIN + next * column, row });
        next += taken;
    }
    entries
}
