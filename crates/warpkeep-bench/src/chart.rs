//! Charts: figures that are best looked at, as CSV for programs and as SVG for people.

mod svg;

use std::fmt::Write as _;

use serde::Serialize;

use crate::BenchError;
use crate::report::{Report, Summary, quote};

/// A line through points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// What a chart is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawing {
    /// Lines over a common axis.
    Curves(Vec<Curve>),
    /// A bar each.
    Bars(Vec<(String, f64)>),
}

/// A chart.
///
/// ```
/// use warpkeep_bench::chart::{Chart, Curve, Drawing};
///
/// let line = Curve { name: "twice".into(), points: vec![(1.0, 2.0), (2.0, 4.0)] };
/// let chart = Chart::new("Doubling", "x", "y", Drawing::Curves(vec![line]));
/// assert_eq!(chart.to_csv(), "curve,x,y\ntwice,1,2\ntwice,2,4\n");
/// assert!(chart.to_svg()?.contains("<svg"));
/// # Ok::<(), warpkeep_bench::BenchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// What stands above it.
    pub title: String,
    /// Of the horizontal axis.
    pub x: String,
    /// Of the vertical one.
    pub y: String,
    /// Lines or bars.
    pub drawing: Drawing,
}

impl Chart {
    /// A chart.
    pub fn new(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        drawing: Drawing,
    ) -> Chart {
        Chart { title: title.into(), x: x.into(), y: y.into(), drawing }
    }

    /// The medians of a case's variants as bars, times `scale`, except of some that are of another order; `None` if there
    /// are none.
    pub fn bars_of(
        report: &Report,
        case: &str,
        metric: &str,
        (unit, scale): (&str, f64),
        except: &[&str],
    ) -> Option<Chart> {
        let wanted = |summary: &&Summary| {
            summary.case == case && summary.metric == metric && !except.contains(&summary.variant.as_str())
        };
        let bar = |summary: &Summary| (summary.variant.clone(), summary.spread.median * scale);
        let bars: Vec<(String, f64)> = report.summaries.iter().filter(wanted).map(bar).collect();
        (!bars.is_empty()).then(|| Chart::new(case, unit, "", Drawing::Bars(bars)))
    }

    /// Its title as part of a file's name.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
        let words: String = self.title.chars().map(plain).collect();
        words.split_whitespace().collect::<Vec<_>>().join("-")
    }

    /// Its figures.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        match &self.drawing {
            Drawing::Curves(curves) => {
                let _ = writeln!(text, "curve,{},{}", quote(&self.x), quote(&self.y));
                for curve in curves {
                    for (x, y) in &curve.points {
                        let _ = writeln!(text, "{},{x},{y}", quote(&curve.name));
                    }
                }
            }
            Drawing::Bars(bars) => {
                let _ = writeln!(text, "bar,{}", quote(&self.x));
                for (name, value) in bars {
                    let _ = writeln!(text, "{},{value}", quote(name));
                }
            }
        }
        text
    }

    /// Its picture.
    pub fn to_svg(&self) -> Result<String, BenchError> {
        svg::draw(self).map_err(|what| BenchError::Chart { chart: self.title.clone(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    #[test]
    fn bars_are_medians_and_have_their_names_in_the_picture() {
        let mut report = Report::new("test", "test", 1);
        for (round, rate) in [1e6, 3e6, 2e6].into_iter().enumerate() {
            report.add("get, 1 thread", "ours & theirs", round as u32, "rate", Unit::PerSecond, rate);
        }
        report.finish();
        let chart = Chart::bars_of(&report, "get, 1 thread", "rate", ("M/s", 1e-6), &["nobody"])
            .expect("there are rows");
        assert_eq!(chart.drawing, Drawing::Bars(vec![("ours & theirs".into(), 2.0)]));
        assert_eq!(chart.file_name(), "get-1-thread");
        assert_eq!(chart.to_csv(), "bar,M/s\nours & theirs,2\n");
        let svg = chart.to_svg().expect("a picture");
        assert!(svg.contains("ours &amp; theirs") && svg.contains("get, 1 thread"), "{svg}");
        assert_eq!(Chart::bars_of(&report, "put", "rate", ("M/s", 1.0), &[]), None);
        assert_eq!(Chart::bars_of(&report, "get, 1 thread", "rate", ("M/s", 1.0), &["ours & theirs"]), None);
    }

    #[test]
    fn odd_figures_are_drawn_all_the_same() {
        let curve = |points: &[(f64, f64)]| Curve { name: "a".into(), points: points.to_vec() };
        for points in
            [&[][..], &[(1.0, 1.0)], &[(0.0, 0.0), (0.0, 0.0)], &[(1.0, f64::NAN), (2.0, f64::INFINITY)]]
        {
            let chart = Chart::new("t", "x", "y", Drawing::Curves(vec![curve(points)]));
            assert!(chart.to_svg().is_ok(), "{points:?}");
        }
        assert!(Chart::new("t", "x", "", Drawing::Bars(vec![])).to_svg().is_ok());
        assert!(Chart::new("t", "x", "", Drawing::Bars(vec![("a".into(), 0.0)])).to_svg().is_ok());
    }
}
