//! Stores that are inspected and not opened: nothing is changed, and no writer can open them meanwhile.

mod contents;
mod private_memory;
mod private_view;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use warpkeep_core::{KeySpec, MergeRule, ValueSpec};
use warpkeep_image::{
    Attachment, Coherent, CreateOptions, Format, Heap, HeapOptions, HeapUsage, Image, ImageError, ImageHold,
    Placement, Surroundings, fill_random,
};
use warpkeep_log::{LogError, LogOptions, ReadOnlyDisk, Recovery};
use warpkeep_record::DamagedItem;

pub(crate) use contents::LogContents;
use private_memory::PrivateMemory;

use crate::index::{Form, Spec};
use crate::last_image;
use crate::{Error, Geometry, IndexKind, Items, Layout, Result, StoreOptions, Tables};

/// A table, as a look finds it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TablePeek {
    /// Its name.
    pub name: String,
    /// Its number, under which its changes are logged.
    pub id: u32,
    /// The keys.
    pub key: KeySpec,
    /// The values.
    pub value: ValueSpec,
    /// Which index it has.
    pub index: IndexKind,
    /// How a GPHash table is laid out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
    /// The contents of a slot of a GPHash table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// How many shards a TurboHash table has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// The merge rule.
    pub merge: MergeRule,
    /// Items in it.
    pub items: u64,
    /// Attributes that applications store with it: see [`Table::set_attribute`](crate::Table::set_attribute).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

impl TablePeek {
    pub(crate) fn new(name: &str, id: u32, spec: &Spec, items: u64) -> TablePeek {
        let (geometry, layout, shards) = match spec.form {
            Form::GpHash { geometry, layout } => (Some(geometry), Some(layout), None),
            Form::TurboHash { shards } => (None, None, Some(shards)),
        };
        TablePeek {
            name: name.to_owned(),
            id,
            key: spec.key,
            value: spec.value,
            index: spec.form.kind(),
            geometry,
            layout,
            shards,
            merge: spec.merge,
            items,
            attributes: BTreeMap::new(),
        }
    }
}

/// The files of a store, locked so that no writer opens it.
pub(crate) struct Look {
    held: Option<ImageHold>,
    /// Has the lock of the log directory.
    disk: Option<Arc<ReadOnlyDisk>>,
    /// The log directory, if it holds a log.
    pub(crate) log: Option<Recovery>,
    /// The damage to the log.
    pub(crate) log_damage: Option<Error>,
}

/// An image, in a view of its own where recovery has done its work.
pub(crate) struct LookedAt {
    // Dropped before the heap it lies in.
    pub(crate) tables: Tables<Coherent>,
    heap: Arc<Heap<Coherent>>,
    /// Items that are damaged, with the numbers of their tables; they are not in the tables.
    pub(crate) damaged: Vec<(u32, DamagedItem)>,
    pub(crate) attachment: Attachment,
    pub(crate) slot_torn: bool,
}

impl LookedAt {
    pub(crate) fn image(&self) -> &Image<Coherent> {
        self.heap.image()
    }

    pub(crate) fn usage(&self) -> HeapUsage {
        self.heap.usage()
    }

    pub(crate) fn into_parts(self) -> (Tables<Coherent>, Arc<Heap<Coherent>>) {
        (self.tables, self.heap)
    }
}

impl Look {
    /// Locks the files of a store. Damage to the log is kept for the caller to judge; a store in use is an error
    /// that names the holder.
    pub(crate) fn hold(directory: &Path, options: &StoreOptions) -> Result<Look> {
        let image = options.image_path(directory);
        // The log first: its lock names the process.
        let mut look = Look { held: None, disk: None, log: None, log_damage: None };
        if let Some(path) = options.log_path(directory).filter(|path| path.is_dir()) {
            let disk = Arc::new(ReadOnlyDisk::open(&path)?);
            look.disk = Some(Arc::clone(&disk));
            match Recovery::open(disk, LogOptions::default()).map_err(Error::from) {
                Ok(recovery) => look.log = Some(recovery),
                Err(Error::Log(LogError::NoLog)) => {}
                Err(error) if error.is_damage() => look.log_damage = Some(error),
                Err(error) => return Err(error),
            }
        }
        match image.try_exists().map_err(Error::io(&image, "look for it"))? {
            true => look.held = Some(ImageHold::shared(&image)?),
            // Inspecting loses nothing, but the report must be about the store's own image.
            false => look.check_elsewhere(&image)?,
        }
        match look.held.is_some() || look.log.is_some() || look.log_damage.is_some() {
            true => Ok(look),
            false => Err(Error::NoStore { directory: directory.to_path_buf() }),
        }
    }

