//! Checkpoints: every item once, so that the log before it can go.

mod reader;
mod writer;

use serde::Serialize;
use warpkeep_core::Lsn;

pub(crate) use reader::{CheckpointReader, Described};
pub use writer::CheckpointWriter;

const MAGIC: &[u8; 8] = b"WKCHKPNT";
const BLOCK_MAGIC: &[u8; 4] = b"WKCB";
const FOOTER_MAGIC: &[u8; 4] = b"WKCE";
/// Blocks are a multiple of this long.
const BLOCK_UNIT: u64 = 64;

/// A checkpoint that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointInfo {
    /// Its number, from 1.
    pub id: u64,
    /// Redo begins after this record.
    pub start: Lsn,
    /// The log was durable to here before the checkpoint counted.
    pub end: Lsn,
    /// How many items it holds.
    pub changes: u64,
    /// The size of its file.
    pub bytes: u64,
}
