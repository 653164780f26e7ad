//! The figures of the paper that are measured here.

use std::str::FromStr;

/// A figure, by its number.
///
/// ```
/// use warpkeep_bench::paper::megakv::Figure;
///
/// let figure: Figure = "14".parse()?;
/// assert_eq!(figure.number(), 14);
/// assert!("9".parse::<Figure>().is_err(), "it shows no measurement");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure(u8);

/// The part of Mega-KV that a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The index by itself, on a device.
    Index,
    /// The server: parsers, scheduler and answers around an index.
    Pipeline,
}

const FIGURES: [(u8, Part, &str); 9] = [
    (6, Part::Index, "searches by cells of a bucket and lanes of a job"),
    (7, Part::Index, "insertions by partitions"),
    (8, Part::Index, "throughput and latency of the index by the size of a batch"),
    (10, Part::Index, "the time of a batch as a line"),
    (11, Part::Pipeline, "the shortest cycle, and writes that wait"),
    (13, Part::Pipeline, "the time of a batch by its size, and the rate that a cycle allows"),
    (14, Part::Pipeline, "rates with keys and values of 8 bytes"),
    (15, Part::Pipeline, "rates with larger keys and values"),
    (16, Part::Pipeline, "latencies by cycle"),
];

impl Figure {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Figure> {
        FIGURES.iter().map(|&(number, ..)| Figure(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    pub(super) fn part(self) -> Part {
        self.row().1
    }

    fn row(self) -> (u8, Part, &'static str) {
        *FIGURES.iter().find(|figure| figure.0 == self.0).expect("a figure is made from one of these")
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let number = text.trim().parse().ok();
        Figure::all().find(|figure| number == Some(figure.0)).ok_or_else(|| {
            let known: Vec<String> = Figure::all().map(|figure| figure.0.to_string()).collect();
            format!("`{text}` is no figure that is measured here; those are {}", known.join(", "))
        })
    }
}
