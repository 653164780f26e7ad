//! Charts: figures that are best looked at, as CSV for programs and as SVG for people.

mod svg;

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serialize};

use crate::BenchError;
use crate::report::{Report, Summary, quote};

/// A line through points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// From left to right.
    #[serde(deserialize_with = "points")]
    pub points: Vec<(f64, f64)>,
}

/// JSON cannot represent numbers that are not finite, and has null instead.
fn points<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let read = Vec::<(Option<f64>, Option<f64>)>::deserialize(from)?;
    let whole = |(x, y): (Option<f64>, Option<f64>)| (x.unwrap_or(f64::NAN), y.unwrap_or(f64::NAN));
    Ok(read.into_iter().map(whole).collect())
}

/// A bar, and the range that its figure was found in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BarForm")]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// How long it is.
    pub value: f64,
    /// A quarter of the rounds was below, and a quarter above; `None` if there was one round.
    pub range: Option<(f64, f64)>,
}

/// Reports of before had pairs of name and value.
#[derive(Deserialize)]
#[serde(untagged)]
enum BarForm {
    Pair(String, Option<f64>),
    Whole { name: String, value: Option<f64>, range: Option<(f64, f64)> },
}

impl From<BarForm> for Bar {
    fn from(form: BarForm) -> Bar {
        let (name, value, range) = match form {
            BarForm::Pair(name, value) => (name, value, None),
            BarForm::Whole { name, value, range } => (name, value, range),
        };
        Bar { name, value: value.unwrap_or(f64::NAN), range }
    }
}

/// A trade-off, step by step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trade {
    /// The contestant.
    pub name: String,
    /// In the order of the steps.
    pub points: Vec<TradePoint>,
}

/// One step, such as a batch size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TradePoint {
    /// The name of the step.
    pub label: String,
    /// The gain.
    pub x: f64,
    /// The cost.
    pub y: f64,
}

/// The contents of a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawing {
    /// Lines over a common axis.
    Curves(Vec<Curve>),
    /// A bar each.
    Bars(Vec<Bar>),
    /// Lines whose points have a name.
    Trades(Vec<Trade>),
}

/// How an axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// As the figures suggest: logarithmic if there are few points, and the largest is many times the smallest.
    #[default]
    Fitting,
    /// In equal steps from 0.
    Linear,
    /// In equal factors, if all figures are above 0.
    Logarithmic,
}

/// A limit: on the vertical axis of curves, and on the horizontal one of everything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Why not.
    pub name: String,
    /// On the axis of the figures.
    pub value: f64,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// Of the horizontal axis, with its unit.
    pub x: String,
    /// Of the vertical one.
    pub y: String,
    /// How the horizontal axis runs.
    #[serde(default)]
    pub x_scale: Scale,
    /// How the vertical one does.
    #[serde(default)]
    pub y_scale: Scale,
    /// Lines or bars.
    pub drawing: Drawing,
    /// Drawn as lines across.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
}

impl Chart {
    /// A chart.
    pub fn new(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        drawing: Drawing,
    ) -> Chart {
        let (x_scale, y_scale) = Default::default();
        Chart { title: title.into(), x: x.into(), y: y.into(), x_scale, y_scale, drawing, limits: Vec::new() }
    }

    /// The gain and the cost of more of something: for example the number of operations in flight or in a batch.
    pub fn trades(
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        trades: Vec<Trade>,
    ) -> Chart {
        Chart::new(title, x, y, Drawing::Trades(trades))
    }

    /// The same with other axes.
    #[must_use]
    pub fn with_scales(self, x_scale: Scale, y_scale: Scale) -> Chart {
        Chart { x_scale, y_scale, ..self }
    }

    /// The same with a bar turned into a limit line. Unchanged if there is no such bar.
    #[must_use]
    pub fn with_limit(mut self, name: &str) -> Chart {
        if let Drawing::Bars(bars) = &mut self.drawing
            && let Some(place) = bars.iter().position(|bar| bar.name == name)
        {
            let bar = bars.remove(place);
            self.limits.push(Limit { name: bar.name, value: bar.value });
        }
        self
    }

