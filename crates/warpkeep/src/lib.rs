//! Warpkeep: a persistent, crash-safe key-value engine whose index runs on the GPU or the CPU.
//!
//! A [`Store`] is a directory with named tables. Each write states what it must survive ([`Durability`]): the process, or
//! the machine. Here a table of embedding rows is trained, the process dies, and the rows are back:
//!
//! ```
//! use warpkeep::{Durability, MergeRule, Store, TableOptions};
//!
//! # let home = tempfile::tempdir().unwrap();
//! # let home = home.path();
//! let store = Store::open(home)?;
//! let options = TableOptions::typed::<u64, [f32; 32]>()?.capacity(1_000_000).merge(MergeRule::AddF32);
//! let rows = store.table_or_create("items", options)?.typed::<u64, [f32; 32]>()?;
//!
//! // A batch of rows, as memory speed allows; it survives the process.
//! let fresh: Vec<(u64, [f32; 32])> = (0..1000).map(|id| (id, [0.5; 32])).collect();
//! rows.put_many(&fresh, Durability::Process)?;
//!
//! // A step of training: look up what the step needs, then add the gradients. It survives the machine, as a whole.
//! let needed = [7, 42, 999, 1_000_000];
//! let found = rows.get_many(&needed)?;
//! assert!(found[0].is_some() && found[3].is_none());
//! let mut gradients = rows.table().batch();
//! for id in needed {
//!     gradients.merge(id, &[0.25_f32; 32].map(f32::to_le_bytes).concat())?;
//! }
//! assert_eq!(rows.table().run(&gradients, Durability::Power)?.first_error(), None);
//!
//! drop(rows);
//! drop(store); // no close: the next opening re-attaches it, as after a crash
//!
//! let store = Store::open(home)?;
//! let rows = store.typed::<u64, [f32; 32]>("items")?;
//! assert_eq!(rows.get(&42)?, Some([0.75; 32]));
//! assert_eq!(rows.len(), 1001);
//! drop(rows);
//! store.close()?;
//! # Ok::<(), warpkeep::Error>(())
//! ```
//!
//! More recipes are in `docs/cookbook.md`.
//!
//! | to | see |
//! | --- | --- |
//! | open, create tables, make durable | [`Store`], [`StoreOptions`], [`TableOptions`] |
//! | read and write bytes, one by one or in batches | [`Table`], [`Batch`], [`Results`] |
//! | read and write Rust types | [`TypedTable`], [`Key`], [`Value`], [`Row`] |
//! | back up and restore | [`Store::backup`], [`restore`] |
//! | read without writing | [`Store::open_read_only`] |
//! | inspect without opening, and check | [`peek`], [`verify`] |
//! | rebuild a damaged manifest | [`repair_manifest`] |
//! | monitor it | [`Store::status`], [`metrics`] |
//!
//! The feature `gpu`, on by default, runs tables on a GPU, or on a simulator of one ([`StoreOptions::device`]). Without it (`default-features = false`)
//! no C++ is compiled and no CUDA binding, and all tables run on the CPU.
//!
//! Underneath, this crate combines the memory image ([`warpkeep_image`]) and the log ([`warpkeep_log`]) under an
//! index: it decides the order of log and image, the meaning of an acknowledgement, and how a store recovers after
//! a crash: see [`engine`].

mod attributes;
mod backup;
mod catalogue;
mod cells;
mod checkpointer;
mod closable;
mod compact;
#[doc(hidden)]
pub mod compiled;
mod device;
mod enqueued;
mod error;
mod index;
mod items;
mod keeper;
mod last_image;
mod lease;
mod look;
mod maintenance;
mod manifest_repair;
pub mod metrics;
mod opening;
mod options;
mod peek;
mod place;
mod planner;
mod progress;
mod read_only;
mod redo;
mod repair;
mod scan;
mod space;
mod status;
mod store;
mod table;
mod tables;
#[cfg(feature = "testing")]
mod testing;
mod typed;
mod upkeep;
mod verify;