    fn check_elsewhere(&self, image: &Path) -> Result<()> {
        match self.log.as_ref().and_then(|log| Some((log.image()?, log.store_id()))) {
            // The directory of the image may be gone, too.
            Some((last, store_id)) => {
                let here = Placement::of(image).map_or_else(|_| image.to_path_buf(), |found| found.path);
                last_image::check_elsewhere(last.path(), &here, &store_id)
            }
            None => Ok(()),
        }
    }

    /// The image, in the state after opening it, in a private view of its file. `None` if there is none, or one
    /// that was never taken into use.
    pub(crate) fn image(&self) -> Result<Option<LookedAt>> {
        self.view(|image| {
            let heap = Heap::recover(image, HeapOptions::default(), |marker| Tables::mark(image, marker))?;
            let heap = Arc::new(heap);
            let tables = Tables::attach(&heap)?;
            Ok((heap, tables, Vec::new()))
        })
    }

    /// The same with every item checked, and without the damaged ones, in all tables or in one: the view is
    /// private, so that they can be removed.
    pub(crate) fn salvaged_image(&self, only: Option<&str>) -> Result<Option<LookedAt>> {
        self.view(|image| crate::repair::salvage(image, HeapOptions::default(), only))
    }

    fn view(
        &self,
        walk: impl FnOnce(&Arc<Image<Coherent>>) -> Result<crate::repair::Salvaged>,
    ) -> Result<Option<LookedAt>> {
        let Some(held) = &self.held else { return Ok(None) };
        let attached = private_view::open(held)?;
        let image = Arc::new(attached.image);
        if image.epoch() == 0 {
            return Ok(None);
        }
        if image.root(crate::catalogue::ROOT)?.is_none() && image.root(CELLS)?.is_some() {
            return Err(Error::Image(ImageError::Invalid(format!(
                "{} holds cells, not tables; look at it with what wrote it",
                image.path().display()
            ))));
        }
        let (heap, tables, damaged) = walk(&image)?;
        Ok(Some(LookedAt {
            tables,
            heap,
            damaged,
            attachment: attached.attachment,
            slot_torn: attached.slot_repaired,
        }))
    }
}

impl Look {
    /// An image in memory, for a store whose own cannot be used; `load` fills its tables from the log.
    pub(crate) fn image_in_memory(
        &self,
        log: &Recovery,
        options: &StoreOptions,
        load: impl FnOnce(&Tables<Coherent>) -> Result<()>,
    ) -> Result<LookedAt> {
        let CreateOptions { len, chunk_size, .. } = options.create;
        let len = len.max(2 * chunk_size).next_multiple_of(chunk_size);
        let mut seed = [0; 8];
        fill_random(&mut seed)?;
        let (store_id, hash_seed) = (log.store_id(), u64::from_le_bytes(seed));
        let format = Format { store_id, chunk_size, hash_seed };
        let (memory, path) = (PrivateMemory::new(len)?, Path::new("an image in memory"));
        let image = Image::format(Arc::new(memory), Coherent, path, &format, Surroundings::default())?;
        let image = Arc::new(image);
        let heap = Heap::recover(&image, options.heap.clone(), |_| Ok::<(), Error>(()))?;
        let heap = Arc::new(heap);
        let tables = Tables::create(&heap, &())?;
        load(&tables)?;
        image.begin(log.epoch())?;
        Ok(LookedAt { tables, heap, attachment: Attachment::Clean, slot_torn: false, damaged: Vec::new() })
    }

    /// The locks that keep writers away.
    pub(crate) fn into_locks(self) -> (Option<ImageHold>, Option<Arc<ReadOnlyDisk>>) {
        (self.held, self.disk)
    }
}

/// The root of stores that hold numbered cells.
const CELLS: usize = 0;
