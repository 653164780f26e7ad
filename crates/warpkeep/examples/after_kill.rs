//! How long the first `Power` put takes after a process was killed: `cargo run --release -p warpkeep --example after_kill [ITEMS]`.
//!
//! The program starts itself as a process that writes with `Process` and is killed with SIGKILL, opens the store it
//! left, and puts one item with `Power`: where the store takes no checkpoints by itself, so that the put has to; at
//! once; a second later; and after a process that had flushed its writes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpkeep::{CheckpointOptions, Durability, KeySpec, Store, StoreOptions, TableOptions, ValueSpec};

const VALUE: usize = 64;

fn write(directory: &Path, items: u64, flushes: bool) -> warpkeep::Result<()> {
    let store = Store::open(directory)?;
    let options = TableOptions::new(KeySpec::U64, ValueSpec::fixed(VALUE as u32)?).capacity(items);
    let table = store.table_or_create("rows", options)?;
    let mut batch = table.batch();
    for key in 0..items {
        batch.put(key, &[key as u8; VALUE])?;
        if batch.len() == 4096 || key + 1 == items {
            assert_eq!(table.run(&batch, Durability::Process)?.first_error(), None);
            batch = table.batch();
        }
    }
    if flushes {
        store.flush()?;
    }
    println!("written");
    loop {
        match flushes {
            true => std::thread::sleep(Duration::from_secs(1)),
            false => drop(table.put(0, &[7; VALUE], Durability::Process)?),
        }
    }
}

/// Has a process write, and kills it.
fn leave(directory: &Path, items: u64, flushes: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("--write")
        .arg(directory)
        .arg(items.to_string())
        .arg(flushes.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, directory, items, flushes] = &arguments[..]
        && flag == "--write"
    {
        return Ok(write(Path::new(directory), items.parse()?, flushes.parse()?)?);
    }
    let items = arguments.first().map_or(Ok(1_000_000), |items| items.parse())?;
    let home = tempfile::tempdir()?;
    let cases = [
        ("no checkpoints by itself, at once", false, Duration::ZERO, false),
        ("at once", true, Duration::ZERO, false),
        ("a second later", true, Duration::from_secs(1), false),
        ("at once, all was flushed", true, Duration::ZERO, true),
    ];
    for (number, (what, automatic, pause, flushes)) in cases.into_iter().enumerate() {
        let directory = home.path().join(number.to_string());
        leave(&directory, items, flushes)?;
        let checkpoints = if automatic { CheckpointOptions::default() } else { CheckpointOptions::OFF };
        let begun = Instant::now();
        let store = Store::open_with(&directory, StoreOptions { checkpoints, ..StoreOptions::default() })?;
        let opened = begun.elapsed();
        std::thread::sleep(pause);
        let table = store.table("rows")?;
        let begun = Instant::now();
        table.put(1, &[8; VALUE], Durability::Process)?;
        let process = begun.elapsed();
        let begun = Instant::now();
        table.put(1, &[9; VALUE], Durability::Power)?;
        let first = begun.elapsed();
        let begun = Instant::now();
        table.put(1, &[9; VALUE], Durability::Power)?;
        println!(
            "{items} items, {what}: opened in {opened:.3?}, first Process put {process:.3?}, first Power put {first:.3?}, second {:.3?}",
            begun.elapsed()
        );
        drop(table);
        store.close()?;
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}
