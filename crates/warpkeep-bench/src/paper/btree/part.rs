//! The tables, figures and sections that show measurements.

use std::fmt;
use std::str::FromStr;

/// A table, a figure or a section, by its number.
///
/// ```
/// use warpkeep_bench::paper::btree::Part;
///
/// let part: Part = "table 3.3".parse()?;
/// assert_eq!(part.to_string(), "table 3.3");
/// assert!("figure 3.1".parse::<Part>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Section 3.5.1: latch coupling beside restarts.
    Latches,
    /// Table 3.3: insertions by the size of a batch.
    Increments,
    /// Figure 3.2: lookups, ranges and successors of all keys.
    Queries,
    /// Figure 3.3: a batch beside building everything anew.
    Rebuild,
    /// Figure 3.4: deletions.
    Deletions,
    /// Figure 3.5: insertions, deletions and lookups in one batch.
    Mixes,
    /// Figure 4.2: building by insertion, and lookups.
    Inserted,
    /// Table 4.1: insertions and ranges in one batch.
    Ranges,
    /// Figure 4.4: the same by the length of the ranges.
    Lengths,
    /// Table 4.2: deletions and lookups in one batch.
    Lookups,
    /// Figure 4.6: the memory of older copies, by epoch.
    Memory,
}

impl Part {
    /// All of them, in the order of the text.
    pub const ALL: [Part; 11] = [
        Part::Latches,
        Part::Increments,
        Part::Queries,
        Part::Rebuild,
        Part::Deletions,
        Part::Mixes,
        Part::Inserted,
        Part::Ranges,
        Part::Lengths,
        Part::Lookups,
        Part::Memory,
    ];

    fn name(self) -> &'static str {
        match self {
            Part::Latches => "section 3.5.1",
            Part::Increments => "table 3.3",
            Part::Queries => "figure 3.2",
            Part::Rebuild => "figure 3.3",
            Part::Deletions => "figure 3.4",
            Part::Mixes => "figure 3.5",
            Part::Inserted => "figure 4.2",
            Part::Ranges => "table 4.1",
            Part::Lengths => "figure 4.4",
            Part::Lookups => "table 4.2",
            Part::Memory => "figure 4.6",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        // The figures 4.3 and 4.5 draw what the tables 4.1 and 4.2 sum up.
        let text = match text.trim() {
            "figure 4.3" => "table 4.1",
            "figure 4.5" => "table 4.2",
            other => other,
        };
        Part::ALL.into_iter().find(|part| part.name() == text).ok_or_else(|| {
            let names = Part::ALL.map(Part::name).join(", ");
            format!("`{text}` is nothing of the text that is measured; there are {names}")
        })
    }
}
