//! A whole store: cells in an image, a log behind them, both durability levels.
//!
//! Operations are numbered. The surviving state must be that after some prefix of them, and long enough: after the
//! death of a process everything acknowledged, after a power cut everything acknowledged with `Power`.

use warpkeep::Durability;
use warpkeep::engine::{Cells, Edit, Keeper, LogPlace, open};
use warpkeep_crashlab::{
    Crash, Exploration, Explorer, Gate, LabDisk, MemoryModel, Recorder, Reopen, Trace, explores_fully,
    mutation_gate_of,
};
use warpkeep_image::HeapOptions;
use warpkeep_log::LogOptions;

use crate::Dropped;
use crate::lab_place::LabPlace;

const CELLS: u64 = 8;
const CHUNKS: u64 = 5;
const MAX_CHUNKS: u64 = 10;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Values of this length into these cells, in one batch.
    Put(Durability, &'static [u64], usize),
    Delete(Durability, u64),
    Checkpoint,
    Flush,
    /// Close and open again.
    Reopen,
}
use Durability::{Power, Process};
use Op::{Checkpoint, Delete, Flush, Put};

const OPS: [Op; 13] = [
    Put(Process, &[0], 20),
    Put(Power, &[1, 2], 100),
    Delete(Process, 1),
    Put(Process, &[0], 300),
    Checkpoint,
    Put(Power, &[0, 3], 40),
    Delete(Power, 2),
    Op::Reopen,
    Put(Process, &[4], 10),
    Flush,
    Put(Process, &[0], 10),
    Put(Power, &[5, 0, 6], 10),
    Delete(Process, 5),
];

/// The work after every recovery.
const AFTERWARDS: [Op; 4] =
    [Put(Process, &[7], 10), Delete(Process, 0), Put(Power, &[3, 6], 10), Put(Process, &[3], 10)];

/// Marks: operation `n` of OPS acknowledged: `n`; recovered with the first `n` operations in force:
/// `RECOVERED + n`; operation `n` of AFTERWARDS acknowledged: `AFTER + n`.
const RECOVERED: u64 = 1000;
const AFTER: u64 = 2000;

type Store = Keeper<Recorder, Cells<Recorder>>;

fn value(stamp: u64, len: usize) -> Vec<u8> {
    let mut value = stamp.to_le_bytes().repeat(len.div_ceil(8));
    value.truncate(len.max(8));
    value
}

fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, background: false, fill_ahead_bytes: 0, ..LogOptions::default() }
}

fn open_store(place: &LabPlace, disk: &LabDisk) -> warpkeep::Result<Store> {
    let log = LogPlace::new(disk.clone(), options());
    let heap = HeapOptions::default();
    open::<_, Cells<_>>(place, Some(log), heap, &CELLS).map(|(store, _)| store)
}

/// `stamp` identifies values: the number of the operation, or AFTER and the number.
fn take(store: &Store, op: Op, stamp: u64) -> warpkeep::Result<()> {
    match op {
        Put(durability, cells, len) => {
            let value = value(stamp, len);
            let edits: Vec<Edit<'_>> = cells.iter().map(|&cell| (cell, Some(&value[..]))).collect();
            store.edit(&edits, durability)
        }
        Delete(durability, cell) => store.delete(cell, durability),
        Checkpoint => store.checkpoint().map(|_| ()),
        Flush => store.flush(),
        Op::Reopen => unreachable!("done by the scenario"),
    }
}

fn scenario(trace: &Trace, persistent: bool) {
    let place = LabPlace::new(trace, CHUNKS, MAX_CHUNKS, persistent);
    let disk = LabDisk::new(trace);
    let mut store = open_store(&place, &disk).unwrap();
    for (number, &op) in OPS.iter().enumerate() {
        trace.as_thread(number as u32 % 2, || match op {
            Op::Reopen => {}
            op => take(&store, op, number as u64).unwrap(),
        });
        if let Op::Reopen = op {
            store.close().unwrap();
            let place =
                LabPlace { trace: trace.clone(), memory: place.memory.clone(), present: true, persistent };
            store = open_store(&place, &disk).unwrap();
        }
        trace.ack(number as u64);
    }
}

type State = [Option<u64>; CELLS as usize];

fn apply(state: &mut State, op: Op, stamp: u64) {
    match op {
        Put(_, cells, _) => cells.iter().for_each(|&cell| state[cell as usize] = Some(stamp)),
        Delete(_, cell) => state[cell as usize] = None,
        Checkpoint | Flush | Op::Reopen => {}
    }
}

/// The states after each prefix of the history, the longest last, and how long the prefix must be.
struct History {
    states: Vec<State>,
    /// Prefixes of this length and more are right.
    least: usize,
    /// Operations of OPS in it; the rest are of AFTERWARDS.
    ops: usize,
}

/// Whether an operation must survive a power cut: those acknowledged with `Power`, and those that make everything before them durable.
fn survives_power(op: Op) -> bool {
    matches!(op, Put(Power, ..) | Delete(Power, _) | Flush | Op::Reopen)
}

