//! What can go wrong with a store.

use warpkeep_core::CoreError;
use warpkeep_gphash::TableError;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;

/// Why a store could not be opened, written or closed. Each message says what to do next.
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

    /// `Power` was asked of a store without a log.
    #[error(
        "this store has no log, so it cannot promise to survive a power cut; open it with a log directory"
    )]
    NoLog,

    /// The image names commits that only its log can finish.
    #[error("the image was left with commits that only its log can finish; open it with its log directory")]
    LogNeeded,

    /// Of a table.
    #[error(transparent)]
    Table(TableError),

    /// A key, value or batch that does not go with its table.
    #[error(transparent)]
    Core(#[from] CoreError),

    /// There is no such table.
    #[error("there is no table '{name}'; create it first, or list those there are")]
    NoTable {
        /// The name asked for.
        name: String,
    },

    /// There is such a table.
    #[error("there is a table '{name}' already; open it, or choose another name")]
    TableExists {
        /// The name asked for.
        name: String,
    },

    /// What is stored is not what the program expects.
    #[error("{0}")]
    Invalid(String),
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
