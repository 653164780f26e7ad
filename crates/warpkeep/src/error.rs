//! What can go wrong with a store.

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

    /// What is stored is not what the program expects.
    #[error("{0}")]
    Invalid(String),
}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
