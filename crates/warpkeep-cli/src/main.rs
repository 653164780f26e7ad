//! The command line of Warpkeep: a demonstration, tables and their items, a look into stores, checks, repair and
//! benchmarks.

mod bar;
mod cell;
mod commands;
mod confirm;
mod failure;
mod files;
mod interrupt;
mod output;
mod progress;
mod store;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;

/// What `--help` says of exit codes, and what [`failure::Failure::code`] gives.
const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  an error; the message says what to do next
  2  the command line was not understood
  3  a check found damage
  5  a repair could not put everything right";

/// Warpkeep: a persistent, crash-safe key-value engine.
#[derive(Debug, Parser)]
#[command(name = "warpkeep", version, about, after_help = EXIT_CODES, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.command.wants_json();
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}
