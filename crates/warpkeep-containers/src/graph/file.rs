//! Graphs in files: all edges, each once.

use std::path::Path;

use warpkeep_device::Device;

use super::edge::{Edge, EdgeStatus};
use super::reading::{Reading, each_once};
use super::whole::Listed;
use super::{Graph, GraphOptions};
use crate::ContainerError;
use crate::file::{self, FileFormat, FileKind, Reader};

/// A record is an edge: source and target, then the data that edges have. The word of the header has the options in its lower half, and the number of
/// vertices in its upper one.
fn format(options: &GraphOptions) -> FileFormat {
    let value_bytes = 4 * u8::from(options.weights) + 8 * u8::from(options.ids) + 8 * u8::from(options.times);
    FileFormat { kind: FileKind::GRAPH, key_bytes: 8, value_bytes }
}

impl Graph {
    /// Writes all edges to a file, with checksums. The file is written under another name beside it, made durable and renamed, so after a
    /// crash there is the old file or the new one.
    ///
    /// ```
    /// use warpkeep_containers::{Edge, Graph, GraphOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("social.graph");
    /// let options = GraphOptions::default().undirected().times();
    /// let graph = Graph::on_cpu(&options);
    /// graph.insert_edges(&[Edge::new(0, 1).time(5)])?;
    /// graph.save(&path)?;
    /// let loaded = Graph::load_on_cpu(&path, &options)?;
    /// assert_eq!(loaded.edges()?, [Edge::new(0, 1).time(5)]);
    /// # Ok::<(), warpkeep_containers::ContainerError>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ContainerError> {
        self.reading().save(path.as_ref())
    }

    /// A graph in device memory with the edges of a file. The options are those that it was saved with.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if a byte differs from what was saved, or [`ContainerError::WrongKind`] if something else was saved, or a graph with
    /// other options; there is no graph then.
    pub fn load(
        device: &Device,
        path: impl AsRef<Path>,
        options: &GraphOptions,
    ) -> Result<Graph, ContainerError> {
        let (file, vertices) = open(path.as_ref(), options)?;
        Graph::new(device, options)?.filled_from(file, vertices)
    }

    /// A graph on the CPU with the edges of a file.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_on_cpu(path: impl AsRef<Path>, options: &GraphOptions) -> Result<Graph, ContainerError> {
        let (file, vertices) = open(path.as_ref(), options)?;
        Graph::on_cpu(options).filled_from(file, vertices)
    }

    /// With all edges of a file, which has this many vertices.
    fn filled_from(self, mut file: Reader<'_>, vertices: u64) -> Result<Graph, ContainerError> {
        let options = &self.options;
        let bytes = 8 + usize::from(format(options).value_bytes);
        while let Some(part) = file.next_part()? {
            let edges: Vec<Edge> = part.chunks_exact(bytes).map(|record| edge(record, options)).collect();
            if edges.iter().any(|edge| u64::from(edge.source.max(edge.target)) >= vertices) {
                return Err(file.damaged("it has an edge of a vertex beyond the last one"));
            }
            if self.insert_edges(&edges)?.iter().any(|status| *status != EdgeStatus::Inserted) {
                return Err(file.damaged("it has an edge twice, or a loop that the graph does not keep"));
            }
        }
        self.grow_vertices(|_| Ok(vertices))?;
        Ok(self)
    }
}

impl Reading<'_> {
    pub(super) fn save(&self, path: &Path) -> Result<(), ContainerError> {
        let csr = self.lists(Listed::All)?;
        let word = u64::from(self.options.flags()) | (csr.lists() as u64) << 32;
        file::save(path, format(self.options), word, |file| {
            let mut value = Vec::with_capacity(20);
            for edge in each_once(self.options, &csr) {
                value.clear();
                if self.options.weights {
                    value.extend_from_slice(&edge.weight.to_le_bytes());
                }
                if self.options.ids {
                    value.extend_from_slice(&edge.id.to_le_bytes());
                }
                if self.options.times {
                    value.extend_from_slice(&edge.time.to_le_bytes());
                }
                let vertices = u64::from(edge.source) | u64::from(edge.target) << 32;
                file.push(&vertices.to_le_bytes(), &value)?;
            }
            Ok(())
        })
    }
}

/// Opens a file that holds a graph with these options; gives the number of its vertices as well.
fn open<'a>(path: &'a Path, options: &GraphOptions) -> Result<(Reader<'a>, u64), ContainerError> {
    let file = Reader::open(path, format(options))?;
    let Some(found) = GraphOptions::of_flags(file.word as u32) else {
        return Err(file.damaged("its options are none of a graph"));
    };
    if found != *options {
        let (path, found, expected) = (path.to_owned(), found.describe(), options.describe());
        return Err(ContainerError::WrongKind { path, found, expected });
    }
    let vertices = file.word >> 32;
    Ok((file, vertices))
}

/// The edge of a record.
fn edge(record: &[u8], options: &GraphOptions) -> Edge {
    let (mut at, mut edge) = (8, Edge::new(number(&record[..4]) as u32, number(&record[4..8]) as u32));
    let mut next = |bytes: usize| {
        at += bytes;
        number(&record[at - bytes..at])
    };
    if options.weights {
        edge.weight = f32::from_bits(next(4) as u32);
    }
    if options.ids {
        edge.id = next(8);
    }
    if options.times {
        edge.time = next(8) as i64;
    }
    edge
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
