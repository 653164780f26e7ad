//! The command line of Warpkeep: a demonstration, tables and their items, a look into stores, checks, repair and
//! benchmarks.

mod bar;
mod cell;
mod commands;
mod confirm;
mod elements;
mod failure;
mod files;
mod interrupt;
mod output;
mod progress;
mod store;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;

/// The exit codes in `--help`, as [`failure::Failure::code`] returns them.
const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  an error; the message says what to do next
  2  the command line was not understood
  3  a check found damage
  4  a key that was asked for is not there
  5  a repair could not put everything right
  130, 143  interrupted by Ctrl-C, or by SIGTERM

With --json a failure is one object on standard output: `error`, the message; `kind`, one word such as no-table,
in-use, missing-key, damage or usage; `advice`, what to do next; `exit_code`. People find the message on standard error.";

/// Warpkeep: a persistent, crash-safe key-value engine.
#[derive(Debug, Parser)]
#[command(name = "warpkeep", version, about, after_help = EXIT_CODES, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    let json = cli.command.wants_json();
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(json);
            ExitCode::from(failure.code())
        }
    }
}

/// Help and versions are answers; everything else is an invalid command line, reported as JSON too if requested.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !json {
        error.exit();
    }
    // Without the usage, which is for people.
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first);
    let failure = failure::Failure::Usage(format!("{message}; `warpkeep help` shows what there is"));
    failure.report(true);
    ExitCode::from(failure.code())
}
