//! Warpkeep: a persistent, crash-safe key-value engine whose index runs on the GPU or the CPU.
//!
//! This crate joins the memory image ([`warpkeep_image`]) and the log ([`warpkeep_log`]) under an index: it
//! decides what is logged when, what an acknowledgement means, and how a store comes back after a crash.
//! Indexes implement [`Items`]; [`open`] gives a [`Keeper`] of one.

mod catalogue;
mod cells;
mod error;
mod items;
mod keeper;
mod opening;
mod place;
mod planner;
mod store;
mod tables;

pub use cells::{Cells, Edit};
pub use error::{Error, Result};
pub use items::Items;
pub use keeper::Keeper;
pub use opening::{LogPlace, OpenReport, Origin, open};
pub use place::{ImageFile, ImagePlace};
pub use store::{Store, StoreOptions, Table, TableOptions};
pub use tables::Tables;
pub use warpkeep_core::{
    Batch, Change, ChangeKind, Durability, KeySpec, Lsn, MergeRule, Op, Results, Status, ValueSpec,
};
pub use warpkeep_gphash::{Geometry, Layout, TableStats};
