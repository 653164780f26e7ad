//! Shared by the store's tests: its place, its expected contents, and ways to break it.

mod files;
mod home;
mod model;
mod mounted;

use std::io::Write as _;

pub(crate) use files::{copy_directory, files_in, flip, reseal, restore};
pub(crate) use home::{Home, Store};
pub(crate) use model::{
    Model, assert_holds, assert_no_leak, check_holds, check_no_leak, content, value_of, versions,
};
pub(crate) use mounted::Mounted;

/// Prints a line past the test harness, which would hide it.
pub(crate) fn say(line: &str) {
    // An error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Checks that an error ends with the next step.
pub(crate) fn assert_remedy(error: &impl std::fmt::Display, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().any(|word| text.contains(word)), "none of {words:?} in: {text}");
}
