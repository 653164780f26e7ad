//! The cost of background checkpoints for writers: updates of a table with and without them, alternately.
//!
//! `cargo run --release -p warpkeep --example checkpoint_cost -- ROWS SECONDS ROUNDS`
//!
//! It prints updates a second by the clock, and the processor's time for an update, which a busy machine disturbs less.

use std::error::Error;
use std::time::{Duration, Instant};

use warpkeep::{CheckpointOptions, Durability, Store, StoreOptions, TableOptions};

const ROW: usize = 100;
const BATCH: u64 = 64;

struct Measured {
    updates_a_second: f64,
    processor_ns: f64,
    checkpoints: u64,
    log_mib: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let number = |index: usize, usual| numbers.get(index).copied().unwrap_or(usual);
    let (rows, seconds, rounds) = (number(0, 1000), number(1, 5), number(2, 3));
    println!("{rows} rows of {ROW} bytes, {seconds} s a round, batches of {BATCH} with Process");
    for round in 0..rounds {
        for (name, checkpoints) in [("off", CheckpointOptions::OFF), ("on", CheckpointOptions::default())] {
            let measured = measure(rows, Duration::from_secs(seconds), checkpoints)?;
            println!(
                "round {round} {name:>3}: {:>9.0} updates/s, {:>6.0} ns of processor time each, {:>3} checkpoints, {:>5} MiB of log",
                measured.updates_a_second, measured.processor_ns, measured.checkpoints, measured.log_mib
            );
        }
    }
    Ok(())
}

fn measure(rows: u64, time: Duration, checkpoints: CheckpointOptions) -> Result<Measured, Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let store = Store::open_with(home.path(), StoreOptions { checkpoints, ..StoreOptions::default() })?;
    let table = store.create_table("rows", TableOptions::typed::<u64, [u8; ROW]>()?.capacity(rows))?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut update = |first: Option<u64>| -> Result<(), warpkeep::Error> {
        let mut batch = table.batch();
        for offset in 0..BATCH {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let row = first.map_or(state, |first| first + offset) % rows;
            batch.put(row, &[state as u8; ROW])?;
        }
        table.run(&batch, Durability::Process).map(drop)
    };
    for first in (0..rows).step_by(BATCH as usize) {
        update(Some(first))?;
    }
    store.checkpoint()?;
    let before = store.status().log.map_or(0, |log| log.checkpoints);
    let (begun, processor, mut updates) = (Instant::now(), processor_time()?, 0);
    while begun.elapsed() < time {
        update(None)?;
        updates += BATCH;
    }
    let (took, processor) = (begun.elapsed(), processor_time()? - processor);
    let log = store.status().log;
    Ok(Measured {
        updates_a_second: updates as f64 / took.as_secs_f64(),
        processor_ns: processor.as_nanos() as f64 / updates as f64,
        checkpoints: log.as_ref().map_or(0, |log| log.checkpoints) - before,
        log_mib: log.map_or(0, |log| log.since_checkpoint) >> 20,
    })
}

/// The processor time of all threads of this process, in ticks of a hundredth of a second.
fn processor_time() -> Result<Duration, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may have blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}