    /// The medians of a case's variants as bars with their quartiles, times `scale`, except those of another order
    /// of magnitude; `None` if there are none.
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
        let bar = |summary: &Summary| {
            let spread = summary.spread;
            Bar {
                name: summary.variant.clone(),
                value: spread.median * scale,
                range: (spread.count > 1).then_some((spread.q1 * scale, spread.q3 * scale)),
            }
        };
        let bars: Vec<Bar> = report.summaries.iter().filter(wanted).map(bar).collect();
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
                let _ = writeln!(text, "bar,{},from,to", quote(&self.x));
                for Bar { name, value, range } in bars {
                    let (from, to) = range.unwrap_or((*value, *value));
                    let _ = writeln!(text, "{},{value},{from},{to}", quote(name));
                }
            }
            Drawing::Trades(trades) => {
                let _ = writeln!(text, "curve,step,{},{}", quote(&self.x), quote(&self.y));
                for trade in trades {
                    for TradePoint { label, x, y } in &trade.points {
                        let _ = writeln!(text, "{},{},{x},{y}", quote(&trade.name), quote(label));
                    }
                }
            }
        }
        for Limit { name, value } in &self.limits {
            let _ = writeln!(text, "{},{value}", quote(&format!("limit: {name}")));
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
        let bar = Bar { name: "ours & theirs".into(), value: 2.0, range: Some((1.5, 2.5)) };
        assert_eq!(chart.drawing, Drawing::Bars(vec![bar]));
        assert_eq!(chart.file_name(), "get-1-thread");
        assert_eq!(chart.to_csv(), "bar,M/s,from,to\nours & theirs,2,1.5,2.5\n");
        let svg = chart.to_svg().expect("a picture");
        assert!(svg.contains("ours &amp; theirs") && svg.contains("get, 1 thread"), "{svg}");
        assert_eq!(Chart::bars_of(&report, "put", "rate", ("M/s", 1.0), &[]), None);
        assert_eq!(Chart::bars_of(&report, "get, 1 thread", "rate", ("M/s", 1.0), &["ours & theirs"]), None);

        let limited = chart.with_limit("ours & theirs");
        assert_eq!(limited.drawing, Drawing::Bars(vec![]));
        assert_eq!(limited.to_csv(), "bar,M/s,from,to\nlimit: ours & theirs,2\n");
        assert!(limited.to_svg().expect("a picture").contains("ours &amp; theirs"));
    }

    #[test]
    fn odd_figures_are_drawn_all_the_same() {
        let curve = |points: &[(f64, f64)]| Curve { name: "a".into(), points: points.to_vec() };
        let scales = [Scale::Fitting, Scale::Linear, Scale::Logarithmic];
        for points in [
            &[][..],
            &[(1.0, 1.0)],
            &[(0.0, 0.0), (0.0, 0.0)],
            &[(-5.0, -1.0), (3.0, 2.0)],
            &[(1.0, f64::NAN), (2.0, f64::INFINITY)],
            &[(1e-300, 1e-300), (1e300, 1e300)],
            &[(f64::MIN, f64::MIN), (f64::MAX, f64::MAX)],
        ] {
            for scale in scales {
                let chart =
                    Chart::new("t", "x", "y", Drawing::Curves(vec![curve(points)])).with_scales(scale, scale);
                let svg = chart.to_svg().unwrap_or_else(|error| panic!("{points:?}: {error}"));
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{points:?} {scale:?}: {svg}");
            }
        }
        let bars = |values: &[f64]| {
            let bar = |&value: &f64| Bar { name: "a".into(), value, range: Some((value, f64::NAN)) };
            Chart::new("t", "x", "", Drawing::Bars(values.iter().map(bar).collect()))
        };
        for values in [&[][..], &[0.0], &[-1.0, f64::NAN], &[f64::MAX, 1.0]] {
            assert!(bars(values).to_svg().is_ok(), "{values:?}");
        }
        assert!(Chart::trades("t", "x", "y", Vec::new()).to_svg().is_ok());
    }

    #[test]
    fn charts_come_back_from_json_as_they_were_also_from_before() {
        let point = TradePoint { label: "64".into(), x: 1.0, y: 2.0 };
        for drawing in [
            Drawing::Curves(vec![Curve { name: "a".into(), points: vec![(1.0, 2.0)] }]),
            Drawing::Bars(vec![Bar { name: "a".into(), value: 1.0, range: Some((0.5, 2.0)) }]),
            Drawing::Trades(vec![Trade { name: "a".into(), points: vec![point] }]),
        ] {
            let chart = Chart::new("t", "x", "y", drawing).with_scales(Scale::Linear, Scale::Logarithmic);
            let text = serde_json::to_string(&chart).expect("JSON");
            assert_eq!(serde_json::from_str::<Chart>(&text).expect("a chart"), chart);
        }
        let before = r#"{"title":"t","x":"M/s","y":"","drawing":{"bars":[["a",1.5]]}}"#;
        let bar = Bar { name: "a".into(), value: 1.5, range: None };
        let chart: Chart = serde_json::from_str(before).expect("a chart");
        assert_eq!(chart.drawing, Drawing::Bars(vec![bar]));
        let before =
            r#"{"title":"t","x":"n","y":"s","drawing":{"curves":[{"name":"a","points":[[1,null]]}]}}"#;
        assert!(serde_json::from_str::<Chart>(before).is_ok());
    }
}
