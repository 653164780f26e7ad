//! Errors of an image, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// Why an image could not be created, opened, grown or read. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The operating system refused.
    #[error(
        "{path}: cannot {doing}: {source}; check that it exists, may be accessed, and lies on a healthy disk"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// The file is not an image.
    #[error("{path} is not a Warpkeep image ({found}); check the path, nothing was changed")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The actual contents.
        found: String,
    },

    /// The path of a new image already exists.
    #[error("{path} already exists; open it, remove it first, or choose another name")]
    Exists {
        /// The file.
        path: PathBuf,
    },

    /// A newer program wrote the image.
    #[error(
        "{path} has format version {found}, this program reads up to {supported}; open it with a newer Warpkeep"
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },

    /// Bytes that must not change have changed.
    #[error(
        "{path} is damaged: {what}; move it away and open the store with its log directory to rebuild it, or restore a backup"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which bytes, and how that shows.
        what: String,
    },

    /// The file is shorter than the image in it.
    #[error(
        "{path} is {found} bytes long but its image has {expected}: it was cut short; move it away and \
         open the store with its log directory to rebuild it, or restore a backup"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The actual number of bytes.
        found: u64,
        /// Bytes there should be.
        expected: u64,
    },

    /// The machine went down while the image was in use, and its medium does not survive that.
    #[error(
        "{path} was in use when the machine went down ({why}); rebuild it from the log directory, or restore a backup"
    )]
    NotIntact {
        /// The file.
        path: PathBuf,
        /// The evidence.
        why: String,
    },

    /// The file is a copy of another image's file.
    #[error(
        "{path} is a copy of an image: a store whose log or original may be in use elsewhere; to use the copy as a store of \
         its own, open it with the option to adopt copies (OpenOptions::adopt; of the command, --adopt-copy)"
    )]
    Copied {
        /// The file.
        path: PathBuf,
    },

    /// Another process has the image open.
    #[error(
        "{path} is open in {holder}; close it there first, or drop the store and all handles of its tables. What a server has open can be read by its clients, and backed up by \
         `warpkeep backup --address`"
    )]
    Held {
        /// The file.
        path: PathBuf,
        /// The holder, if known.
        holder: String,
    },

    /// No space is left, and none could be added.
    #[error("no space for {wanted} bytes in the image: {why}")]
    OutOfSpace {
        /// The requested bytes.
        wanted: u64,
        /// The obstacle, and the remedy.
        why: String,
    },

    /// A limit of the system stands in the way.
    #[error("{limit} is too small: {needed}; {remedy}")]
    Limit {
        /// Which limit.
        limit: &'static str,
        /// The requirement, and the actual state.
        needed: String,
        /// How to raise it.
        remedy: String,
    },

    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),

    /// This process is a child of the one that opened the image.
    #[error(
        "the image was opened by process {pid}, and this is another one, made of it by fork; open the store in the process that \
         uses it, after the fork and when no other has it open, or start processes without fork"
    )]
    Forked {
        /// The process that opened it.
        pid: u32,
    },

    /// The image was opened read-only.
    #[error("the image is open read-only; open it for writing to change it")]
    ReadOnly,
}

impl ImageError {
    /// Wraps an I/O error: `map_err(ImageError::io(path, "open it"))`.
    pub(crate) fn io(path: &std::path::Path, doing: &'static str) -> impl FnOnce(io::Error) -> ImageError {
        let path = path.to_path_buf();
        move |source| ImageError::Io { path, doing, source }
    }
}
