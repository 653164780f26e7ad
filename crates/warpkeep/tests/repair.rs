//! Damage in an image is reported, does not overwrite valid data, and is repaired from the log.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use warpkeep::{
    Durability, Error, IndexKind, IndexOptions, KeySpec, RepairOptions, RepairReport, Store, StoreOptions,
    Table, TableOptions, ValueSpec, VerifyReport, repair, verify,
};
use warpkeep_image::{CreateOptions, HeapOptions, MIN_CHUNK};
use warpkeep_log::LogOptions;

type Model = BTreeMap<u64, Vec<u8>>;

/// A store with one table of rows of 24 bytes under numbers.
struct Home {
    directory: tempfile::TempDir,
    without_log: bool,
    index: IndexKind,
}

impl Home {
    fn new(index: IndexKind, without_log: bool) -> Home {
        Home { directory: tempfile::tempdir().unwrap(), without_log, index }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn image(&self) -> PathBuf {
        self.path().join("image")
    }

    fn options(&self) -> StoreOptions {
        // The log is written only on request, so that the image can be ahead of it.
        let log = LogOptions { segment_bytes: 64 << 10, background: false, ..LogOptions::default() };
        StoreOptions {
            create: CreateOptions { len: 4 * MIN_CHUNK, chunk_size: MIN_CHUNK, ..CreateOptions::default() },
            // More would cost a word a chunk in every opening.
            heap: HeapOptions { max_bytes: 16 << 20, ..HeapOptions::default() },
            log,
            without_log: self.without_log,
            ..StoreOptions::default()
        }
    }

    fn open(&self) -> Result<Store, Error> {
        Store::open_with(self.path(), self.options())
    }

    /// Rows 0 to 99, half of them in a checkpoint.
    fn fill(&self) -> (Store, Model) {
        let store = self.open().unwrap();
        let options = TableOptions::new(KeySpec::U64, ValueSpec::fixed(24).unwrap()).capacity(400);
        let options = match self.index {
            IndexKind::GpHash => options,
            IndexKind::TurboHash => options.index(IndexOptions::turbohash(3)),
        };
        let rows = store.create_table("rows", options).unwrap();
        let mut model = Model::new();
        for key in 0..100 {
            rows.put(key, &row(key), Durability::Process).unwrap();
            model.insert(key, row(key));
            if key == 49 && !self.without_log {
                store.checkpoint().unwrap();
            }
        }
        drop(rows);
        if !self.without_log {
            store.flush().unwrap();
        }
        (store, model)
    }

    fn verify(&self) -> VerifyReport {
        verify(self.path(), &self.options()).unwrap()
    }

    fn repair(&self, dry_run: bool) -> RepairReport {
        let what = RepairOptions { dry_run, ..RepairOptions::default() };
        repair(self.path(), &self.options(), &what, &mut |_, _| ()).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.image()).unwrap()
    }

    /// The offset of a row's record: there is one, because no row was changed.
    fn record(&self, key: u64) -> usize {
        let (bytes, row) = (self.bytes(), row(key));
        (0..bytes.len() - row.len()).step_by(8).find(|&at| bytes[at..].starts_with(&row)).expect("a record")
    }

    /// Where the word lies that leads to the record of a row.
    fn reference(&self, key: u64) -> usize {
        let (bytes, record) = (self.bytes(), self.record(key) as u64);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let leads = |at: &usize| match self.index {
            IndexKind::GpHash => (word(*at) & ((1 << 45) - 1)) << 3 == record,
            IndexKind::TurboHash => word(*at) == record,
        };
        (20_480..bytes.len() - 8).step_by(8).find(leads).expect("a reference")
    }

    /// Changes the word at an offset, in the file that the image is in.
    fn change(&self, at: usize, change: impl FnOnce(u64) -> u64) {
        use std::os::unix::fs::FileExt;
        let file = fs::OpenOptions::new().read(true).write(true).open(self.image()).unwrap();
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at as u64).unwrap();
        file.write_all_at(&change(u64::from_le_bytes(word)).to_le_bytes(), at as u64).unwrap();
    }

    fn assert_holds(&self, model: &Model) {
        let report = self.verify();
        assert!(report.sound, "{report:#?}");
        let store = self.open().unwrap();
        assert_eq!(scan(&store.table("rows").unwrap()).unwrap(), *model);
        store.close().unwrap();
    }
}

