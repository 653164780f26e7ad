//! The invariants after a crash.

use warpkeep::{Durability, Origin, Status, Store};
use warpkeep_crashlab::{Recorder, Reopen};

use crate::form::Form;
use crate::history::{AFTER, History, RECOVERED};
use crate::rig::Rig;
use crate::script::{AFTERWARDS, Name};
use crate::state::{Items, KEYS, State};

/// Opens the state after a crash, compares it with the possible states, and continues to work.
pub(crate) fn check(rig: &Rig, reopen: &Reopen<'_>) -> Result<(), String> {
    let store = rig.recover(reopen).map_err(|error| error.to_string())?;
    let (state, newest) = read(rig, &store)?;
    let history = History::new(rig.script, reopen.acked());
    // On a persistent medium every acknowledged write is durable in the image itself.
    let power_lost = reopen.power_lost() && !rig.persistent;
    let Some(number) = history.find(&state, power_lost) else {
        return Err(format!("{state:?} instead of {}", history.describe(power_lost)));
    };
    check_space(rig, &store, &state)?;
    if history.recovered {
        // The second recovery: the history is that of the first.
        return Ok(());
    }
    reopen.ack(RECOVERED + number as u64);
    for (number, &step) in AFTERWARDS.iter().enumerate() {
        let number = AFTER + number as u64;
        let drawn =
            rig.take(reopen.trace(), &store, step, number).map_err(|error| format!("{step:?}: {error}"))?;
        if drawn.is_some_and(|version| version <= newest) {
            return Err(format!("{step:?} drew version {drawn:?}, and {newest} had been drawn"));
        }
        reopen.ack(number);
    }
    let wanted = History::new(rig.script, &[reopen.acked(), &done(number)].concat());
    let (state, _) = read(rig, &store)?;
    match wanted.find(&state, false) {
        Some(_) => Ok(()),
        None => Err(format!("work after recovery: {state:?} instead of {}", wanted.describe(false))),
    }
}

/// The marks of a recovery that went well.
fn done(number: usize) -> Vec<u64> {
    let after = (0..AFTERWARDS.len() as u64).map(|number| AFTER + number);
    std::iter::once(RECOVERED + number as u64).chain(after).collect()
}

/// The contents of the store, and its largest version.
fn read(rig: &Rig, store: &Store<Recorder>) -> Result<(State, u64), String> {
    let mut state = State::new();
    let mut newest = 0;
    for text in store.tables() {
        let name = Name::ALL.into_iter().find(|name| name.text() == text);
        let name = name.ok_or_else(|| format!("a table '{text}' was never created"))?;
        let (items, version) =
            read_table(rig, store, name).map_err(|error| format!("table '{text}': {error}"))?;
        state.insert(name, items);
        newest = newest.max(version);
    }
    Ok((state, newest))
}

/// Reads a table in both possible ways.
fn read_table(rig: &Rig, store: &Store<Recorder>, name: Name) -> Result<(Items, u64), String> {
    let text = |error: warpkeep::Error| error.to_string();
    let table = store.table(name.text()).map_err(text)?;
    let mut gets = table.batch();
    for number in 0..KEYS {
        gets.get(&rig.key(name, number)[..]).map_err(|error| error.to_string())?;
    }
    let results = table.run(&gets, Durability::Process).map_err(text)?;
    let mut items = Items::new();
    for (number, outcome) in (0..KEYS).zip(results.iter()) {
        let single = table.get(&rig.key(name, number)[..]).map_err(text)?;
        if single.as_deref() != outcome.value {
            return Err(format!("key {number} is {single:?} alone and {outcome:?} in a batch"));
        }
        match (outcome.status, single) {
            (Status::NotFound, None) => {}
            (Status::Ok, Some(value)) => drop(items.insert(number, value)),
            (status, _) => return Err(format!("key {number} is answered: {status}")),
        }
    }
    if table.len() != items.len() as u64 {
        return Err(format!("{} items are counted, {} are there", table.len(), items.len()));
    }
    Ok((items, results.versions().iter().copied().max().unwrap_or(0)))
}

/// Whether only the needed space is in use. After a re-attachment the needed space is known: other blocks written
/// on the way may not have been freed yet.
fn check_space(rig: &Rig, store: &Store<Recorder>, state: &State) -> Result<(), String> {
    let report = store.report();
    if report.origin != Origin::Reattached || report.finished_commits > 0 {
        return Ok(());
    }
    // The needed space: the catalogue; a header of each table and its levels, or its directory and its one shard; a
    // record for each item that does not lie in its slot.
    let in_slots = |name: &Name| *name != Name::Words && rig.form != Form::Packed;
    let records = state.iter().filter(|(name, _)| !in_slots(name)).map(|(_, items)| items.len() as u64);
    let of_table = if rig.form == Form::TurboHash { 3 } else { 2 };
    let needed = 1 + of_table * state.len() as u64 + records.sum::<u64>();
    let usage = store.usage();
    match usage.used_blocks() == needed {
        true => Ok(()),
        false => Err(format!("{needed} blocks are needed, but in use are {usage}")),
    }
}
