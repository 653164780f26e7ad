//! The use of the space of an image.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The blocks of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassUsage {
    /// Bytes in a block.
    pub block: u64,
    /// Slabs of such blocks.
    pub slabs: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// Blocks in use.
    pub used: u64,
}

/// The use of the space of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeapUsage {
    /// Bytes in a chunk.
    pub chunk_size: u64,
    /// All chunks.
    pub chunks: u64,
    /// Chunks not in use.
    pub free_chunks: u64,
    /// Chunks that hold the header and the chunk directory.
    pub directory_chunks: u64,
    /// Runs of chunks handed out whole.
    pub extents: u64,
    /// Chunks in those runs.
    pub extent_chunks: u64,
    /// Blocks by size, smallest first.
    pub classes: Vec<ClassUsage>,
}

/// Sums by block size, smallest first; blocks in tiles count with others of their size.
pub(crate) fn by_size(parts: impl IntoIterator<Item = ClassUsage>) -> Vec<ClassUsage> {
    let mut classes: BTreeMap<u64, ClassUsage> = BTreeMap::new();
    for ClassUsage { block, slabs, blocks, used } in parts {
        let class = classes.entry(block).or_insert(ClassUsage { block, slabs: 0, blocks: 0, used: 0 });
        class.slabs += slabs;
        class.blocks += blocks;
        class.used += used;
    }
    classes.retain(|_, class| class.slabs > 0);
    classes.into_values().collect()
}

impl HeapUsage {
    /// Bytes in blocks and extents that are in use.
    pub fn used_bytes(&self) -> u64 {
        let blocks: u64 = self.classes.iter().map(|class| class.block * class.used).sum();
        blocks + self.extent_chunks * self.chunk_size
    }

    /// Blocks in use, of all sizes.
    pub fn used_blocks(&self) -> u64 {
        self.classes.iter().map(|class| class.used).sum()
    }

    /// Bytes of the image.
    pub fn total_bytes(&self) -> u64 {
        self.chunks * self.chunk_size
    }
}

impl fmt::Display for HeapUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} chunks of {} bytes: {} free, {} directory, {} in {} extents",
            self.chunks,
            self.chunk_size,
            self.free_chunks,
            self.directory_chunks,
            self.extent_chunks,
            self.extents
        )?;
        writeln!(f, "{:>10} {:>8} {:>12} {:>12} {:>6}", "block", "slabs", "blocks", "used", "full")?;
        for class in &self.classes {
            let full = 100.0 * class.used as f64 / class.blocks.max(1) as f64;
            writeln!(
                f,
                "{:>10} {:>8} {:>12} {:>12} {full:>5.1}%",
                class.block, class.slabs, class.blocks, class.used
            )?;
        }
        Ok(())
    }
}
