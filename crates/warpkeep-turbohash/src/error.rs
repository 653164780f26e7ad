//! Errors of a table.

use warpkeep_core::CoreError;
use warpkeep_image::ImageError;

/// Why a table could not be created, opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not a number of shards.
    #[error(
        "{shards} shards are not possible; ask for 1 to {max}, or for 0 to have as many as suit the capacity"
    )]
    Shards {
        /// The requested shards.
        shards: u32,
        /// The most.
        max: u32,
    },

    /// Of the image.
    #[error(transparent)]
    Image(#[from] ImageError),

    /// A key or value that does not go with the table.
    #[error(transparent)]
    Core(#[from] CoreError),

    /// No place for an item, although the table is not full: too many keys with the same hash.
    #[error(
        "no place is left for this key: too many keys share its home bucket; if they are not hostile, create the \
         table with another seed or more capacity"
    )]
    Full,
}
