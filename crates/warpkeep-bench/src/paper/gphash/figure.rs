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

/// How a figure is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The CPU engine.
    Cpu,
    /// A device.
    Device,
    /// Not measured here.
    Unmeasured,
}

/// Number, how it is measured, its title, and related measurements if it is not measured.
const FIGURES: [(u8, By, &str, &str); 11] = [
    (
        5,
        By::Device,
        "rate against latency, 8-byte keys",
        "the CPU engine's curves: warpkeep bench compare --workloads micro,ycsb --batch 2^0..2^24:4",
    ),
    (
        6,
        By::Device,
        "rate against latency, 32-byte keys",
        "the CPU engine's curves: warpkeep bench compare --workloads micro,ycsb --key-bytes 32 --batch 2^0..2^24:4",
    ),
    (7, By::Cpu, "load factor while loading", ""),
    (
        8,
        By::Unmeasured,
        "where the time of a batch goes, transfers included",
        "bench device has the rates of the kernels beside those from host to host",
    ),
    (
        9,
        By::Device,
        "what warps that work together, keys in place and the bucket cache bring",
        "of these the CPU engine has keys in place: the layout of a table",
    ),
    (
        10,
        By::Unmeasured,
        "DLRM and PageRank",
        "rates through the library, with --device cuda:0 by a GPU: warpkeep bench compare --workloads dlrm,pagerank --batch 2^0..2^20:4",
    ),
    (11, By::Device, "bucket caches by algorithm and size", "the processor's own cache is the CPU engine's"),
    (12, By::Cpu, "rates by key size and by skew, YCSB C", ""),
    (13, By::Cpu, "rates and highest load factors by geometry", ""),
    (14, By::Cpu, "resizing and recovery against size", ""),
    (15, By::Device, "loading the bucket cache", "the CPU engine has none"),
];

impl Figure {
    /// The figures that the CPU engine can do.
    pub fn on_cpu() -> impl Iterator<Item = Figure> {
        FIGURES.iter().map(|&(number, ..)| Figure(number)).filter(|figure| figure.is_on_cpu())
    }

    /// The figures that a device can do.
    pub fn on_device() -> impl Iterator<Item = Figure> {
        FIGURES.iter().map(|&(number, ..)| Figure(number)).filter(|figure| figure.is_on_device())
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// Whether the CPU engine can do it.
    pub fn is_on_cpu(self) -> bool {
        self.row().1 == By::Cpu
    }

    /// Whether a device can do it.
    pub fn is_on_device(self) -> bool {
        self.row().1 == By::Device
    }

    /// The requirements that are missing here.
    pub fn needs(self) -> String {
        let (number, by, title, meanwhile) = self.row();
        match by {
            By::Cpu => format!("figure {number} ({title}) needs nothing but the CPU engine"),
            By::Device => format!(
                "figure {number} ({title}) was not measured: it needs a CUDA device, which --device cuda:0 names; {meanwhile}"
            ),
            By::Unmeasured => format!(
                "figure {number} ({title}) was not measured: it needs a CUDA device and what is not built yet; {meanwhile}"
            ),
        }
    }

    fn row(self) -> (u8, By, &'static str, &'static str) {
        *FIGURES.iter().find(|figure| figure.0 == self.0).expect("a figure is made from one of these")
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Figure, String> {
        let number = text.trim().parse().ok();
        let found = FIGURES.iter().find(|figure| number == Some(figure.0));
        found.map(|figure| Figure(figure.0)).ok_or_else(|| {
            format!("`{text}` is no figure that shows measurements; those are 5 to 15, of which the CPU can do 7, 12, 13 and 14, and a device 5, 6, 9, 11 and 15")
        })
    }
}
