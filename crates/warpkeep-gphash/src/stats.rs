//! How full a table is.

use std::sync::atomic::Ordering;

use serde::Serialize;
use warpkeep_image::Persist;

use crate::levels::Level;
use crate::{Layout, Table};

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
    /// Items displaced since the table was opened.
    pub displaced: u64,
    /// A growth is under way.
    pub growing: bool,
    /// The table is becoming smaller.
    pub shrinking: bool,
    /// What a slot holds.
    pub layout: Layout,
    /// How slots are compared on this machine.
    pub matching: &'static str,
}

impl TableStats {
    pub(crate) fn of<P: Persist>(table: &Table<P>) -> TableStats {
        let guard = &table.heap.pin();
        let levels = table.levels(guard);
        let look = |level: &Level| LevelStats {
            buckets: level.buckets,
            slots: level.buckets * table.geometry.slots() as u64,
            used: table.count_items(level),
        };
        let items = table.len();
        TableStats {
            items,
            load_factor: items as f64 / levels.capacity(table.geometry) as f64,
            levels: levels.levels.iter().map(look).collect(),
            overflow: levels.overflows().map(look).collect(),
            displaced: table.displacing.moved.load(Ordering::Relaxed),
            growing: levels.drained > 0 && !levels.shrinking,
            shrinking: levels.shrinking,
            layout: table.layout,
            matching: table.matching.name(),
        }
    }
}
