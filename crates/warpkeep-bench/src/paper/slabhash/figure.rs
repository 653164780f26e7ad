//! The figures of the paper that show measurements.

use std::fmt;
use std::str::FromStr;

/// A figure, by its number.
///
/// ```
/// use warpkeep_bench::paper::slabhash::Figure;
///
/// let figure: Figure = "4a".parse()?;
/// assert_eq!(figure.to_string(), "4a");
/// assert!("3".parse::<Figure>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Section V: claims of the allocator.
    Allocation,
    /// 4a: building by utilisation.
    Build,
    /// 4b: searches by utilisation.
    Search,
    /// 5: building and searches by size.
    Size,
    /// 6: batches of insertions beside rebuilding a static table.
    Increments,
    /// 7a: mixed batches by utilisation.
    Mixes,
    /// 7b: mixed batches beside lists with one node a key.
    Lists,
}

impl Figure {
    /// All of them, in the order of the paper.
    pub const ALL: [Figure; 7] = [
        Figure::Allocation,
        Figure::Build,
        Figure::Search,
        Figure::Size,
        Figure::Increments,
        Figure::Mixes,
        Figure::Lists,
    ];

    fn name(self) -> &'static str {
        match self {
            Figure::Allocation => "V",
            Figure::Build => "4a",
            Figure::Search => "4b",
            Figure::Size => "5",
            Figure::Increments => "6",
            Figure::Mixes => "7a",
            Figure::Lists => "7b",
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
        let found = Figure::ALL.into_iter().find(|figure| figure.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| {
            let names = Figure::ALL.map(Figure::name).join(", ");
            format!(
                "`{text}` is no figure of the slab hash's paper that shows measurements; give one of {names}"
            )
        })
    }
}
