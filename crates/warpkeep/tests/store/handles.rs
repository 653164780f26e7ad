//! Tables as owned handles: cloned, sent to threads, kept beside their store, and what they answer when the store is closed or the table dropped.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use warpkeep::{
    Durability, Error, KeySpec, Origin, ScanPosition, Store, StoreOptions, Table, TableOptions, TypedTable,
    ValueSpec, verify,
};

fn rows() -> TableOptions {
    TableOptions::new(KeySpec::U64, ValueSpec::fixed(16).unwrap())
}

fn fill(table: &Table, keys: u64) {
    for key in 0..keys {
        table.put(key, &[1; 16], Durability::Process).unwrap();
    }
}

fn is_clonable_and_shared<T: Clone + Send + Sync + 'static>(_: &T) {}

/// How many calls on a table are not refused with the error that is expected.
fn not_refused(table: &Table, expected: impl Fn(&Error) -> bool) -> Vec<usize> {
    let mut batch = table.batch();
    batch.put(1, &[1; 16]).unwrap();
    let process = Durability::Process;
    let mut results = warpkeep::Results::new(&batch.view());
    let refused = [
        table.get(1).err(),
        table.get_versioned(1).err(),
        table.put(1, &[1; 16], process).err(),
        table.insert(1, &[1; 16], process).err(),
        table.update(1, &[1; 16], process).err(),
        table.compare_and_swap(1, 1, &[1; 16], process).err(),
        table.delete(1, process).err(),
        table.run(&batch, process).err(),
        table.run_into(&batch.view(), process, &mut results).err(),
        table.run_as_one(&batch.view(), process, &mut results).err(),
        table.scan(|_| ControlFlow::Continue(())).err(),
        table.scan_checked(|_| ControlFlow::Continue(())).err(),
        table.scan_some(&mut ScanPosition::default(), |_| ()).err(),
        table.sample(None, 1, |_| ()).err(),
        table.vacate(8, 16, |_| ()).err(),
        table.vacate_bytes(100, |_| ()).err(),
        table.maintain().err(),
        table.grow().err(),
        table.shrink().err(),
        table.stats().err(),
        table.device_stats().err(),
        table.set_attribute("a", Some("b")).err(),
        table.clone().typed::<u64, [u8; 16]>().unwrap().get_many(&[1]).err(),
        table.clone().typed::<u64, [u8; 16]>().unwrap().get(&1).err(),
    ];
    assert_eq!((table.len(), table.attributes().len()), (0, 0));
    assert_eq!((table.key_spec(), table.value_spec().fixed_len()), (KeySpec::U64, Some(16)));
    let wrong = |error: &Option<Error>| !error.as_ref().is_some_and(&expected);
    refused.iter().enumerate().filter(|(_, error)| wrong(error)).map(|(number, _)| number).collect()
}

