//! Doing memcached's commands.

use super::line::decimal;
use super::meta;
use crate::batch::{Inputs, Work};
use crate::command::{Command, Verb};
use crate::item::{Head, MAX_VALUE};
use crate::outcome::{Current, Outcome, Place, Version};

/// The answer to a value that would be too large.
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
/// The answer if a value is not a number.
const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// Executes a command on its key's item.
pub(crate) fn execute(work: &mut Work, command: &Command, inputs: &impl Inputs) -> Outcome {
    let current = work.current(command);
    match (command.verb, current) {
        (Verb::McSet, _) | (Verb::McAdd, None) | (Verb::McReplace, Some(_)) => store(work, command),
        (Verb::McAdd | Verb::McReplace | Verb::McAppend | Verb::McPrepend, _) if current.is_none() => {
            Outcome::NotStored
        }
        (Verb::McAdd, Some(_)) => Outcome::NotStored,
        (Verb::McAppend, Some(current)) => join(work, command, current, false, inputs),
        (Verb::McPrepend, Some(current)) => join(work, command, current, true, inputs),
        (Verb::McCas, Some(current)) => match current.version == Version::Stored(command.number) {
            true => store(work, command),
            false => Outcome::Exists,
        },
        (Verb::McIncr | Verb::McDecr, Some(current)) => {
            let increase = command.verb == Verb::McIncr;
            add(work, command, current, (increase, command.number), current.head, inputs)
        }
        (Verb::McTouch, Some(current)) => match touch(work, command, current) {
            Outcome::Stored(_) => Outcome::Touched,
            refused => refused,
        },
        (Verb::McGat, Some(current)) => match touch(work, command, current) {
            Outcome::Stored(number) => Outcome::Hit(Current { version: Version::Coming(number), ..current }),
            refused => refused,
        },
        (Verb::McDelete, Some(_)) => work.delete(command).unwrap_or(Outcome::Deleted),
        (Verb::McGat, None) => Outcome::Miss,
        (verb, _) if verb.is_meta() => meta::execute(work, command, inputs),
        _ => Outcome::Miss,
    }
}

/// Stores the value of a command.
fn store(work: &mut Work, command: &Command) -> Outcome {
    let head = Head { expires: command.lifetime.moment(work.now, 0), marks: 0, flags: command.flags };
    work.put(command, Place::Input(command.connection, command.value), head)
}

/// Gives an item another expiry.
pub(super) fn touch(work: &mut Work, command: &Command, current: Current) -> Outcome {
    let expires = command.lifetime.moment(work.now, current.head.expires);
    work.put(command, current.value, Head { expires, ..current.head })
}

/// Stores the value of a command after, or before, the one that is there.
pub(super) fn join(
    work: &mut Work,
    command: &Command,
    current: Current,
    before: bool,
    inputs: &impl Inputs,
) -> Outcome {
    let more = Place::Input(command.connection, command.value);
    if current.value.len() + more.len() > MAX_VALUE {
        return Outcome::Wrong(TOO_LARGE);
    }
    let (first, second) = if before { (more, current.value) } else { (current.value, more) };
    let joined = work.join(first, second, inputs);
    work.put(command, joined, Head { marks: 0, ..current.head })
}

/// Adds to, or takes from, a value that is a number.
pub(super) fn add(
    work: &mut Work,
    command: &Command,
    current: Current,
    (increase, delta): (bool, u64),
    head: Head,
    inputs: &impl Inputs,
) -> Outcome {
    let stored = work.bytes(current.value, inputs);
    let Some(number) = number(stored) else { return Outcome::Wrong(NO_NUMBER) };
    let number = if increase { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    // As memcached has it: a value does not become shorter, spaces make up the length.
    const SPACES: &[u8] = &[b' '; 32];
    let spaces = stored.len().saturating_sub(digits.len()).min(SPACES.len());
    // A number that has become longer is a new item, which is not stale.
    let marks = if digits.len() > stored.len() { 0 } else { head.marks };
    let value = work.make(&[digits, &SPACES[..spaces]]);
    match work.put(command, value, Head { marks, ..head }) {
        Outcome::Stored(_) => Outcome::Number(number),
        refused => refused,
    }
}

/// A value as a number: digits, and perhaps spaces behind them.
fn number(value: &[u8]) -> Option<u64> {
    const LONGEST: usize = 24;
    if value.len() > LONGEST {
        return None;
    }
    let digits = value.split(u8::is_ascii_whitespace).next()?;
    decimal(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_spaces_behind_them() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"9  "), Some(9));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"x"), None);
    }
}
