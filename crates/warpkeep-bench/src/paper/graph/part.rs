//! The tables and figures of the paper.

use std::fmt;
use std::str::FromStr;

/// A table or a figure of chapter 5.
///
/// ```
/// use warpkeep_bench::paper::graph::Part;
///
/// assert_eq!(Part::table("5.7")?, Part::Triangles);
/// assert_eq!(Part::figure("5.2")?.to_string(), "figure 5.2");
/// assert!(Part::table("5.1").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Table 5.2: insertion of edges.
    Insertion,
    /// Table 5.3: deletion of edges.
    Deletion,
    /// Table 5.4: deletion of vertices.
    VertexDeletion,
    /// Table 5.5: building from all edges.
    BulkBuild,
    /// Table 5.6: building by batches.
    IncrementalBuild,
    /// Table 5.7: triangles.
    Triangles,
    /// Table 5.8: sorting of all lists.
    Sorting,
    /// Table 5.9: five times insertion of edges and triangles.
    Dynamic,
    /// Figure 5.2: insertion by the length of chains.
    ChainsInserting,
    /// Figure 5.3: triangles by the length of chains.
    ChainsCounting,
}

impl Part {
    /// All of them, in the order of the paper.
    pub const ALL: [Part; 10] = [
        Part::Insertion,
        Part::Deletion,
        Part::VertexDeletion,
        Part::BulkBuild,
        Part::IncrementalBuild,
        Part::Triangles,
        Part::Sorting,
        Part::Dynamic,
        Part::ChainsInserting,
        Part::ChainsCounting,
    ];

    fn name(self) -> (&'static str, &'static str) {
        match self {
            Part::Insertion => ("table", "5.2"),
            Part::Deletion => ("table", "5.3"),
            Part::VertexDeletion => ("table", "5.4"),
            Part::BulkBuild => ("table", "5.5"),
            Part::IncrementalBuild => ("table", "5.6"),
            Part::Triangles => ("table", "5.7"),
            Part::Sorting => ("table", "5.8"),
            Part::Dynamic => ("table", "5.9"),
            Part::ChainsInserting => ("figure", "5.2"),
            Part::ChainsCounting => ("figure", "5.3"),
        }
    }

    /// The table with this number.
    ///
    /// # Errors
    /// A message that names all tables.
    pub fn table(number: &str) -> Result<Part, String> {
        Part::of("table", number)
    }

    /// The figure with this number.
    ///
    /// # Errors
    /// A message that names all figures.
    pub fn figure(number: &str) -> Result<Part, String> {
        Part::of("figure", number)
    }

    fn of(kind: &str, number: &str) -> Result<Part, String> {
        let wanted = |part: &Part| part.name().0 == kind;
        let found = Part::ALL.into_iter().find(|part| part.name() == (kind, number.trim()));
        found.ok_or_else(|| {
            let names: Vec<&str> =
                Part::ALL.iter().filter(|part| wanted(part)).map(|part| part.name().1).collect();
            format!(
                "`{number}` is no {kind} of chapter 5 that shows measurements; give some of {}",
                names.join(", ")
            )
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number) = self.name();
        write!(f, "{kind} {number}")
    }
}

impl FromStr for Part {
    type Err = String;

    /// A table or a figure with its kind: `table 5.2`.
    fn from_str(text: &str) -> Result<Part, String> {
        let (kind, number) = text.trim().split_once(' ').unwrap_or(("table", text.trim()));
        Part::of(kind, number)
    }
}
