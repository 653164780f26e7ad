//! One file a command.

mod bench;
mod checkpoint;
mod completions;
mod demo;
mod info;
mod rebuild;
mod stat;
mod verify;

use clap::Subcommand;

use crate::EXIT_CODES;
use crate::failure::Failure;

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the engine at work: kills writers, cuts the power, and checks that nothing promised is lost.
    #[command(after_help = EXIT_CODES)]
    Demo(demo::Demo),
    /// Says what a store at a path would survive, and what this machine allows.
    #[command(after_help = EXIT_CODES)]
    Info(info::Info),
    /// Looks into a store without changing it.
    #[command(after_help = EXIT_CODES)]
    Stat(stat::Stat),
    /// Checks every record, frame and block of a store without changing it.
    #[command(after_help = EXIT_CODES)]
    Verify(verify::Verify),
    /// Writes all items of a store to a new checkpoint and trims its log.
    #[command(after_help = EXIT_CODES)]
    Checkpoint(checkpoint::Checkpoint),
    /// Throws the image of a store away and rebuilds it from its log.
    #[command(after_help = EXIT_CODES)]
    Rebuild(rebuild::Rebuild),
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
    /// Whether errors should be told in JSON, too.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Command::Demo(demo) => demo.format.json,
            Command::Info(info) => info.format.json,
            Command::Stat(stat) => stat.format.json,
            Command::Verify(verify) => verify.format.json,
            Command::Checkpoint(checkpoint) => checkpoint.format.json,
            Command::Rebuild(rebuild) => rebuild.format.json,
            Command::Bench(bench) => bench.wants_json(),
            Command::Completions(_) | Command::DemoWriter(_) => false,
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self {
            Command::Demo(demo) => demo.run(),
            Command::Info(info) => info.run(),
            Command::Stat(stat) => stat.run(),
            Command::Verify(verify) => verify.run(),
            Command::Checkpoint(checkpoint) => checkpoint.run(),
            Command::Rebuild(rebuild) => rebuild.run(),
            Command::Bench(bench) => bench.run(),
            Command::Completions(completions) => completions.run(),
            Command::DemoWriter(writer) => writer.run(),
        }
    }
}

/// The domain of images on persistent memory.
#[cfg(target_arch = "x86_64")]
fn write_back() -> Result<warpkeep_image::WriteBack, Failure> {
    let domain = warpkeep_image::WriteBack::detect();
    domain.ok_or_else(|| Failure::error("this processor cannot flush persistent memory; use another machine"))
}
