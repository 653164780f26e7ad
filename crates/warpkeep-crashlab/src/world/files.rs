//! The files as the model sees them: contents on disk, contents in the page cache, and the names of both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::{Content, sector_hash};
use crate::disk::DiskImage;
use crate::hash;
use crate::model::SECTOR;

/// File numbers by name.
pub(crate) type Names = BTreeMap<Arc<str>, u64>;

/// A creation, renaming or removal that is not durable yet.
#[derive(Clone, Hash)]
pub(crate) enum NameChange {
    Create { name: Arc<str>, file: u64 },
    Rename { from: Arc<str>, to: Arc<str> },
    Remove { name: Arc<str> },
}

impl NameChange {
    pub(crate) fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Create { name, file } => {
                names.insert(Arc::clone(name), *file);
            }
            NameChange::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(Arc::clone(to), file);
                }
            }
            NameChange::Remove { name } => {
                names.remove(name);
            }
        }
    }

    /// Whether both touch one name, so that the later change cannot survive without the earlier.
    pub(crate) fn shares_a_name(&self, other: &NameChange) -> bool {
        self.touched().into_iter().flatten().any(|name| other.touched().contains(&Some(name)))
    }

    fn touched(&self) -> [Option<&Arc<str>>; 2] {
        match self {
            NameChange::Create { name, .. } | NameChange::Remove { name } => [Some(name), None],
            NameChange::Rename { from, to } => [Some(from), Some(to)],
        }
    }
}

/// The changes of a sector since its file was synced.
#[derive(Clone, Default)]
pub(crate) struct PendingSector {
    /// In the order they were written.
    pub(crate) versions: Vec<Arc<[u8; SECTOR as usize]>>,
    /// Whether the next sync will write it. Not after a sync that failed: its pages are clean.
    dirty: bool,
}

/// A file between two crashes.
#[derive(Clone, Default)]
pub(crate) struct FileState {
    pub(crate) live: Content,
    pub(crate) durable: Content,
    pub(crate) pending: BTreeMap<u64, PendingSector>,
    /// Lengths since the durable one.
    pub(crate) lengths: Vec<u64>,
    length_dirty: bool,
    /// Whether the newest length is of the write that a continuation would continue.
    growing: bool,
}

impl FileState {
    fn settled(content: Content) -> FileState {
        FileState { live: content.clone(), durable: content, ..FileState::default() }
    }

    /// Writes; `continued` if it is a further part of the write before it, which then is one change of length.
    fn write(&mut self, offset: u64, bytes: &[u8], continued: bool) {
        let old = self.live.len();
        self.live.write(offset, bytes);
        for index in offset / SECTOR..(offset + bytes.len() as u64).div_ceil(SECTOR) {
            let sector = self.pending.entry(index).or_default();
            sector.versions.push(Arc::new(self.live.sector(index)));
            sector.dirty = true;
        }
        if continued && self.growing && self.live.len() != old {
            self.lengths.pop();
        }
        self.growing &= continued;
        self.note_length(old);
    }

    fn allocate(&mut self, len: u64) {
        let old = self.live.len();
        self.live.resize(len);
        self.note_length(old);
    }

    fn note_length(&mut self, old: u64) {
        if self.live.len() != old {
            self.lengths.push(self.live.len());
            self.length_dirty = true;
            self.growing = true;
        }
    }

    fn sync(&mut self) {
        let whole_sectors = self.durable.len() / SECTOR;
        let beyond = self.pending.range(whole_sectors..).any(|(_, sector)| sector.dirty);
        if self.length_dirty || beyond {
            self.durable.resize(self.live.len());
            self.lengths.clear();
            self.length_dirty = false;
        }
        let len = self.durable.len();
        self.pending.retain(|&index, sector| {
            let Some(last) = sector.versions.last().filter(|_| sector.dirty) else { return true };
            let start = index * SECTOR;
            self.durable.write(start, &last[..(len - start).min(SECTOR) as usize]);
            false
        });
    }

    fn sync_failed(&mut self) {
        self.pending.values_mut().for_each(|sector| sector.dirty = false);
        self.length_dirty = false;
    }

    /// The hash of the durable sector `index` in a file cut or extended to `len`.
    pub(crate) fn durable_sector_hash(&self, index: u64, len: u64) -> u64 {
        let end = (index + 1) * SECTOR;
        if end <= self.durable.len() && end <= len {
            return self.durable.sector_hash(index);
        }
        sector_hash(index, &self.durable.sector(index)[..(len - index * SECTOR).min(SECTOR) as usize])
    }
}

/// A disk between two crashes.
#[derive(Clone, Default)]
pub(crate) struct FilesState {
    pub(crate) files: BTreeMap<u64, FileState>,
    pub(crate) names: Names,
    pub(crate) durable_names: Names,
    pub(crate) pending: Vec<NameChange>,
    pub(crate) next_file: u64,
}

impl FilesState {
    /// The disk a crash left, all of it durable.
    pub(crate) fn settled(image: &DiskImage) -> FilesState {
        let names: Names = image.files.iter().map(|(name, (file, _))| (Arc::clone(name), *file)).collect();
        let contents = image.files.values().map(|(file, content)| (*file, content.clone()));
        FilesState {
            files: contents.map(|(file, content)| (file, FileState::settled(content))).collect(),
            durable_names: names.clone(),
            names,
            pending: Vec::new(),
            next_file: image.next_file,
        }
    }

    pub(crate) fn create(&mut self, name: &Arc<str>, file: u64) {
        self.files.insert(file, FileState::default());
        self.next_file = self.next_file.max(file + 1);
        self.change(NameChange::Create { name: Arc::clone(name), file });
    }

    pub(crate) fn rename(&mut self, from: &Arc<str>, to: &Arc<str>) {
        self.change(NameChange::Rename { from: Arc::clone(from), to: Arc::clone(to) });
    }

    pub(crate) fn remove(&mut self, name: &Arc<str>) {
        self.change(NameChange::Remove { name: Arc::clone(name) });
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    /// A file that is no longer reachable is not kept, though a handle may still write to it.
    pub(crate) fn write(&mut self, file: u64, offset: u64, bytes: &[u8], continued: bool) {
        if let Some(file) = self.files.get_mut(&file) {
            file.write(offset, bytes, continued);
        }
    }

    pub(crate) fn allocate(&mut self, file: u64, len: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.allocate(len);
        }
    }

    pub(crate) fn sync(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.sync();
        }
    }

    pub(crate) fn sync_failed(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.sync_failed();
        }
    }

    pub(crate) fn sync_names(&mut self) {
        self.durable_names.clone_from(&self.names);
        self.pending.clear();
        let kept: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| kept.contains(file));
    }

    pub(crate) fn settle(&mut self) {
        self.sync_names();
        for file in self.files.values_mut() {
            *file = FileState::settled(file.live.clone());
        }
    }

    /// The durable and the pending state, as one hash.
    pub(crate) fn risk_hash(&self) -> u64 {
        let files = self.files.iter().map(|(number, file)| {
            let pending: Vec<_> =
                file.pending.iter().map(|(index, at)| (index, &at.versions, at.dirty)).collect();
            hash::of((number, file.durable.hash(), pending, &file.lengths, file.length_dirty))
        });
        hash::of((files.collect::<Vec<_>>(), &self.durable_names, &self.pending))
    }
}
