//! Edges in text files: lists of edges, and Matrix Market.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::edge::Edge;
use crate::ContainerError;

/// Edges that were read from a text file.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EdgeList {
    /// The edges, in the order of the file; the id of each is its position.
    pub edges: Vec<Edge>,
    /// How many vertices the file states, or the largest that an edge names plus 1.
    pub vertices: u64,
    /// Whether the file states that each edge leads both ways.
    pub is_symmetric: bool,
}

impl EdgeList {
    /// Reads a text file: a [Matrix Market](https://math.nist.gov/MatrixMarket/formats.html) file in coordinate format, whose vertices begin with 1, if the first line says so; otherwise a line for each edge
    /// with source, target, and perhaps a weight and a time, separated by blanks, tabs or commas. Lines that begin with `#` or `%` are comments.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, EdgeList};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("edges.txt");
    /// std::fs::write(&path, "# from to weight\n0 1 0.5\n1,2,3\n").unwrap();
    /// let list = EdgeList::read(&path)?;
    /// assert_eq!(list.edges, [Edge::new(0, 1).weight(0.5).id(0), Edge::new(1, 2).weight(3.0).id(1)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] with the number of the line that cannot be read; [`ContainerError::Io`].
    pub fn read(path: impl AsRef<Path>) -> Result<EdgeList, ContainerError> {
        let path = path.as_ref();
        let failed = |source| ContainerError::Io { path: path.to_owned(), source };
        let from = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
        let mut lines = Lines { list: EdgeList::default(), format: Format::List, announced: None };
        for (number, line) in from.lines().enumerate() {
            lines.take(number, &line.map_err(failed)?).map_err(|what| ContainerError::Damaged {
                path: path.to_owned(),
                what: format!("line {}: {what}", number + 1),
            })?;
        }
        lines.finish().map_err(|what| ContainerError::Damaged { path: path.to_owned(), what })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    List,
    /// Before the line with the sizes.
    MatrixSizes,
    MatrixEntries,
}

/// What was read so far.
struct Lines {
    list: EdgeList,
    format: Format,
    /// Entries that a matrix has.
    announced: Option<u64>,
}

impl Lines {
    fn take(&mut self, number: usize, line: &str) -> Result<(), String> {
        if number == 0 && line.starts_with("%%MatrixMarket") {
            return self.take_banner(line);
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '%']) {
            return Ok(());
        }
        let words: Vec<&str> =
            line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
        match self.format {
            Format::MatrixSizes => self.take_sizes(&words),
            Format::MatrixEntries if self.announced == Some(self.list.edges.len() as u64) => {
                Err(format!("there are more entries than the {} announced", self.list.edges.len()))
            }
            Format::MatrixEntries => self.take_edge(&words, 1),
            Format::List => self.take_edge(&words, 0),
        }
    }

    fn take_banner(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [_, "matrix", "coordinate", field, symmetry] = words[..] else {
            return Err("only matrices in coordinate format can be read".to_owned());
        };
        if !["pattern", "real", "integer"].contains(&field) {
            return Err(format!("entries of the kind {field} cannot be read"));
        }
        self.list.is_symmetric = match symmetry {
            "general" => false,
            "symmetric" => true,
            other => return Err(format!("the symmetry {other} cannot be read")),
        };
        self.format = Format::MatrixSizes;
        Ok(())
    }

    fn take_sizes(&mut self, words: &[&str]) -> Result<(), String> {
        let [rows, columns, entries] = words else {
            return Err("rows, columns and entries are expected".to_owned());
        };
        let size = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no size"));
        self.list.vertices = size(rows)?.max(size(columns)?);
        self.announced = Some(size(entries)?);
        self.format = Format::MatrixEntries;
        Ok(())
    }

    /// `first` is the number of the first vertex.
    fn take_edge(&mut self, words: &[&str], first: u32) -> Result<(), String> {
        let [source, target, data @ ..] = words else {
            return Err("a source and a target are expected".to_owned());
        };
        let most = if first == 1 { self.list.vertices } else { u64::from(u32::MAX) };
        let vertex = |word: &str| {
            let vertex = word.parse::<u32>().ok().and_then(|vertex| vertex.checked_sub(first));
            let vertex = vertex.filter(|vertex| u64::from(*vertex) < most);
            vertex.ok_or_else(|| format!("{word:?} is no vertex"))
        };
        let mut edge = Edge::new(vertex(source)?, vertex(target)?).id(self.list.edges.len() as u64);
        if let Some(weight) = data.first() {
            edge.weight = weight.parse().map_err(|_| format!("{weight:?} is no weight"))?;
        }
        if let Some(time) = data.get(1) {
            edge.time = time.parse().map_err(|_| format!("{time:?} is no time"))?;
        }
        if data.len() > 2 {
            return Err("there are more than four columns".to_owned());
        }
        self.list.vertices = self.list.vertices.max(u64::from(edge.source.max(edge.target)) + 1);
        self.list.edges.push(edge);
        Ok(())
    }

    fn finish(self) -> Result<EdgeList, String> {
        let found = self.list.edges.len() as u64;
        match (self.format, self.announced) {
            (Format::MatrixSizes, _) => Err("it ends before the sizes of the matrix".to_owned()),
            (_, Some(announced)) if announced != found => {
                Err(format!("it has {found} entries, and {announced} are announced"))
            }
            _ => Ok(self.list),
        }
    }
}
