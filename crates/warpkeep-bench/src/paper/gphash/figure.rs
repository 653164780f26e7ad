//! The figures of the paper that show measurements.

use std::str::FromStr;

/// A figure, by its number.
///
/// ```
/// use warpkeep_bench::paper::gphash::Figure;
///
/// let figure: Figure = "12".parse()?;
/// assert!(figure.is_on_cpu());
/// assert!("15".parse::<Figure>()?.needs().contains("CUDA"));
/// assert!("4".parse::<Figure>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure(u8);

/// Number, what it shows, and what shows something of it on the CPU.
const FIGURES: [(u8, &str, &str); 11] = [
    (
        5,
        "rate against latency, 8-byte keys",
        "the CPU engine's curves: warpkeep bench compare --workloads micro,ycsb --batch 1,16,256,4096,65536,1048576",
    ),
    (
        6,
        "rate against latency, 32-byte keys",
        "the CPU engine's curves: warpkeep bench compare --workloads micro,ycsb --key-bytes 32 --batch 1,16,256,4096,65536,1048576",
    ),
    (7, "load factor while loading", ""),
    (8, "where the time of a batch goes, transfers included", "on the CPU nothing is transferred"),
    (
        9,
        "what warps that work together, keys in place and the bucket cache bring",
        "of these the CPU engine has keys in place: the layout of a table",
    ),
    (
        10,
        "DLRM and PageRank",
        "the CPU engine's rates: warpkeep bench compare --workloads dlrm,pagerank --batch 1,16,256,4096,65536",
    ),
    (11, "bucket caches by algorithm and size", "the processor's own cache is the CPU engine's"),
    (12, "rates by key size and by skew, YCSB C", ""),
    (13, "rates and highest load factors by geometry", ""),
    (14, "resizing and recovery against size", ""),
    (15, "loading the bucket cache", "the CPU engine has none"),
];

impl Figure {
    /// Those that the CPU engine can do.
    pub fn on_cpu() -> impl Iterator<Item = Figure> {
        FIGURES.iter().map(|&(number, ..)| Figure(number)).filter(|figure| figure.is_on_cpu())
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// What it shows.
    pub fn title(self) -> &'static str {
        self.row().1
    }

    /// Whether the CPU engine can do it.
    pub fn is_on_cpu(self) -> bool {
        matches!(self.0, 7 | 12 | 13 | 14)
    }

    /// What it takes that is not here.
    pub fn needs(self) -> String {
        let (number, title, meanwhile) = self.row();
        match self.is_on_cpu() {
            true => format!("figure {number} ({title}) needs nothing but the CPU engine"),
            false => format!(
                "figure {number} ({title}) was not measured: it needs a CUDA device and the GPU engine, and comes with that; {meanwhile}"
            ),
        }
    }

    fn row(self) -> (u8, &'static str, &'static str) {
        *FIGURES.iter().find(|figure| figure.0 == self.0).expect("a figure is made from one of these")
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let number = text.trim().parse().ok();
        let found = FIGURES.iter().find(|figure| number == Some(figure.0));
        found.map(|figure| Figure(figure.0)).ok_or_else(|| {
            format!("`{text}` is no figure that shows measurements; those are 5 to 15, of which 7, 12, 13 and 14 can be measured here")
        })
    }
}
