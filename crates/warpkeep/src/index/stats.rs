//! How full a table is.

use serde::Serialize;

use super::IndexKind;

/// How full a table is, in the terms of its index.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "index", rename_all = "lowercase")]
pub enum TableStats {
    /// By level.
    GpHash(warpkeep_gphash::TableStats),
    /// By shards, with how far searches walk.
    TurboHash(warpkeep_turbohash::TableStats),
}

impl TableStats {
    /// Which index it is.
    pub fn index(&self) -> IndexKind {
        match self {
            TableStats::GpHash(_) => IndexKind::GpHash,
            TableStats::TurboHash(_) => IndexKind::TurboHash,
        }
    }

    /// Items in it.
    pub fn items(&self) -> u64 {
        match self {
            TableStats::GpHash(stats) => stats.items,
            TableStats::TurboHash(stats) => stats.items,
        }
    }

    /// Items as a share of its slots.
    pub fn load_factor(&self) -> f64 {
        match self {
            TableStats::GpHash(stats) => stats.load_factor,
            TableStats::TurboHash(stats) => stats.load_factor,
        }
    }

    /// Slots in it, with items or not; those of the overflow of a GPHash table are beside them.
    pub fn slots(&self) -> u64 {
        match self {
            TableStats::GpHash(stats) => stats.levels.iter().map(|level| level.slots).sum(),
            TableStats::TurboHash(stats) => stats.slots,
        }
    }

    /// Items are being moved, or are about to be, so that a scan may give some of them out twice.
    pub fn is_growing(&self) -> bool {
        match self {
            TableStats::GpHash(stats) => stats.growing,
            TableStats::TurboHash(stats) => stats.waiting > 0,
        }
    }
}
