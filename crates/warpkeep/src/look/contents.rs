//! The final contents of a log directory: its tables, and the last state of every item.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use warpkeep_core::{Change, ChangeKind, Seed, hash_bytes};
use warpkeep_log::Recovery;

use super::TablePeek;
use crate::attributes::{self, Attributes};
use crate::index::Spec;
use crate::tables::CATALOGUE;
use crate::{Error, Result};

/// The contents of a log directory, read from its checkpoint to its end.
#[derive(Default)]
pub(crate) struct LogContents {
    tables: BTreeMap<u32, Entry>,
    dropped: BTreeSet<u32>,
    /// By the id of their table, with the version of their last change.
    attributes: BTreeMap<u32, (u64, Attributes)>,
    /// Records after the checkpoint.
    pub(crate) records: u64,
    /// Items in the checkpoint, whatever became of them.
    pub(crate) checkpoint_items: u64,
}

struct Entry {
    name: String,
    spec: Spec,
    since: u64,
    items: u64,
}

/// A change of the catalogue, to be made in its turn.
struct CatalogueChange {
    kind: ChangeKind,
    version: u64,
    name: Vec<u8>,
    spec: Vec<u8>,
}

impl CatalogueChange {
    fn of(change: &Change<'_>) -> CatalogueChange {
        let (name, spec) = (change.key.to_vec(), change.value.to_vec());
        CatalogueChange { kind: change.kind, version: change.version, name, spec }
    }
}

impl LogContents {
    /// Reads every block of the checkpoint and every record after it, and returns each live item with its last
    /// value. Changes after the checkpoint are kept by key, so memory depends on the log and not on the store; so
    /// an item that a checkpoint has twice, because its table grew meanwhile, is returned and counted twice.
    pub(crate) fn read(
        recovery: &Recovery,
        mut each: impl FnMut(&Change<'_>) -> Result<()>,
    ) -> Result<LogContents> {
        let mut contents = LogContents::default();
        let mut latest: HashMap<(u32, Box<[u8]>), u64> = HashMap::new();
        let mut later = Vec::new();
        recovery.redo(|record| {
            contents.records += 1;
            for change in record.changes() {
                if change.table == CATALOGUE {
                    later.push(CatalogueChange::of(&change));
                    continue;
                }
                let version = latest.entry((change.table, change.key.into())).or_default();
                *version = change.version.max(*version);
            }
            Ok::<(), Error>(())
        })?;

        // In a checkpoint the tables come before the items.
        let mut later = Some(later);
        recovery.load_checkpoint(|change| {
            if change.table == CATALOGUE {
                return contents.change_catalogue(&CatalogueChange::of(&change));
            }
            later.take().into_iter().flatten().try_for_each(|change| contents.change_catalogue(&change))?;
            contents.checkpoint_items += 1;
            match latest.contains_key(&(change.table, change.key.into())) {
                true => Ok(()),
                false => contents.give(&change, &mut each),
            }
        })?;
        later.take().into_iter().flatten().try_for_each(|change| contents.change_catalogue(&change))?;

        recovery.redo(|record| {
            for change in record.changes().filter(|change| change.table != CATALOGUE) {
                let last = latest.get(&(change.table, change.key.into())) == Some(&change.version);
                if last && change.kind == ChangeKind::Put {
                    contents.give(&change, &mut each)?;
                }
            }
            Ok::<(), Error>(())
        })?;
        Ok(contents)
    }

    fn give(&mut self, change: &Change<'_>, each: &mut impl FnMut(&Change<'_>) -> Result<()>) -> Result<()> {
        // Of a table that is dropped further on.
        let Some(entry) = self.tables.get_mut(&change.table) else { return Ok(()) };
        entry.items += 1;
        each(change)
    }

    fn change_catalogue(&mut self, change: &CatalogueChange) -> Result<()> {
        if let Some(logged) = attributes::logged(&change.name, &change.spec) {
            let (id, attributes) = logged?;
            let known = self.attributes.entry(id).or_default();
            if known.0 < change.version {
                *known = (change.version, attributes);
            }
            return Ok(());
        }
        let name = std::str::from_utf8(&change.name)
            .map_err(|_| Error::Invalid("a table's name is not text; restore a backup".into()))?;
        match change.kind {
            ChangeKind::Delete => {
                let found = self.tables.iter().find(|(_, entry)| entry.name == name);
                if let Some((&id, _)) = found.filter(|(_, entry)| entry.since < change.version) {
                    self.tables.remove(&id);
                    self.dropped.insert(id);
                }
            }
            ChangeKind::Put => {
                let (id, spec) = Spec::decode(&change.spec)?;
                if !self.dropped.contains(&id) {
                    let new = || Entry { name: name.to_owned(), spec, since: change.version, items: 0 };
                    self.tables.entry(id).or_insert_with(new);
                }
            }
        }
        Ok(())
    }

    /// Like [`LogContents::read`], but every item is returned and counted once. It takes twenty to forty bytes an
    /// item, so it is for callers that have no table with the right number of items.
    pub(crate) fn read_once(
        recovery: &Recovery,
        mut each: impl FnMut(&Change<'_>) -> Result<()>,
    ) -> Result<LogContents> {
        let mut keys: HashMap<u32, HashSet<[u64; 2]>> = HashMap::new();
        let mut contents = LogContents::read(recovery, |change| {
            let hash = [1, 2].map(|seed| hash_bytes(Seed(seed), change.key));
            match keys.entry(change.table).or_default().insert(hash) {
                true => each(change),
                false => Ok(()),
            }
        })?;
        for (id, entry) in &mut contents.tables {
            entry.items = keys.get(id).map_or(0, |keys| keys.len() as u64);
        }
        Ok(contents)
    }

    /// The tables, by name.
    pub(crate) fn tables(&self) -> Vec<TablePeek> {
        let attributes =
            |id: &u32| self.attributes.get(id).map(|(_, known)| known.clone()).unwrap_or_default();
        let peek = |(id, entry): (&u32, &Entry)| TablePeek {
            attributes: attributes(id).into_map(),
            ..TablePeek::new(&entry.name, *id, &entry.spec, entry.items)
        };
        let mut tables: Vec<TablePeek> = self.tables.iter().map(peek).collect();
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        tables
    }

    /// Items of all tables.
    pub(crate) fn items(&self) -> u64 {
        self.tables.values().map(|entry| entry.items).sum()
    }
}
