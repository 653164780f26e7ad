//! Errors of a store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpkeep_core::{CoreError, KeySpec, Op, Status, ValueSpec};
use warpkeep_device::DeviceError;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;
use warpkeep_record::DamagedItem;

use crate::index::GpHashError;

/// Why a store could not be opened, written or closed. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the memory image.
    #[error(transparent)]
    Image(#[from] ImageError),

    /// Of the log directory.
    #[error(transparent)]
    Log(#[from] LogError),

    /// The image and the log directory belong to different stores.
    #[error(
        "image and log directory belong to different stores ({image} and {log}); give the pair that belongs together"
    )]
    Mismatch {
        /// The image's store id, in hexadecimal.
        image: String,
        /// The log's.
        log: String,
    },

    /// The image that the store was last used with is gone, and perhaps acknowledged writes with it.
    #[error(
        "the store was not closed, and its image {path} is gone since: writes with `Process` that had not reached the log are \
         lost with it. If it lies elsewhere, open the store with its path (of the command, --image FILE). To go on with what \
         the log has, open it with StoreOptions::abandon_image (of the command, --abandon-image)"
    )]
    ImageLost {
        /// Where it was.
        path: PathBuf,
    },

    /// The image that the store was last used with lies at another path.
    #[error(
        "the store was last used with the image {last}, which is there; {path} was given. Open it with the first (of the \
         command, --image {last}), or move that file to the second. To go on without it, losing the writes with `Process` \
         that only it knows, open the store with StoreOptions::abandon_image (of the command, --abandon-image); if this \
         store is a copy of that one, with OpenOptions::adopt (--adopt-copy)"
    )]
    ImageElsewhere {
        /// The requested image.
        path: PathBuf,
        /// The one that the store was last used with.
        last: PathBuf,
    },

    /// `Power` was requested from a store without a log.
    #[error(
        "this store has no log, so it cannot promise to survive a power cut; open it with a log directory"
    )]
    NoLog,

    /// The store was opened by another process, of which this one was made by `fork`.
    #[error(
        "the store was opened by process {pid}, and this is another one, made of it by fork: only the process that opened a store can \
         use it; open it in the process that uses it, after the fork and when no other has it open, start processes without fork \
         (Python: the start method 'spawn'), or have one process serve it to the others (`warpkeep serve`)"
    )]
    Forked {
        /// The process that opened it.
        pid: u32,
    },

    /// The store can be read, but its log had no space to be opened with.
    #[error(
        "writes are refused: when the store was opened, its log had no space left, so it can only be read ({why}). Free space \
         where the log directory is, then open the store again"
    )]
    OnlyReads {
        /// The log's error.
        why: Arc<LogError>,
    },

    /// The store has made as many changes since it was opened as it can number.
    #[error(
        "the store has numbered nearly all the changes that it can make in one opening, so writes are refused; what was \
         committed is safe. Close the store and open it again; writing then goes on"
    )]
    VersionsExhausted,

    /// The image names commits that only its log can finish.
    #[error("the image was left with commits that only its log can finish; open it with its log directory")]
    LogNeeded,

    /// An item of a table is damaged. No valid data is given up for it: a checkpoint that meets it leaves the one
    /// before it in force, and the log untrimmed.
    #[error(
        "table '{table}': {item}; `warpkeep verify` lists all damage, and `warpkeep repair` puts items right from \
         checkpoint and log"
    )]
    DamagedItem {
        /// The table.
        table: String,
        /// The item.
        item: Box<DamagedItem>,
    },

    /// A repair of the store was interrupted, so items may be missing that it would have put back.
    #[error("a repair of the store in {directory} was interrupted; run `warpkeep repair {directory}` again")]
    RepairInterrupted {
        /// The store.
        directory: PathBuf,
    },

    /// Of a GPHash table.
    #[error(transparent)]
    Table(GpHashError),

    /// Of a TurboHash table.
    #[error(transparent)]
    TurboHash(warpkeep_turbohash::TableError),

    /// Of the device that tables run on.
    #[error(transparent)]
    Device(#[from] DeviceError),

    /// A key, value or batch that does not go with its table.
    #[error(transparent)]
    Core(#[from] CoreError),

    /// There is no such table.
    #[error("there is no table '{name}'; create it first, or list those there are")]
    NoTable {
        /// The requested name.
        name: String,
    },

    /// The store of the table was closed.
    #[error(
        "the store of the table '{table}' was closed; open the store again and ask it for the table (Store::table)"
    )]
    Closed {
        /// The table.
        table: String,
    },

    /// There is such a table.
    #[error("there is a table '{name}' already; open it, or choose another name")]
    TableExists {
        /// The requested name.
        name: String,
    },

    /// An operation that was refused or failed.
    #[error("operation {index} ({op}): {status}; {}", .status.remedy())]
    Refused {
        /// Its index in the batch.
        index: usize,
        /// The operation.
        op: Op,
        /// Its status.
        status: Status,
    },

    /// A table whose keys or values do not match the types.
    #[error(
        "the table '{table}' has {table_keys} keys and {table_values} values, the program asks for {keys} keys and \
         {values} values; use the types that it was created with"
    )]
    OtherTypes {
        /// The table.
        table: String,
        /// Its keys.
        table_keys: KeySpec,
        /// Its values.
        table_values: ValueSpec,
        /// The requested key type.
        keys: KeySpec,
        /// The requested value type.
        values: ValueSpec,
    },

    /// Bytes that are no value of their type.
    #[error(
        "the table '{table}' has {what} that is no {wanted}; read it as bytes, or with the type that it was written with"
    )]
    Undecodable {
        /// The table.
        table: String,
        /// A key or a value.
        what: &'static str,
        /// The type.
        wanted: &'static str,
    },

    /// The operating system refused.
    #[error("{path}: cannot {doing}: {source}; check that it exists, may be accessed, and has space")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The failed action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// A write to a store that was opened to be read only.
    #[error("the store was opened to be read only; open it for writing to change it")]
    ReadOnly,

    /// There is no store.
    #[error("there is no store in {directory}; check the path, or open it for writing to create one")]
    NoStore {
        /// Where one was looked for.
        directory: PathBuf,
    },

    /// A store already exists where one is to be made.
    #[error("there is a store already: {path}; choose an empty directory, or move it away")]
    StoreExists {
        /// The existing path.
        path: PathBuf,
    },

    /// The destination of a backup is not empty.
    #[error("{path} is not empty; choose a directory that does not exist yet")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },

    /// There is no backup.
    #[error(
        "{path} is no backup: it has no BACKUP.json. Check the path; a backup that was interrupted lies beside it, ends in \
         .partial, and cannot be used"
    )]
    NoBackup {
        /// The directory.
        path: PathBuf,
    },

    /// A backup of a later version of Warpkeep.
    #[error(
        "the backup {path} has format version {found}; this program reads version 1. Use a newer program"
    )]
    NewerBackup {
        /// The backup.
        path: PathBuf,
        /// Its version.
        found: u32,
    },

    /// A backup that is incomplete or damaged.
    #[error("the backup {path} is damaged: {what}; use another backup. Nothing has been restored")]
    BackupDamaged {
        /// The backup.
        path: PathBuf,
        /// The fault.
        what: String,
    },

    /// The stored data is not valid for this program.
    #[error("{0}")]
    Invalid(String),
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error: `map_err(Error::io(path, "open it"))`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { path, doing, source }
    }

    /// Whether the log's disk is full, including when it was so at the opening of the store.
    pub fn is_log_full(&self) -> bool {
        match self {
            Error::Log(error) => error.is_disk_full(),
            Error::OnlyReads { .. } => true,
            _ => false,
        }
    }

    /// Whether it reports damaged bytes, rather than an action that is impossible at the moment.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Image(error) => matches!(
                error,
                ImageError::Damaged { .. } | ImageError::Truncated { .. } | ImageError::NotIntact { .. }
            ),
            Error::Log(error) => matches!(
                error,
                LogError::Corrupt { .. }
                    | LogError::EndMissing { .. }
                    | LogError::SegmentMissing { .. }
                    | LogError::CheckpointDamaged { .. }
                    | LogError::ManifestDamaged { .. }
                    | LogError::ManifestMissing { .. }
                    | LogError::ForeignStore { .. }
                    | LogError::ForeignFile { .. }
            ),
            Error::Table(GpHashError::Image(error))
            | Error::TurboHash(warpkeep_turbohash::TableError::Image(error)) => {
                matches!(error, ImageError::Damaged { .. })
            }
            Error::Mismatch { .. } | Error::BackupDamaged { .. } | Error::DamagedItem { .. } => true,
            _ => false,
        }
    }
}