pub use backup::{BackupReport, RestoreReport, restore};
pub use compact::Compacted;
pub use device::{DeviceIndex, DeviceStats, DeviceValues, HostGetBatches, HostGetStrategy};
pub use enqueued::Enqueued;
pub use error::{Error, Result};
pub use index::{
    DeviceProfile, Geometry, GpHashError, IndexKind, IndexOptions, Layout, PublishBy, TableStats,
};
pub use look::TablePeek;
pub use manifest_repair::repair_manifest;
pub use opening::{OpenReport, Origin};
pub use options::{StoreOptions, TableOptions};
pub use peek::{Peek, PeekSource, peek};
pub use progress::WorkProgress;
pub use repair::{LostItem, RepairOptions, RepairReport, RestoredItem, TableRepair, repair};
pub use scan::{Item, Still};
pub use space::Sampled;
pub use status::{LogStatus, StoreStatus};
pub use store::Store;
pub use table::{Inserted, Swapped, Table};
pub use typed::{AsKey, AsValue, Key, Row, TypedTable, Value};
pub use upkeep::CheckpointOptions;
pub use verify::{ImageCheck, LogCheck, TableCheck, VerifyReport, verify};
pub use warpkeep_core::{
    Answers, Batch, CoreError, Durability, KeySpec, MergeRule, Op, Outcome, Results, Status, StatusClass,
    ToCell, ValueSpec,
};
pub use warpkeep_device::{Device, DeviceChoice, DeviceError, DeviceInfo, devices};
pub use warpkeep_image::{
    Coherent, CreateOptions, HeapOptions, HeapUsage, ImageError, MapOptions, OpenOptions, Persist,
};
pub use warpkeep_log::{CheckpointInfo, LogError, LogOptions, RecoveryReport, RepairedManifest};
pub use warpkeep_record::{Damage, DamagedItem, ScanPosition};
pub use warpkeep_turbohash::TableError as TurboHashError;

use engine::{ImageFile, ImagePlace, Items, Keeper, LogPlace, Tables, open};

/// What a store is built of, for programs that bring an index ([`Items`]), memory ([`ImagePlace`]) or a disk
/// ([`LogPlace`]) of their own. [`open`] returns a [`Keeper`] of such an index.
pub mod engine {
    pub use crate::cells::{Cells, Edit};
    pub use crate::items::Items;
    pub use crate::keeper::Keeper;
    #[doc(hidden)]
    pub use crate::last_image::check_elsewhere;
    pub use crate::opening::{LogPlace, open};
    pub use crate::place::{ImageFile, ImagePlace};
    pub use crate::tables::Tables;
    pub use warpkeep_core::{Change, ChangeKind, Lsn};
}

/// The crates below this one, for programs that use the [`engine`], and those whose rows are plain data ([`Row`]).
pub mod parts {
    pub use bytemuck;
    pub use warpkeep_device as device;
    pub use warpkeep_image as image;
    pub use warpkeep_log as log;
}

/// The parts of each index's statistics.
pub mod stats {
    pub use crate::index::{GpHashStats, LevelStats};
    pub use warpkeep_turbohash::{Distances, TableStats as TurboHashStats};
}

/// Batches and answers as arrays of the caller, in host memory or on a device: see [`Table::run_on`].
pub mod rows {
    pub use warpkeep_core::{
        AnswerRows, BatchView, Cells, Column, ColumnMut, Columns, DeviceSlice, DeviceSliceMut, HostBatch,
        HostCells, HostOutput, KeyCell, KeyCells, MAX_BATCH, MemorySpace, Operation, Ops, Output,
        OutputValues, Span,
    };
    pub use warpkeep_device::{Buffer, PinnedBuffer, Stream};
}

/// The recipes, so that they compile and hold.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/cookbook.md")]
struct Cookbook;
