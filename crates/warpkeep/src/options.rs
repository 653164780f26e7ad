//! How stores are opened and tables created.

use std::path::{Path, PathBuf};

use warpkeep_core::{KeySpec, MergeRule, ValueSpec};
use warpkeep_device::DeviceChoice;
use warpkeep_gphash::{Geometry, Layout};
use warpkeep_image::{CreateOptions, HeapOptions, OpenOptions};
use warpkeep_log::LogOptions;

use crate::typed::{Key, Value};
use crate::{
    CheckpointOptions, DeviceIndex, DeviceValues, GetWay, IndexKind, Result, ValuesBy, WorkProgress,
};

/// The name of an image in a store's directory.
const IMAGE: &str = "image";
/// The name of a log in a store's directory, and in a backup.
pub(crate) const LOG: &str = "log";

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Where the image lies; in the store's directory if not said. On tmpfs it is as fast as memory and a GPU can use
    /// it; it is rebuilt from the log after a restart of the machine.
    pub image: Option<PathBuf>,
    /// Do without a log: only `Process` is on offer, and nothing survives the machine for sure.
    pub without_log: bool,
    /// Open the store without the image that it was last used with, although that may lose writes: those with `Process` that
    /// only the image knows. Without this it is an error if the image is gone since this start of the machine and the store
    /// was not closed, or if it lies at another path than the one given.
    pub abandon_image: bool,
    /// Where opening the store reports how far it is if it has to rebuild the image, and [`verify`](crate::verify) how much it has checked.
    pub progress: WorkProgress,
    /// What works GPHash tables whose values have one length, and whose keys have one, too, or lie in
    /// [cells](crate::rows::KeyCells). Of other GPHash tables it reads those that are packed, and the CPU writes to them; tables of other kinds are always worked by the CPU. A GPU needs the image on tmpfs or hugetlbfs.
    pub device: DeviceChoice,
    /// What the device keeps of the tables' indexes in its own memory.
    pub device_index: DeviceIndex,
    /// Which values the device keeps there.
    pub device_values: DeviceValues,
    /// How batches of gets are done where a device works the table and keys and answers are in host memory; if not said, the way that is
    /// the fastest for batches of their size, which is measured as they come. The simulator, which is there for its kernels, fetches.
    pub get_way: Option<GetWay>,
    /// Who fetches the values of gets whose keys and answers lie in device memory, where a device has a [mirror](DeviceIndex::Mirrored) of the
    /// table and no [values](StoreOptions::device_values): if nothing is said, the device. The cores of the host are faster for small batches, and for
    /// large ones that take few rows of a large image; but then each batch takes them, and takes longer where they have something else to do.
    /// `Faster` measures it, for each size.
    pub values_by: ValuesBy,
    /// Threads that work on one large batch at a time, the caller among them; 0 for one a core, less one that is spared where there are
    /// eight or more. With 1 nobody but the caller does. They are started by the first batch that is worth it.
    pub threads: usize,
    /// Check every item before a store is used that was left without closing, so that damage is an error of the opening and
    /// not of the first checkpoint. It takes as long as to read all values; without it an opening reads none of a fixed
    /// length.
    pub check_items: bool,
    /// How the image is created.
    pub create: CreateOptions,
    /// How the image is opened.
    pub open: OpenOptions,
    /// How the image may grow.
    pub heap: HeapOptions,
    /// How the log is written.
    pub log: LogOptions,
    /// When checkpoints are taken that no caller asks for.
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

/// What a table is to hold.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// What keys are.
    pub key: KeySpec,
    /// What values are.
    pub value: ValueSpec,
    /// Items to make room for at once; the table grows beyond.
    pub capacity: u64,
    /// Which index it has.
    pub index: IndexKind,
    /// How a GPHash table is laid out.
    pub geometry: Geometry,
    /// What a slot of a GPHash table holds; what suits keys and values if not said.
    pub layout: Option<Layout>,
    /// How many shards a TurboHash table has, for good; 0 for as many as suit the capacity.
    pub shards: u32,
    /// What a merge does.
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
            index: IndexKind::default(),
            geometry: Geometry::default(),
            layout: None,
            shards: 0,
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

    /// With room for so many items at once.
    #[must_use]
    pub fn capacity(mut self, items: u64) -> TableOptions {
        self.capacity = items;
        self
    }

    /// With this index.
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
    pub fn index(mut self, index: IndexKind) -> TableOptions {
        self.index = index;
        self
    }

    /// A GPHash table laid out like this.
    #[must_use]
    pub fn geometry(mut self, geometry: Geometry) -> TableOptions {
        self.geometry = geometry;
        self
    }

    /// A GPHash table with slots like this.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> TableOptions {
        self.layout = Some(layout);
        self
    }

    /// A TurboHash table with so many shards: more let more writers work at once, fewer become fuller before they grow.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> TableOptions {
        self.shards = shards;
        self
    }

    /// With this rule for merges.
    #[must_use]
    pub fn merge(mut self, rule: MergeRule) -> TableOptions {
        self.merge = rule;
        self
    }

    /// With every value checked against its checksum when it is looked up, and not only by `verify`, checkpoints and backups: a value that
    /// is damaged is answered with [`Status::Corrupt`](crate::Status). It costs each get the reading of the whole value. Such a table is worked by
    /// the CPU, also in a store with a device; and values of up to 8 bytes that lie in slots have no checksums, so that it is refused for those. A damaged key is not
    /// found, and a get says no more of it than that.
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
