//! The report of a repair.

use serde::Serialize;

/// The changes that a repair made, or would make.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepairReport {
    /// Nothing was changed; this is a plan.
    pub dry_run: bool,
    /// Checkpoint and log have every change that the image had, so nothing is lost.
    pub log_is_complete: bool,
    /// Items that were damaged, in all tables.
    pub damaged: u64,
    /// Items that were put right.
    pub restored: u64,
    /// Items that the log, which is complete, does not have: the damage created them, and they were removed.
    pub removed: u64,
    /// Items that are lost.
    pub lost: u64,
    /// The damaged tables, by name.
    pub tables: Vec<TableRepair>,
    /// How long it took.
    pub seconds: f64,
}

/// The changes of a repair in a table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableRepair {
    /// The table.
    pub table: String,
    /// Items that were damaged.
    pub damaged: u64,
    /// The restored items.
    pub restored: Vec<RestoredItem>,
    /// Keys, as people read them, that the damage had made.
    pub removed: Vec<String>,
    /// The lost items.
    pub lost: Vec<LostItem>,
}

/// An item that was put right.
#[derive(Clone, Debug, Serialize)]
pub struct RestoredItem {
    /// Its key, as people read it.
    pub key: String,
    /// The version that it has now, which is the newest in the log.
    pub version: u64,
    /// Its slot could not be read, and the log may lack a delete of its key: if it had been deleted, it exists
    /// again.
    pub perhaps_deleted: bool,
}

/// An item that is lost.
#[derive(Clone, Debug, Serialize)]
pub struct LostItem {
    /// Its key, as people read it, if it could be read.
    pub key: Option<String>,
    /// Where its bucket lay in the image.
    pub bucket: u64,
    /// Its slot there.
    pub slot: usize,
    /// The damage.
    pub damage: String,
}
