//! How stores are opened and tables created.

use std::path::{Path, PathBuf};

use warpkeep_core::{KeySpec, MergeRule, ValueSpec};
use warpkeep_device::DeviceChoice;
use warpkeep_image::{CreateOptions, HeapOptions, OpenOptions};
use warpkeep_log::LogOptions;

use crate::typed::{Key, Value};
use crate::{
    CheckpointOptions, DeviceIndex, DeviceValues, HostGetStrategy, IndexOptions, Result, WorkProgress,
};

/// The name of an image in a store's directory.
const IMAGE: &str = "image";
/// The name of a log in a store's directory, and in a backup.
pub(crate) const LOG: &str = "log";

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Where the image lies; by default in the store's directory. On tmpfs it is as fast as memory and a GPU can use
    /// it; it is rebuilt from the log after a restart of the machine.
    pub image: Option<PathBuf>,
    /// Without a log: only `Process` is available, and nothing is guaranteed to survive the machine.
    pub without_log: bool,
    /// Open the store without the image that it was last used with, although that may lose writes: those with
    /// `Process` that only the image has. Without this it is an error if the image is gone since this start of the
    /// machine and the store was not closed, or if it lies at another path than the given one.
    pub abandon_image: bool,
    /// Receives the progress of rebuilding the image when the store is opened, and of [`verify`](crate::verify).
    pub progress: WorkProgress,
    /// The device for GPHash tables whose values have one length, and whose keys have one, too, or lie in
    /// [cells](crate::rows::KeyCells). Of other GPHash tables it reads the packed ones, and the CPU writes to them;
    /// tables of other kinds always run on the CPU. A GPU needs the image on tmpfs or hugetlbfs.
    pub device: DeviceChoice,
    /// The part of the tables' indexes that the device holds in its own memory.
    pub device_index: DeviceIndex,
    /// Which values the device keeps there.
    pub device_values: DeviceValues,
    /// The strategy for batches of gets with keys and answers in host memory, for tables on a device; by default
    /// the one that their size and the [device profile](crate::DeviceProfile) decide. The simulator always gathers.
    pub host_gets: Option<HostGetStrategy>,
    /// Threads that work on one large batch at a time, including the caller; 0 for one a core, less one where there
    /// are eight or more. With 1 only the caller works. They are started by the first batch that is worth it.
    pub threads: usize,
    /// Check every item before using a store that was not closed, so that damage is an error of the opening and not
    /// of the first checkpoint. It takes as long as reading all values; without it an opening reads no values of a
    /// fixed length.
    pub check_items: bool,
    /// How the image is created.
    pub create: CreateOptions,
    /// How the image is opened.
    pub open: OpenOptions,
    /// How the image may grow.
    pub heap: HeapOptions,
    /// How the log is written.
    pub log: LogOptions,
    /// When checkpoints are taken automatically.
    pub checkpoints: CheckpointOptions,
}

impl StoreOptions {
    /// Where the image of the store in this directory lies.
    pub fn image_path(&self, directory: &Path) -> PathBuf {
        self.image.clone().unwrap_or_else(|| directory.join(IMAGE))
    }

    /// Where its log lies; `None` if it does without.
    pub fn log_path(&self, directory: &Path) -> Option<PathBuf> {
        (!self.without_log).then(|| directory.join(LOG))
    }
}

/// The contents of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// The keys.
    pub key: KeySpec,
    /// The values.
    pub value: ValueSpec,
    /// Items to make room for at once; the table grows beyond.
    pub capacity: u64,
    /// Its index, and the index's options.
    pub index: IndexOptions,
    /// The merge rule.
    pub merge: MergeRule,
    /// Check every value against its checksum when it is looked up: see [`TableOptions::check_gets`].
    pub check_gets: bool,
}

impl TableOptions {
    /// A table of such keys and values, otherwise as usual.
    pub fn new(key: KeySpec, value: ValueSpec) -> TableOptions {
        TableOptions {
            key,
            value,
            capacity: 1024,
            index: IndexOptions::default(),
            merge: MergeRule::None,
            check_gets: false,
        }
    }

    /// A table of keys and values of these types, otherwise as usual.
    ///
    /// ```
    /// use warpkeep::{KeySpec, MergeRule, TableOptions, ValueSpec};
    /// let options = TableOptions::typed::<u64, [f32; 32]>()?.merge(MergeRule::AddF32);
    /// assert_eq!((options.key, options.value), (KeySpec::U64, ValueSpec::fixed(128)?));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    pub fn typed<K: Key, V: Value>() -> Result<TableOptions> {
        Ok(TableOptions::new(K::spec()?, V::spec()?))
    }

    /// With room for `items` items at once.
    #[must_use]
    pub fn capacity(mut self, items: u64) -> TableOptions {
        self.capacity = items;
        self
    }

    /// With this index: an [`IndexKind`](crate::IndexKind), or [`IndexOptions`] that say more.
    ///
    /// ```
    /// use warpkeep::{Durability, IndexKind, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let options = TableOptions::new(KeySpec::U64, ValueSpec::U64).index(IndexKind::TurboHash);
    /// let counts = store.create_table("counts", options)?;
    /// counts.fetch_add(7, 1, Durability::Power)?;
    /// assert_eq!((counts.index(), counts.get(7)?), (IndexKind::TurboHash, Some(1_u64.to_le_bytes().to_vec())));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    #[must_use]
    pub fn index(mut self, index: impl Into<IndexOptions>) -> TableOptions {
        self.index = index.into();
        self
    }

    /// With this rule for merges.
    #[must_use]
    pub fn merge(mut self, rule: MergeRule) -> TableOptions {
        self.merge = rule;
        self
    }

    /// With every value checked against its checksum when it is looked up, and not only by `verify`, checkpoints
    /// and backups: a damaged value is answered with [`Status::Corrupt`](crate::Status). Each get then reads the
    /// whole value. Such a table runs on the CPU, also in a store with a device. Values of up to 8 bytes in slots
    /// have no checksums, so the option is refused for those. A damaged key is not found, and a get reports it as
    /// absent.
    ///
    /// ```
    /// use warpkeep::{Durability, KeySpec, Store, TableOptions, ValueSpec};
    /// # let directory = tempfile::tempdir().unwrap();
    /// let store = Store::open(directory.path())?;
    /// let options = TableOptions::new(KeySpec::U64, ValueSpec::variable(1000)?).check_gets(true);
    /// let pages = store.create_table("pages", options)?;
    /// pages.put(7, b"a page", Durability::Power)?;
    /// assert_eq!(pages.get(7)?, Some(b"a page".to_vec()));
    /// # Ok::<(), warpkeep::Error>(())
    /// ```
    #[must_use]
    pub fn check_gets(mut self, check: bool) -> TableOptions {
        self.check_gets = check;
        self
    }
}