fn row(key: u64) -> Vec<u8> {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(3)
}

fn scan(rows: &Table) -> Result<Model, Error> {
    let mut found = Model::new();
    rows.scan(|item| {
        found.insert(u64::from_le_bytes(item.key.try_into().unwrap()), item.value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn text(report: &VerifyReport) -> String {
    report.tables.iter().flat_map(|table| table.problems.clone()).collect::<Vec<_>>().join("; ")
}

/// The key of row 7 as messages have it.
const SEVEN: &str = "0700000000000000";

#[test]
fn a_value_that_has_changed_is_named_and_put_right() {
    for index in IndexKind::ALL {
        let home = Home::new(index, false);
        let (store, model) = home.fill();
        store.close().unwrap();
        home.change(home.record(7) + 8, |word| word ^ 1 << 20);
        let report = home.verify();
        assert!(!report.sound && text(&report).contains(SEVEN), "{index:?}: {report:#?}");
        let before = home.bytes();
        let planned = home.repair(true);
        assert!(planned.dry_run && home.bytes() == before, "nothing is changed");
        for report in [planned, home.repair(false)] {
            assert!(report.log_is_complete, "{report:#?}");
            assert_eq!((report.restored, report.lost), (1, 0), "{report:#?}");
            assert!(report.tables[0].restored[0].key.contains(SEVEN), "{report:#?}");
        }
        home.assert_holds(&model);
        assert_eq!(home.repair(false).restored, 0, "there is nothing left to repair");
    }
}

#[test]
fn what_is_damaged_ends_scans_and_checkpoints_and_the_log_keeps_what_is_good() {
    // The tag in the slot is another key's, or a bit of the value has changed.
    let tag = |home: &Home| home.change(home.reference(7), |word| word ^ 1 << 50);
    let value = |home: &Home| home.change(home.record(7) + 8, |word| word ^ 1 << 20);
    damage_is_kept_out(IndexKind::GpHash, tag, "do not belong together");
    for index in IndexKind::ALL {
        damage_is_kept_out(index, value, "checksum");
    }
}

fn damage_is_kept_out(index: IndexKind, damage: impl Fn(&Home), how: &str) {
    let home = Home::new(index, false);
    let (store, model) = home.fill();
    store.close().unwrap();
    damage(&home);
    let report = home.verify();
    assert!(text(&report).contains(how) && text(&report).contains(SEVEN), "{report:#?}");

    let store = home.open().unwrap();
    let rows = store.table("rows").unwrap();
    let told = |error: Error| {
        let text = error.to_string();
        assert!(error.is_damage() && text.contains("rows") && text.contains(SEVEN), "{text}");
        assert!(text.contains("repair"), "what to do next: {text}");
    };
    told(scan(&rows).unwrap_err());
    let (mut good, mut damaged) = (0, 0);
    let counted = rows.scan_checked(|item| {
        *if item.is_ok() { &mut good } else { &mut damaged } += 1;
        ControlFlow::Continue(())
    });
    counted.unwrap();
    assert_eq!((good, damaged), (99, 1));
    rows.put(200, &row(200), Durability::Process).unwrap();
    drop(rows);
    told(store.checkpoint().unwrap_err());
    let aside = tempfile::tempdir().unwrap();
    told(store.backup(&aside.path().join("backup"), &mut |_, _| ()).unwrap_err());
    assert!(!aside.path().join("backup").exists());
    store.flush().unwrap();
    store.close().unwrap();

    let report = home.repair(false);
    assert_eq!((report.damaged, report.restored, report.lost), (1, 1, 0), "{report:#?}");
    let mut model = model;
    model.insert(200, row(200));
    home.assert_holds(&model);
    let store = home.open().unwrap();
    store.checkpoint().unwrap();
    store.backup(&aside.path().join("backup"), &mut |_, _| ()).unwrap();
}

/// The state left by a child process that wrote to its parent's store: a row of the one in the slot of the other.
#[test]
fn two_slots_that_lead_to_one_record_are_reported_and_put_right() {
    for index in IndexKind::ALL {
        let home = Home::new(index, false);
        let (store, model) = home.fill();
        store.close().unwrap();
        let (seven, eight) = (home.reference(7), home.record(8) as u64);
        home.change(seven, |word| match index {
            IndexKind::GpHash => word >> 45 << 45 | eight >> 3,
            IndexKind::TurboHash => eight,
        });
        let error = home.open().map(drop).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("two items"), "{error}");
        let report = home.verify();
        assert!(!report.sound && text(&report).contains(SEVEN), "{index:?}: {report:#?}");
        let report = home.repair(false);
        assert_eq!(report.lost, 0, "{report:#?}");
        home.assert_holds(&model);
    }
}

#[test]
fn slots_that_lead_nowhere_are_put_right() {
    for index in IndexKind::ALL {
        for wrong in [0, 8, 1 << 40, 20_488] {
            let home = Home::new(index, false);
            let (store, model) = home.fill();
            store.close().unwrap();
            home.change(home.reference(7), |word| match index {
                IndexKind::GpHash => word >> 45 << 45 | wrong >> 3,
                IndexKind::TurboHash => wrong,
            });
            assert!(home.open().map(drop).unwrap_err().is_damage());
            assert!(!home.verify().sound);
            let report = home.repair(false);
            assert_eq!((report.damaged, report.restored, report.lost), (1, 1, 0), "{report:#?}");
            home.assert_holds(&model);
        }
    }
}

#[test]
fn commit_words_that_no_table_stores_are_put_right() {
    for wrong in [1 << 14, 1 << 15, 1 << 30, 0x3fff, 0xffff_ffff] {
        let home = Home::new(IndexKind::TurboHash, false);
        let (store, model) = home.fill();
        store.close().unwrap();
        home.change(home.reference(7) / 256 * 256, |word| word | wrong);
        assert!(home.open().map(drop).unwrap_err().is_damage(), "{wrong:#x}");
        assert!(!home.verify().sound, "{wrong:#x}");
        assert_eq!(home.repair(false).lost, 0);
        home.assert_holds(&model);
    }
}

/// The image may be ahead of the log: items it deleted do not come back, items it lost do.
#[test]
fn a_store_that_was_left_gets_back_what_the_log_has_and_nothing_that_was_deleted() {
    let home = Home::new(IndexKind::GpHash, false);
    let (store, mut model) = home.fill();
    let rows = store.table("rows").unwrap();
    // Not in the log.
    for key in [20, 21, 22] {
        rows.delete(key, Durability::Process).unwrap();
        model.remove(&key);
    }
    rows.put(300, &row(300), Durability::Process).unwrap();
    model.insert(300, row(300));
    drop(rows);
    drop(store);
    home.change(home.reference(7), |word| word >> 45 << 45);
    home.change(home.reference(300), |word| word >> 45 << 45);
    let report = home.repair(false);
    assert!(!report.log_is_complete);
    assert_eq!(report.damaged, 2, "{report:#?}");
    let restored = &report.tables[0].restored;
    assert!(restored.iter().any(|item| item.key.contains(SEVEN)), "{report:#?}");
    // A deleted key comes back only if it could have been in the unreadable slot, and then the report says so.
    let deleted = [20, 21, 22].into_iter().filter(|key| {
        let shown = u64::to_le_bytes(*key).map(|byte| format!("{byte:02x}")).concat();
        restored.iter().any(|item| item.key.contains(&shown) && item.perhaps_deleted)
    });
    let deleted: Vec<u64> = deleted.collect();
    assert_eq!(restored.len(), 1 + deleted.len(), "{report:#?}");
    // Row 300 is lost, unless a deleted key could have been in its slot: which keys share a bucket depends on the store's seed.
    assert!(report.lost == 1 || report.lost == 0 && !deleted.is_empty(), "{report:#?}");
    model.extend(deleted.into_iter().map(|key| (key, row(key))));
    model.remove(&300);
    home.assert_holds(&model);
}

/// An opening reads no records, unless requested.
#[test]
fn a_store_that_was_left_is_checked_before_it_is_used_if_that_is_asked_for() {
    let home = Home::new(IndexKind::GpHash, false);
    drop(home.fill());
    home.change(home.reference(7), |word| word ^ 1 << 50);
    let checked = || StoreOptions { check_items: true, ..home.options() };
    for _ in 0..2 {
        let error = Store::open_with(home.path(), checked()).map(drop).unwrap_err();
        assert!(matches!(error, Error::DamagedItem { .. }), "{error}");
    }
    drop(home.open().unwrap());
    home.repair(false);
    let store = Store::open_with(home.path(), checked()).unwrap();
    assert_eq!(store.table("rows").unwrap().len(), 100);
}

#[test]
fn without_a_log_the_rest_is_kept_and_what_is_lost_is_listed() {
    for index in IndexKind::ALL {
        let home = Home::new(index, true);
        let (store, mut model) = home.fill();
        store.close().unwrap();
        home.change(home.reference(7), |word| match index {
            IndexKind::GpHash => word >> 45 << 45,
            IndexKind::TurboHash => 0,
        });
        assert_eq!(home.repair(true).lost, 1);
        let report = home.repair(false);
        assert_eq!((report.damaged, report.restored, report.lost), (1, 0, 1), "{report:#?}");
        let lost = &report.tables[0].lost[0];
        assert!(lost.bucket > 0 && lost.key.is_some() == (index == IndexKind::TurboHash), "{report:#?}");
        model.remove(&7);
        home.assert_holds(&model);
    }
}

#[test]
fn an_interrupted_repair_is_taken_up() {
    let home = Home::new(IndexKind::GpHash, false);
    let (store, model) = home.fill();
    store.close().unwrap();
    let slot = home.reference(7);
    let record = home.record(7);
    home.change(slot, |word| word >> 45 << 45);
    // As a repair leaves it that died when it had taken the item out.
    let noted = r#"{"exact":false,"damaged":[{"table":1,"is_item":true,"key":[7,0,0,0,0,0,0,0],"key_belongs":true,"bucket":0,"slot":0,"damage":""}]}"#;
    fs::write(home.path().join("REPAIRING"), noted).unwrap();
    home.change(slot, |_| 0);
    let error = home.open().map(drop).unwrap_err();
    assert!(
        matches!(error, Error::RepairInterrupted { .. }) && error.to_string().contains("repair"),
        "{error}"
    );
    assert!(!home.verify().sound);
    let report = home.repair(false);
    assert_eq!((report.restored, report.lost), (1, 0), "{report:#?}");
    assert!(!home.path().join("REPAIRING").exists());
    assert_eq!(home.bytes()[record..record + 24].len(), 24);
    home.assert_holds(&model);
}

#[test]
fn a_repair_of_one_table_leaves_the_others() {
    let home = Home::new(IndexKind::GpHash, false);
    let (store, _) = home.fill();
    store.close().unwrap();
    let what = RepairOptions { table: Some("none".into()), dry_run: false };
    let refused = repair(home.path(), &home.options(), &what, &mut |_, _| ());
    assert!(matches!(refused, Err(Error::NoTable { .. })));
    assert!(!home.path().join("REPAIRING").exists());
    let what = RepairOptions { table: Some("rows".into()), dry_run: false };
    let (mut calls, mut last) = (0, (0, 0));
    repair(home.path(), &home.options(), &what, &mut |done, total| {
        calls += 1;
        last = (done, total);
    })
    .unwrap();
    assert!(calls == 100 && last.0 == 100 && last.1 >= 100, "{calls} calls, {last:?} at the end");
}
