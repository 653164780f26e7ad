//! The page: results for people to read, made from the JSON and CSV files that benchmarks write.
//!
//! One HTML file that needs neither a script nor the network, with its plots inside, for wide screens, phones and paper,
//! light or dark as the reader's system is set; and each plot as an SVG file beside it.
//!
//! ```
//! use warpkeep_bench::page::{self, Source};
//! use warpkeep_bench::report::{Report, Unit};
//!
//! let mut report = Report::new("example", "warpkeep bench example", 1);
//! report.add("get", "warpkeep", 0, "rate", Unit::PerSecond, 2e6);
//! report.add("get", "another", 0, "rate", Unit::PerSecond, 1e6);
//! report.finish();
//! let page = page::render(&[Source::parse("example", &report.to_json()?)?])?;
//! assert!(page.html.contains("2.00 M/s") && page.plots.len() == 1);
//! # Ok::<(), warpkeep_bench::BenchError>(())
//! ```

mod html;
mod plots;
mod source;
mod table;
mod tables;

use std::path::{Path, PathBuf};

pub use self::source::Source;
use crate::BenchError;

/// A page and the plots in it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The whole page.
    pub html: String,
    /// Every plot in it, by the name of its file.
    pub plots: Vec<(String, String)>,
}

/// Makes a page of some results, in their order.
pub fn render(sources: &[Source]) -> Result<Page, BenchError> {
    let mut names = Names::default();
    let plotted = sources.iter().map(|source| plots::of(source, &mut names));
    let plotted: Vec<Vec<plots::Plot>> = plotted.collect::<Result<_, _>>()?;
    let html = html::page(sources, &plotted);
    let plots = plotted.into_iter().flatten().map(|plot| (plot.file, plot.svg)).collect();
    Ok(Page { html, plots })
}

/// Reads results and writes a page of them, and its plots, into a directory, which is made if it is missing. A folder
/// stands for all results in it. Returns the page's path and the number of plots.
pub fn write(results: &[PathBuf], dir: &Path) -> Result<(PathBuf, usize), BenchError> {
    if results.is_empty() {
        return Err(BenchError::Invalid(
            "no results were named; give files that --json or --csv wrote".to_owned(),
        ));
    }
    let files = results.iter().map(|path| match path.is_dir() {
        true => Source::files(path),
        false => Ok(vec![path.clone()]),
    });
    let files = files.collect::<Result<Vec<_>, _>>()?.concat();
    let sources = files.iter().map(|path| Source::read(path)).collect::<Result<Vec<_>, _>>()?;
    if sources.is_empty() {
        return Err(BenchError::Invalid(
            "the folder has no results; give files that --json or --csv wrote".to_owned(),
        ));
    }
    let page = render(&sources)?;
    std::fs::create_dir_all(dir).map_err(BenchError::io(format!("make the directory {}", dir.display())))?;
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(BenchError::io(format!("write {}", path.display())))?;
        Ok::<PathBuf, BenchError>(path)
    };
    for (name, svg) in &page.plots {
        write(name, svg)?;
    }
    Ok((write("index.html", &page.html)?, page.plots.len()))
}

/// Names of files, none twice.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Names {
    fn unused(&mut self, wanted: &str) -> String {
        let numbered =
            |number: u32| if number == 1 { wanted.to_owned() } else { format!("{wanted}-{number}") };
        let name = (1..).map(numbered).find(|name| !self.0.contains(name)).unwrap_or_default();
        self.0.push(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_given_twice() {
        let mut names = Names::default();
        let given = ["a", "b", "a", "a-2", "a"].map(|name| names.unused(name));
        assert_eq!(given, ["a", "b", "a-2", "a-2-2", "a-3"]);
    }
}
