//! One file a command.

mod backup;
mod bench;
mod checkpoint;
mod compact;
mod completions;
mod create;
mod delete;
mod demo;
mod drop;
mod dump;
mod get;
mod info;
mod lasting;
mod list;
mod load;
mod put;
mod rebuild;
mod repair;
mod repair_items;
mod repair_manifest;
mod restore;
mod scan;
mod serve;
mod served_backup;
mod stat;
mod table_stats;
mod verify;

use clap::Subcommand;

use crate::EXIT_CODES;
use crate::failure::Failure;
use crate::store::DEVICES;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the engine at work: kills writers, cuts the power, and checks that nothing promised is lost.
    #[command(after_help = EXIT_CODES)]
    Demo(demo::Demo),
    /// Creates a table, and the store if there is none.
    #[command(after_help = EXIT_CODES)]
    Create(create::Create),
    /// Lists the tables of a store.
    #[command(after_help = EXIT_CODES)]
    List(list::List),
    /// Throws a table away.
    #[command(after_help = EXIT_CODES)]
    Drop(drop::Drop),
    /// Stores a value under a key.
    #[command(after_help = EXIT_CODES)]
    Put(put::Put),
    /// Prints the values of keys.
    #[command(after_help = EXIT_CODES)]
    Get(get::Get),
    /// Removes keys.
    #[command(after_help = EXIT_CODES)]
    Delete(delete::Delete),
    /// Prints the items of a table, in no particular order.
    #[command(after_help = EXIT_CODES)]
    Scan(scan::Scan),
    /// Loads a CSV file, JSON lines or a NumPy array into a table.
    #[command(after_help = EXIT_CODES)]
    Load(load::Load),
    /// Writes a table to a CSV file, JSON lines or a NumPy array.
    #[command(after_help = EXIT_CODES)]
    Dump(dump::Dump),
    /// Reports what a store at a path would survive, and what this machine allows.
    #[command(after_help = EXIT_CODES, after_long_help = format!("{DEVICES}\n\n{EXIT_CODES}"))]
    Info(info::Info),
    /// Shows how full a store and its tables are, and what it survives.
    #[command(after_help = EXIT_CODES)]
    Stat(stat::Stat),
    /// Checks every record, frame and block of a store without changing it.
    #[command(after_help = EXIT_CODES)]
    Verify(verify::Verify),
    /// Makes a backup of a store in a directory of its own, and reads it back.
    #[command(after_help = EXIT_CODES)]
    Backup(backup::Backup),
    /// Makes a store out of a backup.
    #[command(after_help = EXIT_CODES)]
    Restore(restore::Restore),
    /// Writes all items of a store to a new checkpoint and trims its log.
    #[command(after_help = EXIT_CODES)]
    Checkpoint(checkpoint::Checkpoint),
    /// Makes tables smaller that have few items left, and brings their records together.
    #[command(after_help = EXIT_CODES)]
    Compact(compact::Compact),
    /// Throws the image of a store away and rebuilds it from its log.
    #[command(after_help = EXIT_CODES)]
    Rebuild(rebuild::Rebuild),
    /// Repairs damage in a store, where that is possible.
    #[command(after_help = EXIT_CODES)]
    Repair(repair::Repair),
    /// Serves a store to memcached and Redis clients; a missing store is created.
    #[command(after_help = EXIT_CODES)]
    Serve(serve::Serve),
    /// Measures.
    #[command(after_help = EXIT_CODES)]
    Bench(bench::Bench),
    /// Prints completions for a shell.
    Completions(completions::Completions),
    /// The process that the demonstration kills.
    #[command(hide = true)]
    DemoWriter(demo::DemoWriter),
}

impl Command {
    /// Whether errors should be printed as JSON, too.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Demo(demo) => demo.format.json,
            Command::Create(create) => create.format.json,
            Command::List(list) => list.format.json,
            Command::Drop(drop) => drop.format.json,
            Command::Put(put) => put.format.json,
            Command::Get(get) => get.output.json,
            Command::Delete(delete) => delete.format.json,
            Command::Scan(scan) => scan.output.json,
            Command::Load(load) => load.output.json,
            Command::Dump(dump) => dump.output.json,
            Command::Info(info) => info.format.json,
            Command::Stat(stat) => stat.format.json,
            Command::Verify(verify) => verify.format.json,
            Command::Backup(backup) => backup.format.json,
            Command::Restore(restore) => restore.format.json,
            Command::Checkpoint(checkpoint) => checkpoint.format.json,
            Command::Compact(compact) => compact.format.json,
            Command::Rebuild(rebuild) => rebuild.format.json,
            Command::Repair(repair) => repair.format.json,
            Command::Bench(bench) => bench.wants_json(),
            Command::Serve(_) | Command::Completions(_) | Command::DemoWriter(_) => false,
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Command::Demo(demo) => demo.run(),
            Command::Create(create) => create.run(),
            Command::List(list) => list.run(),
            Command::Drop(drop) => drop.run(),
            Command::Put(put) => put.run(),
            Command::Get(get) => get.run(),
            Command::Delete(delete) => delete.run(),
            Command::Scan(scan) => scan.run(),
            Command::Load(load) => load.run(),
            Command::Dump(dump) => dump.run(),
            Command::Info(info) => info.run(),
            Command::Stat(stat) => stat.run(),
            Command::Verify(verify) => verify.run(),
            Command::Backup(backup) => backup.run(),
            Command::Restore(restore) => restore.run(),
            Command::Checkpoint(checkpoint) => checkpoint.run(),
            Command::Compact(compact) => compact.run(),
            Command::Rebuild(rebuild) => rebuild.run(),
            Command::Repair(repair) => repair.run(),
            Command::Serve(serve) => serve.run(),
            Command::Bench(bench) => bench.run(),
            Command::Completions(completions) => completions.run(),
            Command::DemoWriter(writer) => writer.run(),
        }
    }
}

/// An error if an operation was refused, found no room or failed.
fn check_statuses(results: &warpkeep::Results) -> Result<(), Failure> {
    match results.first_error() {
        None => Ok(()),
        Some((_, status)) => Err(Failure::error(format!("{status}; {}", status.remedy()))),
    }
}
