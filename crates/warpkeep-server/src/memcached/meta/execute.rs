//! Doing meta commands.

use super::super::execute::{add, join};
use super::flags::Flags;
use crate::batch::{Inputs, Work};
use crate::command::{Command, NONE, Verb};
use crate::item::Head;
use crate::outcome::{Current, Outcome, Place, Version};
use crate::span::Span;

/// Executes a meta command on its key's item.
pub(in super::super) fn execute(work: &mut Work, command: &Command, inputs: &impl Inputs) -> Outcome {
    if command.verb == Verb::MetaGet && command.entry == NONE {
        return work.current(command).map_or(Outcome::Miss, look);
    }
    let text = command.text.of(inputs.input(command.connection));
    // It was parsed before.
    let Ok(flags) = Flags::of(command.verb, text) else { return Outcome::Wrong("ERROR\r\n") };
    let current = work.current(command);
    match (command.verb, current) {
        (Verb::MetaDebug, Some(current)) => Outcome::Hit(current),
        (Verb::MetaGet | Verb::MetaGetAndChange, Some(current)) => get(work, command, current, &flags),
        (Verb::MetaGetAndChange, None) => match flags.vivify {
            None => Outcome::Miss,
            Some(lifetime) => {
                let head = Head { expires: lifetime.moment(work.now, 0), marks: Head::WON, flags: 0 };
                changed(work, command, Place::Made(Span::default()), head, (true, false))
            }
        },
        (Verb::MetaSet, current) => set(work, command, current, &flags, inputs),
        (Verb::MetaDelete, Some(current)) => delete(work, command, current, &flags),
        (Verb::MetaArithmetic, Some(current)) => arithmetic(work, command, current, &flags, inputs),
        (Verb::MetaArithmetic, None) => match flags.vivify {
            None => Outcome::Miss,
            Some(lifetime) => {
                let value = work.make(&[itoa::Buffer::new().format(flags.initial).as_bytes()]);
                let head = Head { expires: lifetime.moment(work.now, 0), ..Head::default() };
                changed(work, command, value, head, (false, false))
            }
        },
        _ => Outcome::Miss,
    }
}

/// Stores an item and answers with it.
fn changed(
    work: &mut Work,
    command: &Command,
    value: Place,
    head: Head,
    (wins, was_won): (bool, bool),
) -> Outcome {
    match work.put(command, value, head) {
        Outcome::Stored(number) => {
            let current = Current { value, head, version: Version::Coming(number) };
            Outcome::MetaHit { current, wins, was_won }
        }
        refused => refused,
    }
}

/// A get without changes, unless the item is stale and no client was asked to renew it: then the command is
/// repeated as one that locks its key.
fn look(current: Current) -> Outcome {
    let marks = current.head.marks;
    if marks & Head::STALE != 0 && marks & Head::WON == 0 {
        return Outcome::Cut;
    }
    Outcome::MetaHit { current, wins: false, was_won: marks & Head::WON != 0 }
}

fn get(work: &mut Work, command: &Command, current: Current, flags: &Flags) -> Outcome {
    let mut head = current.head;
    let was_won = head.marks & Head::WON != 0;
    if let Some(lifetime) = flags.lifetime {
        head.expires = lifetime.moment(work.now, head.expires);
    }
    let soon = |seconds: i64| {
        let until = work.now.saturating_add(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000));
        head.expires != 0 && head.expires < until
    };
    let wins = !was_won && (head.marks & Head::STALE != 0 || flags.recache.is_some_and(soon));
    if wins {
        head.marks |= Head::WON;
    }
    match head == current.head {
        true => Outcome::MetaHit { current, wins, was_won },
        false => changed(work, command, current.value, head, (wins, was_won)),
    }
}

fn set(
    work: &mut Work,
    command: &Command,
    current: Option<Current>,
    flags: &Flags,
    inputs: &impl Inputs,
) -> Outcome {
    match (flags.mode, current) {
        (b'E', Some(_)) | (b'A' | b'P', None) => return Outcome::NotStored,
        (b'E', None) => {}
        (mode, None) if flags.compare.is_some() || mode == b'R' => {
            return if flags.compare.is_some() { Outcome::Miss } else { Outcome::NotStored };
        }
        (_, None) => {}
        (mode, Some(current)) => {
            match (flags.compare, current.version) {
                (None, _) => {}
                (Some(expected), Version::Stored(version)) if expected == version => {}
                // A value made from an older one is stored, but is stale and keeps the older one's lifetime.
                (Some(expected), version)
                    if flags.invalidate && is_older(expected, version) && !matches!(mode, b'A' | b'P') =>
                {
                    let marks = Head::STALE | current.head.marks & Head::WON;
                    let head = Head { expires: current.head.expires, marks, flags: flags.client };
                    return work.put(command, Place::Input(command.connection, command.value), head);
                }
                _ => return Outcome::Exists,
            }
            if matches!(mode, b'A' | b'P') {
                return join(work, command, current, mode == b'P', inputs);
            }
        }
    }
    let lifetime = flags.lifetime.unwrap_or(crate::lifetime::Lifetime::Never);
    let head = Head { expires: lifetime.moment(work.now, 0), marks: 0, flags: flags.client };
    work.put(command, Place::Input(command.connection, command.value), head)
}

/// Whether a CAS value belongs to an earlier item. An item that is not stored yet comes after all values ever given
/// out, which are far below the limit.
fn is_older(expected: u64, version: Version) -> bool {
    const NEVER_GIVEN: u64 = 1 << 62;
    match version {
        Version::Stored(version) => expected < version,
        Version::Coming(_) => expected < NEVER_GIVEN,
    }
}

fn delete(work: &mut Work, command: &Command, current: Current, flags: &Flags) -> Outcome {
    if flags.compare.is_some_and(|expected| current.version != Version::Stored(expected)) {
        return Outcome::Exists;
    }
    if !flags.invalidate {
        return work.delete(command).unwrap_or(Outcome::Deleted);
    }
    let expires = flags.lifetime.map_or(current.head.expires, |lifetime| lifetime.moment(work.now, 0));
    let marks = current.head.marks & !Head::WON | Head::STALE;
    match work.put(command, current.value, Head { expires, marks, ..current.head }) {
        Outcome::Stored(_) => Outcome::Deleted,
        refused => refused,
    }
}

fn arithmetic(
    work: &mut Work,
    command: &Command,
    current: Current,
    flags: &Flags,
    inputs: &impl Inputs,
) -> Outcome {
    if flags.compare.is_some_and(|expected| current.version != Version::Stored(expected)) {
        return Outcome::Exists;
    }
    let expires = flags.lifetime.map_or(current.head.expires, |lifetime| lifetime.moment(work.now, 0));
    let head = Head { expires, ..current.head };
    let outcome = add(work, command, current, (flags.mode != b'D', flags.delta), head, inputs);
    let (Outcome::Number(number), Some(stored)) = (outcome, work.stored(command)) else { return outcome };
    // The number without the spaces that may have been stored behind it.
    let value = work.make(&[itoa::Buffer::new().format(number).as_bytes()]);
    Outcome::MetaHit { current: Current { value, ..stored }, wins: false, was_won: false }
}
