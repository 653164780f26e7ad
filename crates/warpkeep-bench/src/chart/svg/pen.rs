//! The drawing primitives: colours, text, lines, in pixels.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The style sheet for dark screens matches these three by their value.
const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(super) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub(super) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

/// Okabe and Ito's colours, which people with any kind of colour vision can distinguish; without the yellow, which
/// is invisible on paper, and the black, which is the ink.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
];

const FONT: &str = "sans-serif";
/// Of all text but titles.
pub(super) const SIZE: i32 = 14;
pub(super) const TITLE: i32 = 17;

/// Where text begins, horizontally.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How wide text will be, about: the reader's font is not known.
pub(super) fn width_of(text: &str) -> i32 {
    (text.chars().count() as f64 * 0.56 * f64::from(SIZE)).ceil() as i32
}

/// Colour, dashes and marks of one line among others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) colour: RGBColor,
    dash: Option<(i32, i32)>,
    mark: usize,
}

impl Style {
    /// The style of the line at this place: when colours run out, dashes distinguish lines.
    pub(super) fn at(place: usize) -> Style {
        let dash = [None, Some((7, 4)), Some((2, 3))][place / COLOURS.len() % 3];
        Style { colour: COLOURS[place % COLOURS.len()], dash, mark: place % 4 }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws, and keeps the first error.
pub(super) struct Pen<'a> {
    area: Area<'a>,
    failure: Option<String>,
}

impl<'a> Pen<'a> {
    /// Paper of this size; the picture ends up in `text` when the pen is put down.
    pub(super) fn new(text: &'a mut String, (width, height): (i32, i32)) -> Pen<'a> {
        let size = (width.max(1) as u32, height.max(1) as u32);
        let mut pen = Pen { area: SVGBackend::with_string(text, size).into_drawing_area(), failure: None };
        let result = pen.area.fill(&PAPER).map_err(|error| error.to_string());
        pen.note(result);
        pen
    }

    fn note(&mut self, result: Result<(), String>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    pub(super) fn text(&mut self, text: &str, at: (i32, i32), anchor: Anchor) {
        self.sized(text, at, anchor, SIZE, &INK);
    }

    pub(super) fn title(&mut self, text: &str, at: (i32, i32)) {
        self.sized(text, at, Anchor::Start, TITLE, &INK);
    }

    pub(super) fn coloured(&mut self, text: &str, at: (i32, i32), anchor: Anchor, style: Style) {
        self.sized(text, at, anchor, SIZE - 2, &style.colour);
    }

    fn sized(&mut self, text: &str, at: (i32, i32), anchor: Anchor, size: i32, colour: &RGBColor) {
        let across = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = TextStyle::from((FONT, size)).pos(Pos::new(across, VPos::Center)).color(colour);
        let result =
            self.area.draw(&Text::new(text.to_owned(), at, style)).map_err(|error| error.to_string());
        self.note(result);
    }

    pub(super) fn line(&mut self, points: &[(i32, i32)], colour: &RGBColor, width: u32) {
        let path = PathElement::new(points.to_vec(), colour.stroke_width(width));
        let result = self.area.draw(&path).map_err(|error| error.to_string());
        self.note(result);
    }

    /// A dashed line across.
    pub(super) fn dashes(&mut self, from: (i32, i32), to: (i32, i32), colour: &RGBColor) {
        self.dashed(&[from, to], colour.stroke_width(2), (6, 4));
    }

    fn dashed(&mut self, points: &[(i32, i32)], style: ShapeStyle, (dash, gap): (i32, i32)) {
        let path = DashedPathElement::new(points.to_vec(), dash, gap, style);
        let result = self.area.draw(&path).map_err(|error| error.to_string());
        self.note(result);
    }

    pub(super) fn curve(&mut self, points: &[(i32, i32)], style: Style) {
        match style.dash {
            _ if points.len() < 2 => {}
            None => self.line(points, &style.colour, 2),
            Some(dash) => self.dashed(points, style.colour.stroke_width(2), dash),
        }
    }

    pub(super) fn bar(&mut self, corners: [(i32, i32); 2], colour: &RGBColor) {
        let result =
            self.area.draw(&Rectangle::new(corners, colour.filled())).map_err(|error| error.to_string());
        self.note(result);
    }

    /// A mark: its shape is as distinctive as its colour.
    pub(super) fn mark(&mut self, at: (i32, i32), style: Style) {
        let filled = style.colour.filled();
        let (x, y) = at;
        let result = match style.mark {
            0 => self.area.draw(&Circle::new(at, 4, filled)),
            1 => self.area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled)),
            2 => self.area.draw(&TriangleMarker::new(at, 6, filled)),
            _ => self.area.draw(&Polygon::new(vec![(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], filled)),
        };
        self.note(result.map_err(|error| error.to_string()));
    }

    /// Puts the pen down.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let result = self.area.present().map_err(|error| error.to_string());
        self.note(result);
        self.failure.map_or(Ok(()), Err)
    }
}
