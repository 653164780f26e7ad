//! Stores, as commands see them: looked at without changing anything, or opened.

mod damage;
mod image_look;
mod log_look;
mod read_only_disk;
mod state;

pub(crate) use damage::IsDamage;
pub(crate) use image_look::{ImageLook, ImageReport, cells_in, hold};
pub(crate) use log_look::{Contents, LogLook, LogReport, check_is_log};
pub(crate) use read_only_disk::ReadOnlyDisk;

use std::path::PathBuf;

use clap::Args;

/// A store whose image is there; the log may be missing.
#[derive(Debug, Args)]
pub(crate) struct Image {
    /// The image of the store.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: PathBuf,
    /// Its log directory, if it has one.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
}

/// A store with a log.
#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The image of the store.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: PathBuf,
    /// Its log directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) log: PathBuf,
}
