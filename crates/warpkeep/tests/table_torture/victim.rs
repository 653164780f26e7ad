//! The work of the process that is killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use warpkeep::{Durability, Op, Status, Store, StoreOptions, Table};
use warpkeep_crashlab::torture::role;
use warpkeep_image::MIN_CHUNK;

use crate::kind::{KEYS, TABLES, WRITERS};
use crate::operation::{Call, Operation};
use crate::state::{Items, State, encode};
use crate::tell::Tell;

/// The store's directory.
pub(crate) const DIRECTORY: &str = "WARPKEEP_TEST_DIRECTORY";
/// Where its image lies.
pub(crate) const IMAGE: &str = "WARPKEEP_TEST_IMAGE";
/// The number of each thread's next operation.
pub(crate) const NEXT: &str = "WARPKEEP_TEST_NEXT";
/// Where to write the found contents.
pub(crate) const FOUND: &str = "WARPKEEP_TEST_FOUND";
pub(crate) const SEED: &str = "WARPKEEP_TEST_SEED";

/// Opens a store that starts small and grows by as little as it can, so that it grows often.
pub(crate) fn open(directory: &Path, image: &Path) -> warpkeep::Result<Store> {
    let image = Some(image.to_path_buf());
    let mut options = StoreOptions { image, abandon_image: true, ..StoreOptions::default() };
    (options.create.len, options.create.chunk_size) = (8 * MIN_CHUNK, MIN_CHUNK);
    for map in [&mut options.create.map, &mut options.open.map] {
        // More would cost a word a chunk in every opening.
        map.max_len = Some(256 << 20);
    }
    options.heap.growth_divisor = u64::MAX;
    (options.log.segment_bytes, options.log.fill_ahead_bytes) = (256 << 10, 16 << 10);
    Store::open_with(directory, options)
}

/// Plays the role this process was given, if any.
pub(crate) fn play() {
    let Some(role) = role() else { return };
    let told = |name: &str| std::env::var(name).expect("told by the test");
    let (directory, image) = (PathBuf::from(told(DIRECTORY)), PathBuf::from(told(IMAGE)));
    Tell::Opening.say();
    let store = open(&directory, &image).expect("it opens");
    Tell::Opened.say();
    match role.as_str() {
        "work" => {
            let seed = told(SEED).parse().expect("a number");
            let next: Vec<u64> = told(NEXT).split(',').map(|text| text.parse().expect("a number")).collect();
            work(&store, seed, &next);
        }
        // Waits to be killed, which mostly happens before it has it open.
        "open" => std::thread::sleep(Duration::from_secs(30)),
        "look" => {
            let found = content(&store).expect("it can be read");
            std::fs::write(told(FOUND), encode(&found)).expect("written");
            // Ends without clean-up, like the others.
            std::process::exit(0);
        }
        role => panic!("no role {role}"),
    }
}

/// Never ends by itself, unless a thread fails, and then at once: the other must not continue without it.
fn work(store: &Store, seed: u64, next: &[u64]) {
    std::thread::scope(|scope| {
        for (writer, &first) in next.iter().enumerate().take(WRITERS) {
            scope.spawn(move || {
                for number in first.. {
                    let operation = Operation::number(seed, writer, number);
                    Tell::Begins(writer, number).say();
                    if let Err(error) = take(store, &operation) {
                        eprintln!("thread {writer}, operation {number}: {error}: {operation:?}");
                        std::process::exit(1);
                    }
                    Tell::Done(writer, number).say();
                }
            });
        }
    });
}

fn take(store: &Store, operation: &Operation) -> warpkeep::Result<()> {
    match operation {
        Operation::Checkpoint => store.checkpoint(),
        Operation::Flush => store.flush(),
        Operation::Toggle(table) => {
            let kind = &TABLES[*table];
            match store.tables().iter().any(|name| name == kind.name) {
                true => store.drop_table(kind.name),
                false => store.create_table(kind.name, kind.options()).map(|_| ()),
            }
        }
        Operation::Batch { table, calls, durability } => {
            if !store.tables().iter().any(|name| name == TABLES[*table].name) {
                return Ok(());
            }
            run(&store.table(TABLES[*table].name)?, *table, calls, *durability)
        }
    }
}

fn run(table: &Table, number: usize, calls: &[Call], durability: Durability) -> warpkeep::Result<()> {
    let kind = &TABLES[number];
    let mut versions = table.batch();
    for call in calls {
        versions.get(&kind.key(call.key)[..])?;
    }
    let versions = table.run(&versions, Durability::Process)?;
    let mut batch = table.batch();
    for (call, &version) in calls.iter().zip(versions.versions()) {
        let argument = if call.op == Op::CompareAndSwap { version } else { call.argument };
        batch.push(call.op, &kind.key(call.key), &call.value, argument)?;
    }
    let results = table.run(&batch, durability)?;
    let failed = results.statuses().iter().zip(calls).find(|(status, call)| {
        let refused = matches!(status, Status::TooLarge | Status::WrongType);
        status.is_error() && !(refused && matches!(call.op, Op::Merge | Op::FetchAdd))
    });
    match failed {
        None => Ok(()),
        Some((status, call)) => Err(warpkeep::Error::Invalid(format!("{call:?} was answered: {status}"))),
    }
}

/// The contents of a store, read in both possible ways.
pub(crate) fn content(store: &Store) -> Result<State, String> {
    let mut state = State::new();
    for name in store.tables() {
        let number = TABLES.iter().position(|kind| kind.name == name);
        let number = number.ok_or_else(|| format!("a table '{name}' was never created"))?;
        let items = items(&store.table(&name).map_err(|error| error.to_string())?, number);
        state.insert(number, items.map_err(|error| format!("table '{name}': {error}"))?);
    }
    Ok(state)
}

fn items(table: &Table, number: usize) -> Result<Items, String> {
    let text = |error: warpkeep::Error| error.to_string();
    let kind = &TABLES[number];
    let mut gets = table.batch();
    for key in 0..KEYS {
        gets.get(&kind.key(key)[..]).map_err(|error| error.to_string())?;
    }
    let results = table.run(&gets, Durability::Process).map_err(text)?;
    let mut items = Items::new();
    for (key, outcome) in (0..KEYS).zip(results.iter()) {
        let single = table.get(&kind.key(key)[..]).map_err(text)?;
        if single.as_deref() != outcome.value {
            return Err(format!("key {key} is one thing alone and another in a batch"));
        }
        match (outcome.status, single) {
            (Status::NotFound, None) => {}
            (Status::Ok, Some(value)) => drop(items.insert(key, value)),
            (status, _) => return Err(format!("key {key} is answered: {status}")),
        }
    }
    match table.len() == items.len() as u64 {
        true => Ok(items),
        false => Err(format!("{} items are counted, {} are there", table.len(), items.len())),
    }
}
