//! A command's output: text for people, or JSON for programs.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write};

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;

/// How to give it out.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Format {
    /// Print JSON for programs instead of text for people.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Format {
    /// Prints a result in the requested form.
    pub(crate) fn show(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.json {
            true => print(&to_json(value)?),
            false => print(&text()),
        }
    }

    /// Prints a line now, if it is for people.
    pub(crate) fn say(self, line: impl AsRef<str>) -> Result<(), Failure> {
        if self.json { Ok(()) } else { print(&format!("{}\n", line.as_ref())) }
    }
}

fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|error| Failure::error(format!("the result is not JSON: {error}")))
}

/// Writes to standard output. A reader that has seen enough and left is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same for bytes that need not be text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("write to standard output")(error))
        }
        _ => Ok(()),
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Seconds since 1970 as a date.
pub(crate) fn date(seconds: u64) -> String {
    // Times beyond humantime's range are not real dates.
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.min(250_000_000_000));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A number with its noun: `1 table`, `2 tables`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", count(number))
}

/// A number in groups of three digits.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(hex(&[0, 255]), "00ff");
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert!(date(u64::MAX).ends_with('Z'));
    }
}
