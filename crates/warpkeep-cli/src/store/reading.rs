//! Stores that a command only reads.

use clap::Args;
use warpkeep::Store;

use super::StoreAt;
use crate::failure::Failure;

/// Whether the store may be written to.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Reading {
    /// Write nothing to the store: it may lie on a file system that is mounted read-only, or belong to another user
    /// who permits reading it.
    #[arg(long)]
    pub(crate) read_only: bool,
}

impl StoreAt {
    /// Opens an existing store for reading, and works with it. Unless it is opened read-only it is closed, also
    /// when the work fails.
    pub(crate) fn with_store_to_read<T>(
        &self,
        reading: Reading,
        work: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match reading.read_only {
            true => work(&Store::open_read_only(&self.directory, self.options()?)?),
            false => self.with_store(work),
        }
    }
}
