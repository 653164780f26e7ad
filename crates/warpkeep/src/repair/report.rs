//! What a repair came to.

use serde::Serialize;

/// What a repair did, or would do.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RepairReport {
    /// Nothing was changed; this is what would be done.
    pub dry_run: bool,
    /// Checkpoint and log have every change that the image had: nothing can be lost.
    pub log_is_complete: bool,
    /// Items that were damaged, in all tables.
    pub damaged: u64,
    /// Items that were put right.
    pub restored: u64,
    /// Items that the log, which is complete, does not have: the damage had made them, and they were removed.
    pub removed: u64,
    /// Items that are lost.
    pub lost: u64,
    /// The tables in which something was wrong, by name.
    pub tables: Vec<TableRepair>,
    /// How long it took.
    pub seconds: f64,
}

/// What a repair did in a table.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableRepair {
    /// The table.
    pub table: String,
    /// Items that were damaged.
    pub damaged: u64,
    /// What was put right.
    pub restored: Vec<RestoredItem>,
    /// Keys, as people read them, that the damage had made.
    pub removed: Vec<String>,
    /// What is lost.
    pub lost: Vec<LostItem>,
}

/// An item that was put right.
#[derive(Clone, Debug, Serialize)]
pub struct RestoredItem {
    /// Its key, as people read it.
    pub key: String,
    /// The version that it has now, which is the newest in the log.
    pub version: u64,
    /// Its slot could not be read, and the log may lack a delete of its key: if it was deleted, it is back.
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
    /// What is wrong with it.
    pub damage: String,
}
