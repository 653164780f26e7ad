//! A store belongs to the process that opened it: children made by `fork` are refused, and harm nothing when they end.
//!
//! In a program of its own: other tests would have running threads when a child is made.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use warpkeep::{
    Durability, Error, KeySpec, Origin, Store, StoreOptions, Table, TableOptions, ValueSpec, verify,
};
use warpkeep_image::{Coherent, CreateOptions, Image, ImageError};
use warpkeep_log::{Log, LogError, LogOptions, OsDisk};

const ROWS: u64 = 1000;
/// A child that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// One test at a time: a child has only the thread that made it, and every lock that other threads held.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a child; 0 in it, its number in the parent.
fn fork() -> libc::pid_t {
    // SAFETY: the C library keeps its own locks consistent. The child uses only memory, the store and its own
    // files, and ends itself.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    child
}

/// Ends a child on the spot, with this code.
fn leave(code: i32) -> ! {
    // SAFETY: ends the process without any clean-up.
    unsafe { libc::_exit(code) }
}

/// Waits for a child and gives its code.
fn wait(child: libc::pid_t) -> i32 {
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: it is our child, and the status has a place.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 => {}
            ended => {
                assert_eq!(ended, child);
                assert!(libc::WIFEXITED(status), "the child ended with status {status:#x}");
                return libc::WEXITSTATUS(status);
            }
        }
        if begun.elapsed() > PATIENCE {
            // SAFETY: it is our child, and not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn value_of(key: u64) -> [u8; 64] {
    [key as u8 | 1; 64]
}

fn open(directory: &Path) -> Store {
    Store::open(directory).unwrap()
}

fn filled(directory: &Path) -> Store {
    let store = open(directory);
    let options = TableOptions::new(KeySpec::U64, ValueSpec::fixed(64).unwrap()).capacity(16);
    let table = store.create_table("rows", options).unwrap();
    for key in 0..ROWS {
        table.put(key, &value_of(key), Durability::Process).unwrap();
    }
    drop(table);
    store
}

fn assert_whole(store: &Store) {
    let table = store.table("rows").unwrap();
    assert_eq!(table.len(), ROWS);
    for key in 0..ROWS {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value_of(key)[..]), "row {key}");
    }
}

/// The store is whole, can be written to and closed, and is as it was left.
fn assert_unharmed(store: Store, directory: &Path) {
    assert_whole(&store);
    assert!(Store::open(directory).is_err(), "the locks are still held");
    let table = store.table("rows").unwrap();
    for key in 0..ROWS {
        table.put(key, &value_of(key), Durability::Process).unwrap();
    }
    table.put(0, &value_of(0), Durability::Power).unwrap();
    drop(table);
    store.close().unwrap();
    let report = verify(directory, &StoreOptions::default()).unwrap();
    assert!(report.sound, "{report:?}");
    let store = open(directory);
    assert_eq!(store.report().origin, Origin::Clean);
    assert_whole(&store);
    store.close().unwrap();
}

/// How many calls are not refused as they should be.
fn not_refused(store: &Store, table: &Table, elsewhere: &Path) -> i32 {
    let refused = |error: Option<Error>| i32::from(!matches!(error, Some(Error::Forked { .. })));
    let (power, process) = (Durability::Power, Durability::Process);
    let mut gets = table.batch();
    gets.get(1).unwrap();
    let options = || TableOptions::new(KeySpec::U64, ValueSpec::U64);
    [
        table.put(1, &[9; 64], process).err(),
        table.put(1, &[9; 64], power).err(),
        table.insert(ROWS, &[9; 64], process).err(),
        table.update(1, &[9; 64], process).err(),
        table.delete(1, process).err(),
        table.compare_and_swap(1, 1, &[9; 64], process).err(),
        table.run(&gets, process).err(),
        table.run(&gets, power).err(),
        table.get(1).err(),
        table.get_versioned(1).err(),
        table.scan(|_| ControlFlow::Continue(())).err(),
        table.grow().err(),
        table.shrink().err(),
        table.maintain().err(),
        table.device_stats().err(),
        store.create_table("another", options()).err(),
        store.drop_table("rows").err(),
        store.table("rows").err(),
        store.typed::<u64, u64>("rows").err(),
        store.flush().err(),
        store.checkpoint().err(),
        store.compact().err(),
        store.backup(elsewhere, &mut |_, _| ()).err(),
    ]
    .into_iter()
    .map(refused)
    .sum()
}

