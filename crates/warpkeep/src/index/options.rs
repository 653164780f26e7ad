//! The index of a new table, and its options.

use warpkeep_gphash::{Geometry, Layout};

use super::IndexKind;

/// The index of a new table, and its options. An [`IndexKind`] converts to that index with default options.
///
/// ```
/// use warpkeep::{Geometry, IndexKind, IndexOptions, KeySpec, Layout, TableOptions, ValueSpec};
///
/// let rows = TableOptions::new(KeySpec::U64, ValueSpec::U64);
/// let plain = rows.index(IndexKind::TurboHash);
/// let sharded = rows.index(IndexOptions::turbohash(16));
/// let packed = rows.index(IndexOptions::gphash(Layout::Packed));
/// let one_level = rows.index(IndexOptions::GpHash { geometry: Geometry::new(1, 4, 8)?, layout: None });
/// assert_eq!([plain, sharded, packed, one_level].map(|options| options.index.kind() == IndexKind::GpHash), [false, false, true, true]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOptions {
    /// Levels of small buckets, for the CPU and for GPUs.
    GpHash {
        /// How the table is laid out.
        geometry: Geometry,
        /// The contents of a slot; by default the one that suits keys and values.
        layout: Option<Layout>,
    },
    /// Shards of 256-byte buckets side by side, for the CPU.
    TurboHash {
        /// How many shards the table has, for good; 0 for as many as suit the capacity. More let more writers work at once, fewer become fuller before
        /// they grow.
        shards: u32,
    },
}

impl IndexOptions {
    /// A GPHash table with slots like this.
    pub fn gphash(layout: Layout) -> IndexOptions {
        IndexOptions::GpHash { geometry: Geometry::default(), layout: Some(layout) }
    }

    /// A TurboHash table with this many shards.
    pub fn turbohash(shards: u32) -> IndexOptions {
        IndexOptions::TurboHash { shards }
    }

    /// Which index it is.
    pub fn kind(self) -> IndexKind {
        match self {
            IndexOptions::GpHash { .. } => IndexKind::GpHash,
            IndexOptions::TurboHash { .. } => IndexKind::TurboHash,
        }
    }
}

impl From<IndexKind> for IndexOptions {
    fn from(kind: IndexKind) -> IndexOptions {
        match kind {
            IndexKind::GpHash => IndexOptions::GpHash { geometry: Geometry::default(), layout: None },
            IndexKind::TurboHash => IndexOptions::TurboHash { shards: 0 },
        }
    }
}

impl Default for IndexOptions {
    fn default() -> IndexOptions {
        IndexKind::default().into()
    }
}
