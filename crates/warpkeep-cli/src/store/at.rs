//! Which store a command is about, and opening it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use warpkeep::{DeviceChoice, DeviceIndex, DeviceValues, HostGetStrategy, Peek, Store, StoreOptions, peek};
use warpkeep_image::{Domain, OpenOptions, Placement};
use warpkeep_log::{Log, LogOptions, ReadOnlyDisk, Recovery};

use crate::failure::Failure;

/// Which store.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreAt {
    /// The directory of the store.
    #[arg(value_name = "STORE")]
    pub(crate) directory: PathBuf,
    /// Its image, if that lies elsewhere, such as in /dev/shm.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// Open a store that was closed and then copied as a store of its own.
    #[arg(long)]
    pub(crate) adopt_copy: bool,
    /// Open the store without the image that it was last used with, and lose the writes that only that image has.
    #[arg(long)]
    pub(crate) abandon_image: bool,
    /// The device of its tables; see [`Worked`](super::Worked).
    #[arg(skip)]
    pub(crate) device: DeviceChoice,
    #[arg(skip)]
    pub(crate) device_index: DeviceIndex,
    #[arg(skip)]
    pub(crate) device_values: DeviceValues,
    #[arg(skip)]
    pub(crate) host_gets: Option<HostGetStrategy>,
    #[arg(skip)]
    pub(crate) threads: usize,
}

/// The existing parts of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    image: bool,
    log: bool,
}

impl StoreAt {
    /// Where the image lies or would lie.
    pub(crate) fn image_path(&self) -> PathBuf {
        self.image.clone().unwrap_or_else(|| self.directory.join("image"))
    }

