//! The measured parts of the paper.

use std::fmt;
use std::str::FromStr;

/// A figure of the paper, or its text about reopening.
///
/// ```
/// use warpkeep_bench::paper::turbohash::Figure;
///
/// assert_eq!("11".parse::<Figure>()?, Figure::Distances);
/// assert!("2".parse::<Figure>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// 1: load factors and probing distances by probing scope.
    Scope,
    /// 6: rates by operation and threads.
    Rates,
    /// 10: the load factor over inserts.
    Load,
    /// 11: how far searches for missing keys walk.
    Distances,
    /// 12: how long they take, before and after deleted slots are collected.
    Latency,
    /// How long coming back takes.
    Restart,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 6] =
        [Figure::Scope, Figure::Rates, Figure::Load, Figure::Distances, Figure::Latency, Figure::Restart];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Scope => "1",
            Figure::Rates => "6",
            Figure::Load => "10",
            Figure::Distances => "11",
            Figure::Latency => "12",
            Figure::Restart => "restart",
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let found = Figure::ALL.into_iter().find(|figure| figure.name() == text.trim());
        found.ok_or_else(|| {
            format!("`{text}` is no figure that is measured here; those are 1, 6, 10, 11, 12 and restart")
        })
    }
}
