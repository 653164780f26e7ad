//! How full a table is.

use std::sync::atomic::Ordering;

use serde::Serialize;
use warpkeep_image::Persist;

use crate::Table;
use crate::levels::Level;
use crate::slot::offset_of;

/// One level of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelStats {
    /// Buckets in it.
    pub buckets: u64,
    /// Slots in it.
    pub slots: u64,
    /// Slots with an item.
    pub used: u64,
}

/// How full a table is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableStats {
    /// Items in it.
    pub items: u64,
    /// Items as a share of the slots of its levels.
    pub load_factor: f64,
    /// Levels, the top first.
    pub levels: Vec<LevelStats>,
    /// The overflow; during a growth the old one, too.
    pub overflow: Vec<LevelStats>,
    /// A growth is under way.
    pub growing: bool,
}

impl TableStats {
    pub(crate) fn of<P: Persist>(table: &Table<P>) -> TableStats {
        let guard = &crossbeam_epoch::pin();
        let levels = table.levels(guard);
        let look = |level: &Level| {
            let words = (0..level.buckets).flat_map(|bucket| level.bucket(table.geometry, bucket));
            let used = words.filter(|word| offset_of(word.load(Ordering::Relaxed)) != 0).count() as u64;
            LevelStats { buckets: level.buckets, slots: level.buckets * table.geometry.slots() as u64, used }
        };
        let items = table.len();
        TableStats {
            items,
            load_factor: items as f64 / levels.capacity(table.geometry) as f64,
            levels: levels.levels.iter().map(look).collect(),
            overflow: levels.overflows().map(look).collect(),
            growing: levels.drained > 0,
        }
    }
}
