//! Confirmation before data is discarded.

use std::io::{IsTerminal, Write};

use crate::failure::Failure;

/// Asks on the terminal unless `yes` was given; without a terminal it refuses.
pub(crate) fn confirm(yes: bool, what: &str, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("this throws {what} away; give --yes to agree")));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::io("read the answer"))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::error("nothing was changed")),
    }
}