#[test]
fn children_that_write_are_refused() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (home.path().join("store"), home.path().join("backup"));
    let store = filled(&directory);
    let table = store.table("rows").unwrap();
    let children: Vec<libc::pid_t> = (0..2)
        .map(|_| match fork() {
            0 => {
                let mut wrong = not_refused(&store, &table, &elsewhere);
                for key in 0..10 {
                    wrong += i32::from(table.put(key, &[9; 64], Durability::Process).is_ok());
                }
                leave(wrong)
            }
            child => child,
        })
        .collect();
    for child in children {
        assert_eq!(wait(child), 0, "the number of calls that were not refused");
    }
    drop(table);
    assert!(!elsewhere.exists());
    assert_unharmed(store, &directory);
    let message = Error::Forked { pid: 7 }.to_string();
    assert!(message.contains("process 7") && message.contains("after the fork"), "{message}");
}

/// A child that ends as programs do: it drops or closes its store, and deferred work runs.
#[test]
fn children_that_end_harm_nothing() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let (directory, another) = (home.path().join("store"), home.path().join("another"));
    let store = filled(&directory);
    let mut children = 0;
    for round in 0..4 {
        // Records that were replaced are freed later, by any thread that writes.
        let table = store.table("rows").unwrap();
        for key in 0..ROWS {
            table.put(key, &value_of(key), Durability::Process).unwrap();
        }
        let child = match fork() {
            0 => match round {
                0 => std::process::exit(0),
                1 => {
                    drop(table);
                    drop(store);
                    std::process::exit(0)
                }
                2 => {
                    drop(table);
                    let refused = matches!(store.close(), Err(Error::Forked { .. }));
                    std::process::exit(i32::from(!refused))
                }
                // A store of its own, which triggers the deferred work.
                _ => {
                    drop(table);
                    let own = open(&another);
                    let options = TableOptions::new(KeySpec::U64, ValueSpec::U64);
                    let table = own.create_table("rows", options).unwrap();
                    for key in 0..4 * ROWS {
                        table.put(key % 10, key, Durability::Process).unwrap();
                    }
                    drop(table);
                    own.compact().unwrap();
                    own.close().unwrap();
                    drop(store);
                    std::process::exit(0)
                }
            },
            child => child,
        };
        assert_eq!(wait(child), 0, "round {round}");
        drop(table);
        assert_whole(&store);
        children += 1;
    }
    assert_unharmed(store, &directory);
    assert_eq!(open(&another).table("rows").unwrap().len(), 10);
    writeln!(std::io::stdout().lock(), "fork: {children} children that ended, nothing harmed").unwrap();
}

/// Children that are made while other threads write: locks of those threads are held for ever in the child.
#[test]
fn children_of_busy_processes_do_not_hang() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (home.path().join("store"), home.path().join("backup"));
    let store = Arc::new(filled(&directory));
    let stop = AtomicBool::new(false);
    let rounds = 20;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let table = store.table("rows").unwrap();
                let durability = if thread == 0 { Durability::Power } else { Durability::Process };
                for key in (0..ROWS).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    table.put(key, &value_of(key), durability).unwrap();
                }
            });
        }
        for round in 0..rounds {
            let table = store.table("rows").unwrap();
            match fork() {
                0 => {
                    let wrong = not_refused(&store, &table, &elsewhere);
                    drop(table);
                    // The last reference, as far as this process is concerned.
                    // SAFETY: the child never returns from here, so nothing uses it again.
                    drop(unsafe { std::ptr::read(Arc::as_ptr(&store)) });
                    leave(wrong)
                }
                child => assert_eq!(wait(child), 0, "round {round}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let store = Arc::into_inner(store).unwrap();
    assert_unharmed(store, &directory);
    writeln!(std::io::stdout().lock(), "fork: {rounds} children of a busy process, none hung").unwrap();
}

/// Image and log by themselves.
#[test]
fn images_and_logs_are_the_parents() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("image");
    let image = Image::create(&path, Coherent, &CreateOptions::default()).unwrap();
    image.begin(1).unwrap();
    let disk = Arc::new(OsDisk::open(home.path().join("log")).unwrap());
    let log = Log::create(disk, [7; 16], 1, LogOptions::default()).unwrap();
    for round in 0..2 {
        let child = match fork() {
            0 => {
                let mut wrong = 0;
                if round == 1 {
                    wrong += i32::from(!matches!(image.grow(1000), Err(ImageError::Forked { .. })));
                    wrong += i32::from(!matches!(image.close(0), Err(ImageError::Forked { .. })));
                    let taken = log.checkpoint(|_| Ok::<(), LogError>(()));
                    wrong += i32::from(!matches!(taken, Err(LogError::Forked { .. })));
                    wrong += i32::from(!matches!(log.close(), Err(LogError::Forked { .. })));
                } else {
                    drop(image);
                    drop(log);
                }
                std::process::exit(wrong)
            }
            child => child,
        };
        assert_eq!(wait(child), 0, "round {round}");
        assert!(OsDisk::open(home.path().join("log")).is_err(), "the log is still locked");
    }
    log.close().unwrap();
    image.close(0).unwrap();
}