    /// Where the log lies or would lie.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// How to open it: with a log if it has one.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        let found = self.look()?;
        Ok(self.options_for(found.image && !found.log))
    }

    /// Where its files lie, for a store that may not be good enough to be looked at.
    pub(crate) fn recovering(&self) -> StoreOptions {
        self.options_for(false)
    }

    fn options_for(&self, without_log: bool) -> StoreOptions {
        let (image, device) = (self.image.clone(), self.device);
        let (device_values, host_gets, threads) = (self.device_values, self.host_gets, self.threads);
        let open = OpenOptions { adopt: self.adopt_copy, ..OpenOptions::default() };
        StoreOptions {
            image,
            open,
            abandon_image: self.abandon_image,
            device,
            device_index: self.device_index,
            device_values,
            host_gets,
            threads,
            without_log,
            ..StoreOptions::default()
        }
    }

    /// Refuses a file where the directory of a store should be.
    fn check_is_directory(&self) -> Result<(), Failure> {
        match self.directory.metadata() {
            Ok(metadata) if !metadata.is_dir() => Err(Failure::of(
                "no-store",
                format!(
                    "{} is a file, and a store is a directory; give another path",
                    self.directory.display()
                ),
            )),
            _ => Ok(()),
        }
    }

    fn look(&self) -> Result<Found, Failure> {
        self.check_is_directory()?;
        let image = self.image_path();
        let image = image.try_exists().map_err(Failure::io(format!("look at {}", image.display())))?;
        Ok(Found { image, log: self.has_log()? })
    }

    /// Whether there is a log directory with a log in it. A log that has lost its manifest counts, too: otherwise
    /// the store would be opened as if it had no log.
    pub(crate) fn has_log(&self) -> Result<bool, Failure> {
        let log = self.log_path();
        match log.try_exists().map_err(Failure::io(format!("look at {}", log.display())))? {
            false => Ok(false),
            true => match ReadOnlyDisk::open(&log) {
                Ok(disk) if Log::exists(&disk)? => Ok(true),
                Ok(disk) => match Recovery::open(Arc::new(disk), LogOptions::default()) {
                    Err(warpkeep_log::LogError::NoLog) => Ok(false),
                    _ => Ok(true),
                },
                // A log directory that is in use has one.
                Err(warpkeep_log::LogError::Held { .. }) => Ok(true),
                Err(error) => Err(error.into()),
            },
        }
    }

    /// The store as a command line names it, for advice: with its image, if that was given.
    pub(crate) fn named(&self) -> String {
        let directory = self.directory.display();
        match &self.image {
            Some(image) => format!("{directory} --image {}", image.display()),
            None => directory.to_string(),
        }
    }

    /// Refuses a path that is not a store: opening it would create one. A missing image is rebuilt by opening if
    /// the log records its path; otherwise not without a request, because it may only lie elsewhere.
    pub(crate) fn check_is_there(&self) -> Result<(), Failure> {
        let (image, directory) = (self.image_path(), self.directory.display());
        match self.look()? {
            Found { image: true, .. } => Ok(()),
            Found { image: false, log: true } if self.abandon_image || self.notes_image()? => Ok(()),
            Found { image: false, log: true } => Err(Failure::error(format!(
                "{} is not there, and the log of an older program does not say where the image was; if it lies elsewhere, \
                 give --image FILE; if it is lost, `warpkeep rebuild {}` makes it again from the log",
                image.display(),
                self.named()
            ))),
            Found { image: false, log: false } => Err(Failure::of(
                "no-store",
                format!(
                    "there is no store in {directory}; check the path, or make one with `warpkeep create {directory} TABLE --key u64 \
                 --value var`"
                ),
            )),
        }
    }

    /// Refuses a store without a log, and a path that is not a store.
    pub(crate) fn check_has_log(&self) -> Result<(), Failure> {
        let directory = self.directory.display();
        match self.look()? {
            Found { log: true, .. } => Ok(()),
            Found { image: true, .. } => Err(Failure::of(
                "no-log",
                format!(
                    "the store in {directory} has no log to rebuild it from; use the image, or restore a backup"
                ),
            )),
            Found { .. } => {
                Err(Failure::of("no-store", format!("there is no store in {directory}; check the path")))
            }
        }
    }

    /// Whether the log records the path of the image, or reports its own damage when it is opened.
    fn notes_image(&self) -> Result<bool, Failure> {
        let disk = ReadOnlyDisk::open(&self.log_path())?;
        Ok(!Log::exists(&disk)? || Log::image(Arc::new(disk))?.is_some())
    }

    /// Looks at its tables without taking it into use.
    pub(crate) fn peek(&self) -> Result<Peek, Failure> {
        Ok(peek(&self.directory, &self.options()?)?)
    }

    /// Opens a store that is there, works with it, and closes it, also when the work fails.
    pub(crate) fn with_store<T>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.check_is_there()?;
        let store = self.open(self.options()?)?;
        if let Some(why) = &store.report().why_rebuilt {
            eprintln!("warpkeep: {} was rebuilt from the log: {why}", self.image_path().display());
        }
        work_and_close(store, work)
    }

    /// The same; a missing store is created.
    pub(crate) fn with_new_store<T>(
        &self,
        without_log: bool,
        work: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        work_and_close(self.open(self.new_options(without_log)?)?, work)
    }

    /// The same, for a store with this limit on its memory.
    pub(crate) fn with_served_store<T>(
        &self,
        without_log: bool,
        limit: Option<u64>,
        work: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut options = self.new_options(without_log)?;
        if let Some(limit) = limit {
            options.heap.max_bytes = limit;
            options.create.chunk_size = warpkeep_server::chunk_size(limit);
        }
        work_and_close(self.open(options)?, work)
    }

    /// How to open a store that may not be there yet.
    fn new_options(&self, without_log: bool) -> Result<StoreOptions, Failure> {
        Ok(match self.look()? {
            Found { image: false, log: false } => self.options_for(without_log),
            Found { log: true, .. } if without_log => {
                return Err(Failure::Usage(format!(
                    "the store in {} has a log; leave --without-log out",
                    self.directory.display()
                )));
            }
            _ => {
                self.check_is_there()?;
                self.options()?
            }
        })
    }

    /// Opens the store, whatever parts exist: missing ones are created.
    pub(crate) fn open(&self, options: StoreOptions) -> Result<Store, Failure> {
        if placement_of(&self.image_path()).is_some_and(|place| place.domain() == Domain::WriteBack) {
            return Err(Failure::error(
                "this command does not open images on persistent memory yet; put the image elsewhere with --image",
            ));
        }
        Ok(Store::open_with(&self.directory, options)?)
    }
}

/// The placement of a file, as far as known; its directory may not exist yet.
fn placement_of(path: &Path) -> Option<Placement> {
    Placement::of(path).ok()
}

fn work_and_close<T>(store: Store, work: impl FnOnce(&Store) -> Result<T, Failure>) -> Result<T, Failure> {
    let done = work(&store);
    let closed = store.close();
    // The error of the work is more useful than an error of closing the store after it.
    let done = done?;
    closed?;
    Ok(done)
}