fn history(reopen: &Reopen<'_>, persistent: bool) -> History {
    let acked = reopen.acked();
    let done = acked.iter().filter(|&&tag| tag < RECOVERED).count();
    let recovered =
        acked.iter().rev().find(|&&tag| (RECOVERED..AFTER).contains(&tag)).map(|tag| tag - RECOVERED);
    let mut list: Vec<(Op, u64)> = OPS.iter().copied().zip(0..).collect();
    let mut acknowledged = done;
    match recovered {
        // The state that a recovery found is history; it continues with AFTERWARDS.
        Some(count) => {
            list.truncate(count as usize);
            let after = acked.iter().filter(|&&tag| (AFTER..AFTER + 100).contains(&tag)).count();
            acknowledged = list.len() + after;
            list.extend(AFTERWARDS.iter().copied().zip(AFTER..));
        }
        None => list.truncate((done + 1).min(OPS.len())),
    }
    let ops = recovered.map_or(list.len(), |count| count as usize);
    list.truncate(acknowledged + 1);
    // On a persistent medium every acknowledged write is durable in the image itself.
    let least = match reopen.power_lost() && !persistent {
        false => acknowledged,
        true => list[..acknowledged.min(list.len())]
            .iter()
            .rposition(|&(op, _)| survives_power(op))
            .map_or(0, |at| at + 1),
    };
    // A crashed recovery may have come back with less than an earlier one found; it had promised nothing.
    let mut states = vec![State::default()];
    for &(op, stamp) in &list {
        let mut next = states[states.len() - 1];
        apply(&mut next, op, stamp);
        states.push(next);
    }
    History { states, least, ops }
}

fn read(store: &Store) -> Result<State, String> {
    let mut state = State::default();
    for cell in 0..CELLS {
        let Some(found) = store.get(cell).map_err(|error| error.to_string())? else { continue };
        let stamp = found.get(..8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        let stamp = stamp.ok_or_else(|| format!("cell {cell} holds {} bytes", found.len()))?;
        if found != value(stamp, found.len()) {
            return Err(format!("cell {cell} holds a mixture: {found:?}"));
        }
        state[cell as usize] = Some(stamp);
    }
    Ok(state)
}

fn check(reopen: &Reopen<'_>, persistent: bool) -> Result<(), String> {
    let place = LabPlace::reopened(reopen, CHUNKS, MAX_CHUNKS, persistent);
    let store = open_store(&place, &reopen.disk()).map_err(|error| error.to_string())?;
    let state = read(&store)?;
    let history = history(reopen, persistent);
    let Some(count) = (history.least..history.states.len()).find(|&count| history.states[count] == state)
    else {
        return Err(format!(
            "{state:?} is not the state after {} to {} operations: {:?}",
            history.least,
            history.states.len() - 1,
            &history.states[history.least..]
        ));
    };
    let usage = store.heap().usage();
    let live = state.iter().flatten().count() as u64;
    if usage.used_blocks() != live || usage.extents != 1 {
        return Err(format!("{live} records are live, but in use are {usage}"));
    }
    if count > history.ops || reopen.acked().iter().any(|&tag| (RECOVERED..AFTER).contains(&tag)) {
        // The second recovery: the history is that of the first.
        return Ok(());
    }
    reopen.ack(RECOVERED + count as u64);
    for (number, &op) in AFTERWARDS.iter().enumerate() {
        let stamp = AFTER + number as u64;
        reopen
            .trace()
            .as_thread(number as u32 % 2, || take(&store, op, stamp))
            .map_err(|error| error.to_string())?;
        reopen.ack(stamp);
    }
    Ok(())
}

fn explorer(persistent: bool) -> Explorer {
    let crashes: &[Crash] = match persistent {
        false => &[Crash::Process, Crash::PowerVolatile],
        true => &[
            Crash::Process,
            Crash::PowerPersistent(MemoryModel::X86Lines),
            Crash::PowerPersistent(MemoryModel::Words),
        ],
    };
    let (per_boundary, per_recovery) = if explores_fully() { (80, 40) } else { (20, 20) };
    Explorer::new(crashes.iter().copied()).per_boundary(per_boundary).per_recovery(per_recovery)
}

fn explore(persistent: bool) -> Exploration {
    let trace = Trace::new();
    scenario(&trace, persistent);
    explorer(persistent).explore(&trace, |reopen| check(reopen, persistent))
}

fn gate(persistent: bool, drop: &Dropped) -> Gate {
    let explorer = explorer(persistent).per_boundary(if explores_fully() { 24 } else { 12 }).per_recovery(40);
    mutation_gate_of(
        &drop.sampled(explorer),
        |site| drop.has(site),
        |trace| scenario(trace, persistent),
        |(), reopen| check(reopen, persistent),
    )
}

pub(crate) fn explore_volatile() -> Exploration {
    explore(false)
}

pub(crate) fn explore_persistent() -> Exploration {
    explore(true)
}

pub(crate) fn gate_volatile(drop: &Dropped) -> Gate {
    gate(false, drop)
}

pub(crate) fn gate_persistent(drop: &Dropped) -> Gate {
    gate(true, drop)
}
