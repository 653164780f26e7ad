//! Doing Redis's commands.

use super::bitmap;
use super::commands::{NO_INTEGER, NO_TIME};
use super::numbers::{float, integer};
use super::pairs;
use crate::batch::{Inputs, Work};
use crate::command::{Command, Verb, bits};
use crate::item::{Head, MAX_VALUE};
use crate::lifetime::Lifetime;
use crate::outcome::{Current, Outcome, Place, Version};

const NOT_INTEGER: Outcome = Outcome::Wrong("-ERR value is not an integer or out of range\r\n");
const OVERFLOW: Outcome = Outcome::Wrong("-ERR increment or decrement would overflow\r\n");
pub(super) const TOO_LONG: Outcome =
    Outcome::Wrong("-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");

/// Executes a command on its key's item.
pub(crate) fn execute(work: &mut Work, command: &Command, inputs: &impl Inputs) -> Outcome {
    let current = work.current(command);
    match command.verb {
        Verb::Set => set(work, command, current),
        Verb::SetPart => work.put(command, Place::Input(command.connection, command.value), Head::default()),
        Verb::Delete => match current {
            None => Outcome::Integer(0),
            Some(_) => work.delete(command).unwrap_or(Outcome::Integer(1)),
        },
        Verb::Exists => Outcome::Integer(i64::from(current.is_some())),
        Verb::Increment => increment(work, command, current, inputs),
        Verb::IncrementFloat => increment_float(work, command, current, inputs),
        Verb::Expire => current.map_or(Outcome::Integer(0), |current| expire(work, command, current)),
        Verb::Persist => match current {
            Some(current) if current.head.expires != 0 => {
                counted(work.put(command, current.value, Head { expires: 0, ..current.head }))
            }
            _ => Outcome::Integer(0),
        },
        Verb::TimeToLive => Outcome::Integer(time_to_live(work, command, current)),
        Verb::GetDelete => match current {
            None => Outcome::Miss,
            Some(current) => work.delete(command).unwrap_or(Outcome::Hit(current)),
        },
        Verb::GetExpire => current.map_or(Outcome::Miss, |current| get_expire(work, command, current)),
        Verb::Append => append(work, command, current, inputs),
        Verb::Length => Outcome::Integer(current.map_or(0, |current| current.value.len() as i64)),
        Verb::GetRange => get_range(command, current),
        Verb::SetRange => set_range(work, command, current, inputs),
        Verb::Type => {
            if current.is_some() {
                Outcome::Stored(0)
            } else {
                Outcome::Miss
            }
        }
        Verb::SetBit => bitmap::set(work, command, current, inputs),
        Verb::GetBit => bitmap::get(work, command, current, inputs),
        Verb::Look | Verb::SetIfNone | Verb::Take | Verb::Give => pairs::execute(work, command, current),
        // The rest is memcached's, or has been done.
        _ => Outcome::Miss,
    }
}

/// 1 if it was stored.
fn counted(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Stored(_) => Outcome::Integer(1),
        refused => refused,
    }
}

fn set(work: &mut Work, command: &Command, current: Option<Current>) -> Outcome {
    let met = !(command.is(bits::NX) && current.is_some() || command.is(bits::XX) && current.is_none());
    let mut outcome = Outcome::NotStored;
    if met {
        let before = current.map_or(0, |current| current.head.expires);
        let head = Head { expires: command.lifetime.moment(work.now, before), ..Head::default() };
        outcome = match head.is_expired(work.now) {
            true => work.delete(command).unwrap_or(Outcome::Stored(0)),
            false => work.put(command, Place::Input(command.connection, command.value), head),
        };
    }
    match (outcome, current) {
        (Outcome::Refused(_), _) => outcome,
        (_, Some(current)) if command.is(bits::GIVE) => Outcome::Hit(current),
        (_, None) if command.is(bits::GIVE) => Outcome::Miss,
        (Outcome::NotStored, _) if command.is(bits::COUNTED) => Outcome::Integer(0),
        (_, _) if command.is(bits::COUNTED) => Outcome::Integer(1),
        _ => outcome,
    }
}

fn increment(work: &mut Work, command: &Command, current: Option<Current>, inputs: &impl Inputs) -> Outcome {
    let before = match current {
        None => 0,
        Some(current) => match integer(work.bytes(current.value, inputs)) {
            Some(number) => number,
            None => return NOT_INTEGER,
        },
    };
    let Some(after) = before.checked_add(command.number as i64) else { return OVERFLOW };
    let value = work.make(&[itoa::Buffer::new().format(after).as_bytes()]);
    match work.put(command, value, current.map_or(Head::default(), |current| current.head)) {
        Outcome::Stored(_) => Outcome::Integer(after),
        refused => refused,
    }
}

