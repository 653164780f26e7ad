//! Edges in text files: lists of edges, and Matrix Market.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::edge::Edge;
use crate::ContainerError;

/// Bytes of the longest line that is read, with its end: a file of something else may have no lines.
const MOST_LINE: u64 = 1 << 16;

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
    /// Reads a text file: a [Matrix Market](https://math.nist.gov/MatrixMarket/formats.html) file in coordinate format, whose vertices begin with 1, if the first line but for comments says so;
    /// otherwise a line for each edge with source, target, and perhaps a weight and a time, separated by blanks and tabs, or by commas. Lines that begin with `#` or `%` are comments. Between
    /// commas a weight may be left out, which is 1 then, and a time, which is 0.
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
        let damaged = |what| ContainerError::Damaged { path: path.to_owned(), what };
        let mut from = BufReader::with_capacity(1 << 20, File::open(path).map_err(failed)?);
        let mut lines = Lines { list: EdgeList::default(), format: Format::List };
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            if from.by_ref().take(MOST_LINE + 1).read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            lines.take(&line).map_err(|what| damaged(format!("line {number}: {what}")))?;
        }
        lines.finish().map_err(damaged)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    List,
    /// Before the line with the sizes.
    MatrixSizes {
        has_weights: bool,
    },
    MatrixEntries(Matrix),
}

/// What the beginning of a matrix says of its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Matrix {
    has_weights: bool,
    rows: u64,
    columns: u64,
    entries: u64,
}

/// What was read so far.
struct Lines {
    list: EdgeList,
    format: Format,
}

impl Lines {
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        if line.len() as u64 > MOST_LINE {
            return Err(format!("it has more than {MOST_LINE} bytes"));
        }
        let line = line.trim_ascii();
        // Lines that end so would be read as one, or all as one comment.
        if line.contains(&b'\r') {
            return Err("it has a carriage return in the middle; end lines with a line feed".to_owned());
        }
        if is_banner(line) {
            return self.take_banner(text(line)?);
        }
        // Comments may be in any encoding.
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%") {
            return Ok(());
        }
        let line = text(line)?;
        match self.format {
            Format::List => self.take_edge(line),
            Format::MatrixSizes { has_weights } => self.take_sizes(line, has_weights),
            Format::MatrixEntries(matrix) => self.take_entry(line, matrix),
        }
    }

    fn take_banner(&mut self, line: &str) -> Result<(), String> {
        if self.format != Format::List || !self.list.edges.is_empty() {
            return Err("a matrix begins in the middle of the file".to_owned());
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [_, "matrix", "coordinate", field, symmetry] = words[..] else {
            return Err("only matrices in coordinate format can be read".to_owned());
        };
        let has_weights = match field {
            "pattern" => false,
            "real" | "integer" => true,
            _ => return Err(format!("entries of the kind {field} cannot be read")),
        };
        self.list.is_symmetric = match symmetry {
            "general" => false,
            "symmetric" => true,
            other => return Err(format!("the symmetry {other} cannot be read")),
        };
        self.format = Format::MatrixSizes { has_weights };
        Ok(())
    }

    fn take_sizes(&mut self, line: &str, has_weights: bool) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rows, columns, entries] = words[..] else {
            return Err("rows, columns and entries are expected".to_owned());
        };
        let size = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no size"));
        let matrix =
            Matrix { has_weights, rows: size(rows)?, columns: size(columns)?, entries: size(entries)? };
        self.list.vertices = matrix.rows.max(matrix.columns);
        self.format = Format::MatrixEntries(matrix);
        Ok(())
    }

    fn take_entry(&mut self, line: &str, matrix: Matrix) -> Result<(), String> {
        if self.list.edges.len() as u64 == matrix.entries {
            return Err(format!("there are more entries than the {} announced", matrix.entries));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (row, column, entry) = match (&words[..], matrix.has_weights) {
            ([row, column], false) => (row, column, None),
            ([row, column, entry], true) => (row, column, Some(entry)),
            (_, false) => return Err("a row and a column are expected".to_owned()),
            (_, true) => return Err("a row, a column and an entry are expected".to_owned()),
        };
        let mut edge = Edge::new(vertex(row, 1, matrix.rows)?, vertex(column, 1, matrix.columns)?);
        if let Some(entry) = entry {
            edge.weight = weight(entry)?;
        }
        self.push(edge);
        Ok(())
    }

    fn take_edge(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = match line.contains(',') {
            true => line.split(',').map(str::trim).collect(),
            false => line.split_whitespace().collect(),
        };
        let [source, target, data @ ..] = &words[..] else {
            return Err("a source and a target are expected".to_owned());
        };
        if data.len() > 2 {
            return Err("there are more than four columns".to_owned());
        }
        let most = u64::from(u32::MAX);
        let mut edge = Edge::new(vertex(source, 0, most)?, vertex(target, 0, most)?);
        if let Some(word) = data.first().filter(|word| !word.is_empty()) {
            edge.weight = weight(word)?;
        }
        if let Some(word) = data.get(1).filter(|word| !word.is_empty()) {
            edge.time = word.parse().map_err(|_| format!("{word:?} is no time"))?;
        }
        self.list.vertices = self.list.vertices.max(u64::from(edge.source.max(edge.target)) + 1);
        self.push(edge);
        Ok(())
    }

    fn push(&mut self, edge: Edge) {
        self.list.edges.push(edge.id(self.list.edges.len() as u64));
    }

    fn finish(self) -> Result<EdgeList, String> {
        let found = self.list.edges.len() as u64;
        match self.format {
            Format::MatrixSizes { .. } => Err("it ends before the sizes of the matrix".to_owned()),
            Format::MatrixEntries(Matrix { entries, .. }) if entries != found => {
                Err(format!("it has {found} entries, and {entries} are announced"))
            }
            _ => Ok(self.list),
        }
    }
}

/// Whether a line is the first one of a matrix.
fn is_banner(line: &[u8]) -> bool {
    let word = line.split(u8::is_ascii_whitespace).next();
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"%%MatrixMarket"))
}

fn text(line: &[u8]) -> Result<&str, String> {
    str::from_utf8(line).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// The vertex of a word, where `first` stands for vertex 0 and there are `most` vertices.
fn vertex(word: &str, first: u32, most: u64) -> Result<u32, String> {
    let vertex = word.parse::<u32>().ok().and_then(|vertex| vertex.checked_sub(first));
    let vertex = vertex.filter(|vertex| u64::from(*vertex) < most);
    vertex.ok_or_else(|| format!("{word:?} is no vertex"))
}

fn weight(word: &str) -> Result<f32, String> {
    word.parse().map_err(|_| format!("{word:?} is no weight"))
}
