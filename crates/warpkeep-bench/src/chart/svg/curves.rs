//! Lines over a common axis.

use super::Line;
use super::axis::{Axis, FEW, figure};
use super::pen::{Anchor, GRID, INK, Pen, Style, width_of};
use crate::chart::{Chart, Drawing};

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
    // In a trade-off the gain is on the horizontal axis and the cost on the vertical one.
    let is_trade = matches!(chart.drawing, Drawing::Trades(_));
    let limits = |wanted: bool| chart.limits.iter().filter(move |_| wanted).map(|limit| limit.value);
    let y = Axis::new(points().map(|point| point.1).chain(limits(!is_trade)), chart.y_scale, longest);
    let x = Axis::new(points().map(|point| point.0).chain(limits(is_trade)), chart.x_scale, longest);
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
    let mut labels = Labels::default();
    for (row, limit) in (0..).zip(chart.limits.iter().filter(|limit| limit.value.is_finite())) {
        let words = format!("{}: {}", limit.name, figure(limit.value));
        if !is_trade {
            let y = frame.down(limit.value);
            pen.dashes((frame.left, y), (frame.right, y), &INK);
            pen.text(&words, (frame.right, y - 10), Anchor::End);
            continue;
        }
        let (x, y) = (frame.across(limit.value), HEAD + 10 + 18 * row);
        pen.dashes((x, HEAD), (x, HEAD + PLOT), &INK);
        match x - 6 - width_of(&words) > frame.left {
            true => pen.text(&words, (x - 6, y), Anchor::End),
            false => pen.text(&words, (x + 6, y), Anchor::Start),
        }
        labels.take(x - 6 - width_of(&words), y, width_of(&words));
    }
    for (place, line) in lines.iter().enumerate() {
        let style = Style::at(place);
        let points: Vec<(i32, i32)> = line.points.iter().map(|&point| frame.at(point)).collect();
        pen.curve(&points, style);
        // A few points are measurements, to be seen as such.
        if points.len() <= FEW || is_trade {
            points.iter().for_each(|&at| pen.mark(at, style));
        }
        // The ends first: if there is no room for all labels, they show where the line begins and ends.
        let last = points.len().saturating_sub(1);
        let ends = |&place: &usize| place == 0 || place == last;
        let places = (0..points.len()).filter(ends).chain((0..points.len()).filter(|place| !ends(place)));
        for place in places {
            if let Some(label) = line.labels.get(place)
                && let Some((at, anchor)) = labels.place(points[place], width_of(label))
            {
                pen.coloured(label, at, anchor, style);
            }
        }
    }
    for entry in &legend {
        let style = Style::at(entry.place);
        let y = foot + entry.row * LEGEND_LINE + LEGEND_LINE / 2;
        let (from, to) = ((entry.x, y), (entry.x + 26, y));
        pen.curve(&[from, to], style);
        if lines[entry.place].points.len() <= FEW || is_trade {
            pen.mark((entry.x + 13, y), style);
        }
        pen.text(lines[entry.place].name, (entry.x + SAMPLE - 6, y), Anchor::Start);
    }
    pen.finish()?;
    Ok(text)
}

/// Where words stand: left end, middle line and width of each.
#[derive(Default)]
struct Labels(Vec<(i32, i32, i32)>);

impl Labels {
    const HEIGHT: i32 = 13;

    fn take(&mut self, left: i32, middle: i32, width: i32) {
        self.0.push((left, middle, width));
    }

    /// A free place for a label beside a point: after it if there is room, else before it; `None` if there is none.
    fn place(&mut self, (x, y): (i32, i32), width: i32) -> Option<((i32, i32), Anchor)> {
        let beside = [(9, 10), (9, -9), (-9, 10), (-9, -9)];
        for (across, down) in beside {
            let (left, middle) = (if across > 0 { x + across } else { x + across - width }, y + down);
            let is_free = |other: &(i32, i32, i32)| {
                left >= other.0 + other.2
                    || other.0 >= left + width
                    || (middle - other.1).abs() >= Labels::HEIGHT
            };
            if left > 0 && left + width < WIDTH && self.0.iter().all(is_free) {
                self.take(left, middle, width);
                let anchor = if across > 0 { Anchor::Start } else { Anchor::End };
                return Some(((x + across, middle), anchor));
            }
        }
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_stands_on_another() {
        let mut labels = Labels::default();
        let placed: Vec<_> = (0..8).filter_map(|_| labels.place((300, 100), 40)).collect();
        assert_eq!(placed.len(), 4, "one at each corner");
        assert!(labels.place((WIDTH - 5, 300), 40).is_some_and(|(at, _)| at.0 < WIDTH - 5));
    }
}