#[test]
fn a_table_can_be_cloned_sent_to_a_thread_and_kept_with_its_store() {
    struct Service {
        store: Store,
        rows: Table,
        counts: TypedTable<String, u64>,
    }
    let home = tempfile::tempdir().unwrap();
    let open = |path: &Path| -> warpkeep::Result<Service> {
        let store = Store::open(path)?;
        let (rows, counts) = (store.create_table("rows", rows())?, store.create_typed("counts", 10)?);
        Ok(Service { store, rows, counts })
    };
    let service = open(home.path()).unwrap();
    is_clonable_and_shared(&service.rows);
    is_clonable_and_shared(&service.counts);
    let threads: Vec<_> = (0..4_u64)
        .map(|key| {
            let (rows, counts) = (service.rows.clone(), service.counts.clone());
            std::thread::spawn(move || {
                rows.put(key, &[1; 16], Durability::Power)?;
                counts.fetch_add("all", 1, Durability::Process)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    assert_eq!(service.rows.len(), 4);
    assert_eq!(service.counts.get("all").unwrap(), Some(4));
    service.store.close().unwrap();
    assert!(matches!(service.rows.get(1), Err(Error::Closed { .. })));
}

#[test]
fn a_closed_store_refuses_the_calls_of_its_handles_and_can_be_opened_again() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let table = store.create_table("rows", rows()).unwrap();
    table.put(1, &[1; 16], Durability::Process).unwrap();
    let still = table.hold_still();
    let again = table.clone();
    store.close().unwrap();
    for table in [&table, &again] {
        assert_eq!(not_refused(table, |error| matches!(error, Error::Closed { .. })), [0_usize; 0]);
    }
    let message = table.get(1).unwrap_err().to_string();
    assert!(message.contains("'rows' was closed; open the store again"), "{message}");

    // The old handles keep nothing from the new store, nor do they harm it when they go.
    let store = Store::open(home.path()).unwrap();
    assert_eq!(store.report().origin, Origin::Clean);
    let new = store.table("rows").unwrap();
    new.put(2, &[2; 16], Durability::Process).unwrap();
    drop((table, again, still));
    assert_eq!(new.len(), 2);
    store.close().unwrap();
    assert!(verify(home.path(), &StoreOptions::default()).unwrap().sound);
}

/// Threads read and write while the store is closed: what they got an answer for is there, and afterwards all of them are refused.
#[test]
fn closing_waits_for_calls_in_progress() {
    const ROUNDS: u64 = 12;
    let mut answered = 0;
    for round in 0..ROUNDS {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let table = store.create_table("rows", rows().capacity(64)).unwrap();
        let (durability, written) =
            (if round % 3 == 0 { Durability::Power } else { Durability::Process }, AtomicU64::new(0));
        let (begun, has_begun) = mpsc::channel();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (table, written, begun) = (table.clone(), &written, begun.clone());
                scope.spawn(move || {
                    let mut begun = Some(begun);
                    for number in 0_u64.. {
                        let key = number * 4 + thread;
                        let done = match thread {
                            0 => table.get(1).map(drop),
                            _ => table.put(key, &[7; 16], durability).map(drop),
                        };
                        match done {
                            Ok(()) if thread == 0 => {}
                            Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
                            Err(Error::Closed { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                        begun.take().into_iter().for_each(|begun| begun.send(()).unwrap());
                    }
                });
            }
            (0..4).for_each(|_| has_begun.recv().unwrap());
            store.close().unwrap();
        });
        let store = Store::open(home.path()).unwrap();
        assert_eq!(store.report().origin, Origin::Clean);
        assert_eq!(store.table("rows").unwrap().len(), written.load(Ordering::Relaxed));
        answered += written.into_inner();
        store.close().unwrap();
    }
    use std::io::Write as _;
    writeln!(std::io::stdout().lock(), "handles: {answered} writes answered in {ROUNDS} closings").unwrap();
}

#[test]
fn a_store_that_is_dropped_stays_open_for_its_handles() {
    let home = tempfile::tempdir().unwrap();
    let open = || Store::open(home.path());
    // As one expression: no variable has the store.
    let table = open().unwrap().table_or_create("rows", rows().capacity(16)).unwrap();
    for key in 0..1000 {
        table.put(key, &[1; 16], Durability::Process).unwrap();
    }
    table.put(1000, &[1; 16], Durability::Power).unwrap();
    let error = open().unwrap_err().to_string();
    assert!(error.contains("drop it and all handles of its tables"), "{error}");
    drop(table);
    let store = open().unwrap();
    assert_eq!(store.report().origin, Origin::Reattached);
    assert_eq!(store.table("rows").unwrap().len(), 1001);
}

#[test]
fn a_dropped_table_refuses_its_handles_and_gives_its_space_back_at_once() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let before = store.usage().used_blocks();
    let table = store.create_table("rows", rows()).unwrap();
    fill(&table, 1000);
    assert!(store.usage().used_blocks() > before + 1000);
    store.drop_table("rows").unwrap();
    assert_eq!(not_refused(&table, |error| matches!(error, Error::NoTable { .. })), [0_usize; 0]);
    // At once, unless a reader of another test holds the epoch up; then the thread in the background does it.
    let is_free = || store.usage().used_blocks() <= before + 1;
    for _ in 0..10_000 {
        if is_free() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(is_free(), "{:?}, before {before}", store.usage());

    // One of the same name is another table.
    let another = store.create_table("rows", rows()).unwrap();
    another.put(1, &[2; 16], Durability::Process).unwrap();
    assert!(matches!(table.get(1), Err(Error::NoTable { .. })));
    store.close().unwrap();
    assert!(matches!(another.get(1), Err(Error::Closed { .. })));
}

#[test]
fn a_table_dropped_by_its_own_scan_is_freed_later() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let table = store.create_table("rows", rows()).unwrap();
    fill(&table, 100);
    let (mut items, mut dropped) = (0, false);
    table
        .scan(|item| {
            assert_eq!(item.value, [1; 16]);
            items += 1;
            if !std::mem::replace(&mut dropped, true) {
                store.drop_table("rows").unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(items, 100, "the scan goes on over what there was");
    assert!(matches!(table.get(1), Err(Error::NoTable { .. })));
    store.close().unwrap();
}

#[test]
fn a_store_cannot_be_closed_from_within_a_call() {
    let home = tempfile::tempdir().unwrap();
    let mut store = Some(Store::open(home.path()).unwrap());
    let table = store.as_ref().unwrap().create_table("rows", rows()).unwrap();
    table.put(1, &[1; 16], Durability::Process).unwrap();
    let mut closed = None;
    table
        .scan(|_| {
            closed = store.take().map(Store::close);
            ControlFlow::Continue(())
        })
        .unwrap();
    let error = closed.unwrap().unwrap_err().to_string();
    assert!(error.contains("from within a call") && error.contains("after that call"), "{error}");
    assert_eq!(table.get(1).unwrap(), Some(vec![1; 16]), "the handle keeps it open");
    drop(table);
    Store::open(home.path()).unwrap().close().unwrap();
}

/// Of two stores, each with handles in use, one is closed.
#[test]
fn closing_one_store_leaves_others_alone() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, stays) = (Store::open(home.path()).unwrap(), Store::open(other.path()).unwrap());
    let (table, kept) =
        (store.create_table("rows", rows()).unwrap(), stays.create_table("rows", rows()).unwrap());
    kept.put(1, &[1; 16], Durability::Process).unwrap();
    let mut store = Some(store);
    let stop = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let (kept, stop) = (kept.clone(), Arc::clone(&stop));
        move || {
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(kept.get(1).unwrap(), Some(vec![1; 16]));
            }
        }
    });
    // From within a scan of the other one.
    kept.scan(|_| {
        store.take().into_iter().for_each(|store| store.close().unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(matches!(table.get(1), Err(Error::Closed { .. })));
    stop.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    stays.close().unwrap();
}