fn increment_float(
    work: &mut Work,
    command: &Command,
    current: Option<Current>,
    inputs: &impl Inputs,
) -> Outcome {
    let before = match current {
        None => 0.0,
        Some(current) => match float(work.bytes(current.value, inputs)) {
            Some(number) => number,
            None => return Outcome::Wrong("-ERR value is not a valid float\r\n"),
        },
    };
    let after = before + f64::from_bits(command.number);
    if !after.is_finite() {
        return Outcome::Wrong("-ERR increment would produce NaN or Infinity\r\n");
    }
    let value = work.make(&[format!("{after}").as_bytes()]);
    match work.put(command, value, current.map_or(Head::default(), |current| current.head)) {
        Outcome::Stored(_) => Outcome::Bytes(value),
        refused => refused,
    }
}

fn expire(work: &mut Work, command: &Command, current: Current) -> Outcome {
    let (before, after) = (current.head.expires, command.lifetime.moment(work.now, 0));
    let met = !(command.is(bits::NX) && before != 0
        || command.is(bits::XX) && before == 0
        || command.is(bits::GT) && (before == 0 || after <= before)
        || command.is(bits::LT) && before != 0 && after >= before);
    if !met {
        return Outcome::Integer(0);
    }
    match after <= work.now {
        true => work.delete(command).unwrap_or(Outcome::Integer(1)),
        false => counted(work.put(command, current.value, Head { expires: after, ..current.head })),
    }
}

fn time_to_live(work: &Work, command: &Command, current: Option<Current>) -> i64 {
    let expires = match current {
        None => return -2,
        Some(current) if current.head.expires == 0 => return -1,
        Some(current) => current.head.expires,
    };
    let millis = if command.is(bits::MOMENT) { expires } else { expires - work.now };
    match command.is(bits::MILLIS) {
        true => millis as i64,
        false => (millis.saturating_add(500) / 1000) as i64,
    }
}

fn get_expire(work: &mut Work, command: &Command, current: Current) -> Outcome {
    match command.other {
        NO_INTEGER => return NOT_INTEGER,
        NO_TIME => return Outcome::Wrong("-ERR invalid expire time in 'getex' command\r\n"),
        _ => {}
    }
    let unchanged = match command.lifetime {
        Lifetime::Keep => true,
        Lifetime::Never => current.head.expires == 0,
        _ => false,
    };
    if unchanged {
        return Outcome::Hit(current);
    }
    let expires = command.lifetime.moment(work.now, current.head.expires);
    let changed = match expires != 0 && expires <= work.now {
        true => work.delete(command).unwrap_or(Outcome::Deleted),
        false => work.put(command, current.value, Head { expires, ..current.head }),
    };
    match changed {
        Outcome::Refused(_) => changed,
        Outcome::Stored(number) => Outcome::Hit(Current { version: Version::Coming(number), ..current }),
        _ => Outcome::Hit(current),
    }
}

fn append(work: &mut Work, command: &Command, current: Option<Current>, inputs: &impl Inputs) -> Outcome {
    let more = Place::Input(command.connection, command.value);
    let (value, head) = match current {
        None => (more, Head::default()),
        Some(current) if current.value.len() + more.len() > MAX_VALUE => return TOO_LONG,
        Some(current) => (work.join(current.value, more, inputs), current.head),
    };
    match work.put(command, value, head) {
        Outcome::Stored(_) => Outcome::Integer(value.len() as i64),
        refused => refused,
    }
}

fn get_range(command: &Command, current: Option<Current>) -> Outcome {
    let len = current.map_or(0, |current| current.value.len() as i64);
    let (start, end) = (command.number as i64, command.other);
    // Both count from the end where they are negative.
    let from = |place: i64| if place < 0 { (len.saturating_add(place)).max(0) } else { place };
    let backwards = start < 0 && end < 0 && start > end;
    let (start, end) = (from(start), from(end).min(len - 1));
    match current {
        Some(current) if !backwards && start <= end && len > 0 => {
            Outcome::Bytes(current.value.part(start as usize, end as usize + 1))
        }
        _ => Outcome::Bytes(Place::Made(crate::span::Span::default())),
    }
}

fn set_range(work: &mut Work, command: &Command, current: Option<Current>, inputs: &impl Inputs) -> Outcome {
    let more = Place::Input(command.connection, command.value);
    let before = current.map_or(0, |current| current.value.len());
    if more.len() == 0 {
        return Outcome::Integer(before as i64);
    }
    let Some(offset) =
        usize::try_from(command.number).ok().filter(|&offset| offset <= MAX_VALUE - more.len())
    else {
        return TOO_LONG;
    };
    let mut value = current.map_or(Vec::new(), |current| work.bytes(current.value, inputs).to_vec());
    value.resize(before.max(offset + more.len()), 0);
    value[offset..offset + more.len()].copy_from_slice(work.bytes(more, inputs));
    let made = work.make(&[&value]);
    match work.put(command, made, current.map_or(Head::default(), |current| current.head)) {
        Outcome::Stored(_) => Outcome::Integer(value.len() as i64),
        refused => refused,
    }
}
