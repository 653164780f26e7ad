//! The checkpoint that is owed after a process was killed: begun at once, made once, and `Power` batches wait for
//! no other.

use std::path::Path;
use std::time::{Duration, Instant};

use warpkeep::{
    CheckpointOptions, Durability, KeySpec, LogStatus, Origin, Store, StoreOptions, TableOptions, ValueSpec,
};
use warpkeep_log::LogOptions;

const ROWS: u64 = 3000;
/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The log is written only by threads that wait for it.
fn options(checkpoints: CheckpointOptions) -> StoreOptions {
    let log = LogOptions { background: false, ..LogOptions::default() };
    StoreOptions { checkpoints, log, ..StoreOptions::default() }
}

/// A store that is left as a killed process leaves it.
fn left(directory: &Path) {
    let store = Store::open_with(directory, options(CheckpointOptions::OFF)).unwrap();
    let table = store.table_or_create("rows", TableOptions::new(KeySpec::U64, ValueSpec::U64)).unwrap();
    for key in 0..ROWS {
        table.put(key, key, Durability::Process).unwrap();
    }
}

fn log_of(store: &Store) -> LogStatus {
    store.status().log.unwrap()
}

#[test]
fn it_is_made_in_the_background_and_once() {
    let directory = tempfile::tempdir().unwrap();
    left(directory.path());
    let store = Store::open(directory.path()).unwrap();
    assert_eq!((store.report().origin, store.report().owes_checkpoint), (Origin::Reattached, true));
    let begun = Instant::now();
    while log_of(&store).owes_checkpoint {
        let LogStatus { checkpoint_items_written: written, checkpoint_items: all, .. } = log_of(&store);
        assert!(written <= ROWS + 1 && [0, ROWS + 1].contains(&all), "{written} of {all}");
        assert!(begun.elapsed() < PATIENCE, "it is not made: {:?}", log_of(&store));
        std::thread::sleep(Duration::from_millis(1));
    }
    store.table("rows").unwrap().put(1, 7_u64, Durability::Power).unwrap();
    let log = log_of(&store);
    // The run counts as completed a moment after it has cleared the debt.
    assert!(log.checkpoints <= 1 && !log.owes_checkpoint, "{log:?}");
    store.close().unwrap();
    let store = Store::open(directory.path()).unwrap();
    assert_eq!((store.report().origin, store.report().owes_checkpoint), (Origin::Clean, false));
}

#[test]
fn power_batches_and_closing_wait_for_it() {
    for close in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        left(directory.path());
        let store = Store::open(directory.path()).unwrap();
        assert!(store.report().owes_checkpoint);
        if !close {
            // At once: the checkpoint is in progress, or about to be.
            store.table("rows").unwrap().put(1, 7_u64, Durability::Power).unwrap();
            let log = log_of(&store);
            assert!(!log.owes_checkpoint && log.checkpoints <= 1, "{log:?}");
        }
        store.close().unwrap();
        let store = Store::open(directory.path()).unwrap();
        assert_eq!((store.report().origin, store.report().owes_checkpoint), (Origin::Clean, false));
        assert_eq!(store.table("rows").unwrap().len(), ROWS);
    }
}

#[test]
fn without_checkpoints_of_its_own_the_first_power_batch_makes_it() {
    let directory = tempfile::tempdir().unwrap();
    left(directory.path());
    let store = Store::open_with(directory.path(), options(CheckpointOptions::OFF)).unwrap();
    let table = store.table("rows").unwrap();
    table.put(1, 7_u64, Durability::Process).unwrap();
    assert!(log_of(&store).owes_checkpoint);
    assert_eq!(table.get(1).unwrap(), Some(7_u64.to_le_bytes().to_vec()));
    assert!(!table.delete(ROWS, Durability::Power).unwrap());
    let log = log_of(&store);
    assert_eq!((log.owes_checkpoint, log.checkpoints), (false, 1));
}

/// A killed process whose last writes were durable leaves a complete log, and no checkpoint to wait for.
#[test]
fn nothing_is_owed_if_the_log_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Store::open_with(directory.path(), options(CheckpointOptions::OFF)).unwrap();
    let rows = TableOptions::new(KeySpec::U64, ValueSpec::U64);
    for round in 0..3 {
        let store = open();
        assert!(!store.report().owes_checkpoint, "round {round}: {:?}", store.report());
        let table = store.table_or_create("rows", rows).unwrap();
        match round {
            // Only `Power`.
            0 => drop(table.put(1, 1_u64, Durability::Power).unwrap()),
            // The `Process` writes are flushed; or a commit follows them.
            1 => {
                table.put(2, 2_u64, Durability::Process).unwrap();
                store.flush().unwrap();
            }
            _ => {
                table.put(3, 3_u64, Durability::Process).unwrap();
                table.put(4, 4_u64, Durability::Power).unwrap();
            }
        }
    }
    let store = open();
    assert_eq!((store.report().origin, store.report().owes_checkpoint), (Origin::Reattached, false));
    let table = store.table("rows").unwrap();
    table.put(5, 5_u64, Durability::Power).unwrap();
    assert_eq!(log_of(&store).checkpoints, 0, "it waited for none");
    table.put(6, 6_u64, Durability::Process).unwrap();
    drop(table);
    drop(store);
    let store = open();
    assert!(store.report().owes_checkpoint, "the log lacks the last write");
    assert_eq!(store.table("rows").unwrap().len(), 6);
}
