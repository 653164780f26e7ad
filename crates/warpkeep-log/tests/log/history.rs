//! The written history, and the check of a recovered log against it.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpkeep_core::{Change, ChangeKind, Durability, Lsn};
use warpkeep_log::{ChangeBatch, CheckpointWriter, Log, LogError, LogOptions, Recovery};

use crate::mem_disk::{Dice, MemDisk};

/// The copies of the manifest.
pub(crate) const MANIFESTS: [&str; 2] = ["MANIFEST", "MANIFEST.2"];
pub(crate) const STORE: [u8; 16] = *b"a store for test";

/// Key to version and value; a deleted key keeps its version.
pub(crate) type Items = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

/// Small segments, no background thread.
pub(crate) fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, background: false, fill_ahead_bytes: 4096, ..LogOptions::default() }
}

pub(crate) fn apply(items: &mut Items, change: &Change<'_>) {
    let item = items.entry(change.key.to_vec()).or_default();
    if change.version >= item.0 {
        *item = (change.version, (change.kind == ChangeKind::Put).then(|| change.value.to_vec()));
    }
}

/// The state that checkpoint and log give together.
pub(crate) fn replay(recovery: &Recovery) -> Result<Items, LogError> {
    let mut items = Items::new();
    recovery.load_checkpoint(|change| {
        apply(&mut items, &change);
        Ok::<(), LogError>(())
    })?;
    let mut last = recovery.checkpoint().map_or(Lsn::ZERO, |checkpoint| checkpoint.start);
    recovery.redo(|record| {
        assert!(record.lsn() > last, "records come in order");
        last = record.lsn();
        record.changes().for_each(|change| apply(&mut items, &change));
        Ok::<(), LogError>(())
    })?;
    assert_eq!(last, recovery.last_lsn());
    // A checkpoint holds no deletes, so only live items can be compared.
    items.retain(|_, (_, value)| value.is_some());
    Ok(items)
}

/// Puts every live item into a checkpoint.
pub(crate) fn scan(items: &Items, writer: &mut CheckpointWriter) -> Result<(), LogError> {
    for (key, (version, value)) in items {
        if let Some(value) = value {
            writer.push(&Change { table: 1, kind: ChangeKind::Put, version: *version, key, value })?;
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Logged {
    lsn: Lsn,
    batch: ChangeBatch,
}

/// The oracle: everything that was appended, in order.
#[derive(Clone, Default)]
pub(crate) struct History {
    records: Vec<Logged>,
    /// Everything up to here must survive.
    pub(crate) acknowledged: Lsn,
    version: u64,
    pub(crate) items: Items,
}

impl History {
    /// Appends a batch of up to six changes, of up to `most` bytes each, to the log and here.
    pub(crate) fn append(
        &mut self,
        log: &Log,
        dice: &mut Dice,
        most: usize,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        let mut batch = ChangeBatch::new();
        let mut items = self.items.clone();
        for _ in 0..1 + dice.roll() % 6 {
            self.version += 1;
            let key = [b'k', (dice.roll() % 24) as u8];
            let delete = dice.roll().is_multiple_of(4);
            let value = vec![dice.roll() as u8; if delete { 0 } else { dice.roll() as usize % most }];
            let kind = if delete { ChangeKind::Delete } else { ChangeKind::Put };
            let change = Change { table: 1, kind, version: self.version, key: &key, value: &value };
            batch.push(&change)?;
            apply(&mut items, &change);
        }
        let lsn = log.append(&batch, durability, |_| ())?;
        self.items = items;
        self.records.push(Logged { lsn, batch });
        Ok(lsn)
    }

    pub(crate) fn last(&self) -> Lsn {
        self.records.last().map_or(Lsn::ZERO, |record| record.lsn)
    }

    fn items_at(&self, last: Lsn) -> Items {
        let mut items = Items::new();
        for record in self.records.iter().take_while(|record| record.lsn <= last) {
            record.batch.iter().for_each(|change| apply(&mut items, &change));
        }
        items
    }

    /// Checks that a recovered log is a prefix of the history that holds all that was acknowledged, and forgets
    /// the rest, as the store would.
    pub(crate) fn check(&mut self, recovery: &Recovery) -> Result<(), String> {
        let last = recovery.last_lsn();
        if last < self.acknowledged {
            return Err(format!("{} was acknowledged, but the log ends at {last}", self.acknowledged));
        }
        if last != Lsn::ZERO && !self.records.iter().any(|record| record.lsn == last) {
            return Err(format!("nobody ever wrote record {last}"));
        }
        let found = replay(recovery).map_err(|error| error.to_string())?;
        let mut items = self.items_at(last);
        self.items = items.clone();
        items.retain(|_, (_, value)| value.is_some());
        if found != items {
            return Err(format!("the items at {last} are not those of the history"));
        }
        self.records.retain(|record| record.lsn <= last);
        Ok(())
    }

    /// Whether a found record is the one that was written.
    pub(crate) fn holds(&self, found: &warpkeep_log::OwnedRecord) -> bool {
        self.records.iter().any(|record| record.lsn == found.lsn() && record.batch.iter().eq(found.changes()))
    }

    pub(crate) fn lsns(&self) -> Vec<Lsn> {
        self.records.iter().map(|record| record.lsn).collect()
    }
}

pub(crate) fn create(disk: &MemDisk) -> Log {
    Log::create(Arc::new(disk.clone()), STORE, 1, options()).unwrap()
}

pub(crate) fn recover(disk: &MemDisk) -> Result<Recovery, LogError> {
    Recovery::open(Arc::new(disk.clone()), options())
}
