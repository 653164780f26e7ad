//! Which items are restored in which table.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use warpkeep_core::{Change, ChangeKind, Seed, hash_bytes};
use warpkeep_image::Coherent;
use warpkeep_log::Recovery;

use super::marker::{Findings, Noted};
use super::{LostItem, RepairOptions, RepairReport, RestoredItem, TableRepair};
use crate::look::LogContents;
use crate::tables::NamedTable;
use crate::verify::shown;
use crate::{Error, Result, Tables};

/// The repair of all tables, or of one.
pub(super) struct Plan<'a> {
    /// By their numbers.
    tables: BTreeMap<u32, Patient<'a>>,
    /// The log has every change that the image had.
    exact: bool,
}

/// A table, and the items removed from it.
struct Patient<'a> {
    named: Arc<NamedTable<Coherent>>,
    damaged: Vec<Taken<'a>>,
    /// Keys in the log, as two hashes: to find keys that it does not have.
    logged: HashSet<[u64; 2]>,
    report: TableRepair,
}

/// A damaged item that was taken out.
struct Taken<'a> {
    item: &'a Noted,
    /// Its logged state was restored in its place.
    restored: bool,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        tables: &Tables<Coherent>,
        findings: &'a Findings,
        what: &RepairOptions,
    ) -> Result<Plan<'a>> {
        if let Some(name) = what.table.as_ref().filter(|name| tables.get(name).is_none()) {
            return Err(Error::NoTable { name: name.clone() });
        }
        let wanted = tables.list().into_iter();
        let wanted = wanted.filter(|named| what.table.as_ref().is_none_or(|name| *name == named.name));
        let patient = |named: Arc<NamedTable<Coherent>>| {
            let taken = findings.damaged.iter().filter(|noted| noted.table == named.id);
            let damaged: Vec<_> = taken.map(|item| Taken { item, restored: false }).collect();
            let report = TableRepair {
                table: named.name.clone(),
                damaged: damaged.len() as u64,
                ..TableRepair::default()
            };
            (named.id, Patient { named, damaged, logged: HashSet::new(), report })
        };
        Ok(Plan { tables: wanted.map(patient).collect(), exact: findings.exact })
    }

    /// Restores the logged items, if changes are allowed, and reports them in any case.
    pub(super) fn carry_out(
        mut self,
        log: Option<&Recovery>,
        apply: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<RepairReport> {
        let exact = self.exact;
        if let Some(log) = log {
            let about = log.checkpoint().map_or(0, |checkpoint| checkpoint.changes);
            let mut done = 0;
            LogContents::read_once(log, |change| {
                done += 1;
                progress(done, about.max(done));
                match self.tables.get_mut(&change.table) {
                    Some(patient) => patient.compare(change, exact, apply),
                    None => Ok(()),
                }
            })?;
        }
        let mut report = RepairReport { log_is_complete: exact, ..RepairReport::default() };
        for mut patient in self.tables.into_values() {
            match exact {
                true => patient.remove_unlogged(apply)?,
                false => patient.list_lost(),
            }
            report.add(patient.report);
        }
        report.tables.sort_by(|one, other| one.table.cmp(&other.table));
        Ok(report)
    }
}

impl RepairReport {
    fn add(&mut self, table: TableRepair) {
        self.damaged += table.damaged;
        self.restored += table.restored.len() as u64;
        self.removed += table.removed.len() as u64;
        self.lost += table.lost.len() as u64;
        if table.damaged > 0 || !table.restored.is_empty() || !table.removed.is_empty() {
            self.tables.push(table);
        }
    }
}

impl Patient<'_> {
    /// Compares the logged state of a key with the image's, and repairs it.
    fn compare(&mut self, change: &Change<'_>, exact: bool, apply: bool) -> Result<()> {
        if exact {
            self.logged.insert(hashes(change.key));
        }
        let found =
            self.named.table.get(change.key, |value| (value.version(), value.bytes() == change.value));
        let perhaps_deleted = match found {
            Some((version, same)) if version == change.version && same => return Ok(()),
            // Only the log is known to be good; and if it is not complete, the image may be ahead of it.
            Some((version, _)) if !exact && version > change.version => return Ok(()),
            Some(_) => false,
            None if exact => false,
            None => match self.could_have_been(change.key) {
                Some(certainly) => !certainly,
                // Deleted, by a write that the log lacks.
                None => return Ok(()),
            },
        };
        if apply {
            if found.is_some() {
                let gone = Change { kind: ChangeKind::Delete, version: u64::MAX, value: &[], ..*change };
                self.named.table.redo(&gone)?;
            }
            self.named.table.redo(change)?;
        }
        let (key, version) = (shown(change.key), change.version);
        self.report.restored.push(RestoredItem { key, version, perhaps_deleted });
        Ok(())
    }

    /// Whether a damaged item was that of a key, for certain or perhaps; `None` if none can have been.
    fn could_have_been(&mut self, key: &[u8]) -> Option<bool> {
        let known = |taken: &&mut Taken<'_>| taken.item.key_belongs && taken.item.key == key;
        if let Some(taken) = self.damaged.iter_mut().find(known) {
            taken.restored = true;
            return Some(true);
        }
        let table = &self.named.table;
        let taken = self.damaged.iter_mut().find(|taken| {
            !taken.item.key_belongs && taken.item.is_item && table.may_lie_in(key, taken.item.bucket)
        })?;
        taken.restored = true;
        Some(false)
    }

    /// Removes items of the image that the log, which is complete, does not have.
    fn remove_unlogged(&mut self, apply: bool) -> Result<()> {
        let mut keys = Vec::new();
        let scanned = self.named.table.scan(self.named.id, |change| {
            if !self.logged.contains(&hashes(change.key)) {
                keys.push(change.key.to_vec());
            }
            Ok::<(), Infallible>(())
        });
        match scanned {
            Ok(()) => {}
            Err(never) => match never {},
        }
        for key in keys {
            if apply {
                let (table, version) = (self.named.id, u64::MAX);
                let gone = Change { table, kind: ChangeKind::Delete, version, key: &key, value: &[] };
                self.named.table.redo(&gone)?;
            }
            self.report.removed.push(shown(&key));
        }
        Ok(())
    }

    /// Lists the damaged items that were not replaced.
    fn list_lost(&mut self) {
        let lost = self.damaged.iter().filter(|taken| taken.item.is_item && !taken.restored).map(|taken| {
            let Noted { key, key_belongs, bucket, slot, damage, .. } = taken.item;
            let key = (*key_belongs).then(|| shown(key));
            LostItem { key, bucket: *bucket, slot: *slot, damage: damage.clone() }
        });
        self.report.lost = lost.collect();
    }
}

fn hashes(key: &[u8]) -> [u64; 2] {
    [1, 2].map(|seed| hash_bytes(Seed(seed), key))
}
