//! Long work reports its progress.

use std::sync::{Arc, Mutex};

use warpkeep::{Durability, Store, StoreOptions, WorkProgress, verify};

/// The reports.
type Reports = Arc<Mutex<Vec<(u64, u64)>>>;

fn watched() -> (StoreOptions, Reports) {
    let reports = Reports::default();
    let progress = WorkProgress::new({
        let reports = Arc::clone(&reports);
        move |done, total| reports.lock().unwrap().push((done, total))
    });
    (StoreOptions { progress, ..StoreOptions::default() }, reports)
}

/// From nothing to everything, in steps, and never backwards.
fn check(reports: &Reports, items: u64) {
    let reports = reports.lock().unwrap();
    assert_eq!(reports.first().map(|(done, _)| *done), Some(0));
    assert!(reports.is_sorted_by_key(|(done, _)| *done), "{reports:?}");
    let (done, total) = *reports.last().unwrap();
    assert!(done >= items && total >= done, "{done} of {total}, {items} items");
    assert!(reports.len() > 5, "{reports:?}");
    assert!(
        reports.iter().all(|(_, of)| *of == total),
        "the total was known from the beginning: {reports:?}"
    );
}

#[test]
fn checking_and_rebuilding_report_how_far_they_are() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let table = store.create_typed::<u64, u64>("t", 10_000).unwrap();
    let items: Vec<(u64, u64)> = (0..8000).map(|key| (key, key)).collect();
    table.put_many(&items[..4000], Durability::Process).unwrap();
    store.checkpoint().unwrap();
    for item in items[4000..].chunks(1) {
        table.put_many(item, Durability::Process).unwrap();
    }
    drop(table);
    store.close().unwrap();

    let (options, reports) = watched();
    assert!(verify(home.path(), &options).unwrap().sound);
    // Each item is looked at in the image and in the log.
    check(&reports, 16_000);

    std::fs::remove_file(home.path().join("image")).unwrap();
    let (options, reports) = watched();
    let store = Store::open_with(home.path(), options).unwrap();
    check(&reports, 8000);
    assert_eq!(store.report().loaded, 4000, "items, not tables");
    store.close().unwrap();
    // Without a rebuild there is nothing to report.
    let (options, reports) = watched();
    Store::open_with(home.path(), options).unwrap().close().unwrap();
    assert!(reports.lock().unwrap().is_empty());
}
