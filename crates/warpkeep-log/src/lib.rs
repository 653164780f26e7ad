//! The write-ahead log and checkpoints of Warpkeep: bytes that outlive the machine.
//!
//! A [`Log`] takes batches of changes and makes them durable in groups; a checkpoint lets the log before it go;
//! [`Recovery`] reads both after a crash. Everything lies in one directory behind the trait [`Disk`], with
//! [`OsDisk`] for real ones. The bytes are described in `docs/format.md`, section 3.

mod batch;
mod block;
mod change;
mod checkpoint;
mod commit;
mod copy;
mod direct;
mod disk;
mod error;
mod files;
mod frame;
mod frame_buffer;
mod gate;
mod image_note;
mod laid;
mod layout;
mod log;
mod manifest;
mod manifest_repair;
mod options;
mod os_disk;
mod page;
mod queue;
mod read_only_disk;
mod recovery;
mod report;
mod reserve;
mod scan;
mod segment;
pub mod site;
mod sums;
mod tail;
mod writeback;

pub use batch::ChangeBatch;
pub use change::Changes;
pub use checkpoint::{CheckpointInfo, CheckpointWriter};
pub use copy::{CopiedFile, LogCopy};
pub use disk::{Disk, DiskFile};
pub use error::LogError;
pub use frame::{OwnedRecord, Record};
pub use gate::OpGuard;
pub use image_note::ImageNote;
pub use laid::{ChangeForm, LaidRecord, Piece, PieceLen};
pub use log::{Log, Promise};
pub use manifest_repair::{RepairedManifest, repair_manifest};
pub use options::LogOptions;
pub use os_disk::{OsDisk, create_durably};
pub use read_only_disk::ReadOnlyDisk;
pub use recovery::Recovery;
pub use report::{RecoveryReport, TornTail};
