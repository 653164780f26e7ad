//! memcached's text protocol.

mod binary;
mod dump;
mod encode;
mod execute;
mod line;
mod meta;
mod parse;

pub(crate) use binary::{REQUEST as BINARY, refuse as refuse_binary};
pub(crate) use dump::dump;
pub(crate) use encode::encode;
pub(crate) use execute::execute;
pub(crate) use parse::parse;

/// The longest key of memcached's.
pub(crate) const MAX_KEY: usize = 250;

/// Whether a word is the name of a command.
pub(crate) fn is_command(word: &[u8]) -> bool {
    const NAMES: [&str; 27] = [
        "get",
        "gets",
        "gat",
        "gats",
        "set",
        "add",
        "replace",
        "append",
        "prepend",
        "cas",
        "incr",
        "decr",
        "touch",
        "delete",
        "mg",
        "ms",
        "md",
        "ma",
        "mn",
        "me",
        "version",
        "verbosity",
        "quit",
        "flush_all",
        "stats",
        "shutdown",
        "lru_crawler",
    ];
    NAMES.iter().any(|name| name.as_bytes() == word)
}
