//! RESP2 and RESP3, the protocols of Redis clients.

mod about;
mod arguments;
mod bitmap;
mod commands;
mod describe;
mod encode;
mod execute;
mod inline;
mod multi;
mod numbers;
mod pairs;
mod parse;
mod run;
mod table;

pub(crate) use encode::{Tally, bulk, encode, error, null};
pub(crate) use execute::execute;
pub(crate) use parse::parse;
pub(crate) use run::{run_alone, run_transaction};

/// Whether a word is the name of a command, in capitals or not.
pub(crate) fn is_command(word: &[u8]) -> bool {
    table::find(word).is_some()
}
