//! `SETBIT` and `GETBIT`.

use super::commands::To;
use super::execute::TOO_LONG;
use crate::batch::{Inputs, Work};
use crate::command::{Command, Verb};
use crate::item::{Head, MAX_VALUE};
use crate::outcome::{Current, Outcome};
use crate::session::Parsed;

const BAD_OFFSET: &[u8] = b"-ERR bit offset is not an integer or out of range\r\n";

impl To<'_> {
    pub(super) fn set_bit(&mut self) -> Parsed {
        if self.asked.len() != 4 {
            return self.wrong_number();
        }
        let Some(number) = offset(self.asked.integer(2)) else { return self.say(BAD_OFFSET) };
        match self.asked.integer(3) {
            Some(other @ 0..=1) => self.add(Command { number, other, ..self.command(Verb::SetBit, 0) }),
            _ => self.say(b"-ERR bit is not an integer or out of range\r\n"),
        }
    }

    pub(super) fn get_bit(&mut self) -> Parsed {
        if self.asked.len() != 3 {
            return self.wrong_number();
        }
        match offset(self.asked.integer(2)) {
            Some(number) => self.add(Command { number, ..self.command(Verb::GetBit, 0) }),
            None => self.say(BAD_OFFSET),
        }
    }
}

/// The place of a bit: as far as Redis has strings.
fn offset(given: Option<i64>) -> Option<u64> {
    given.filter(|offset| (0..=i64::from(u32::MAX)).contains(offset)).map(|offset| offset as u64)
}

/// The byte that a bit is in, and how far it is from that byte's lowest.
fn place(command: &Command) -> (usize, u32) {
    ((command.number / 8) as usize, 7 - (command.number % 8) as u32)
}

pub(super) fn get(work: &Work, command: &Command, current: Option<Current>, inputs: &impl Inputs) -> Outcome {
    let (byte, shift) = place(command);
    let value = current.map_or(&[][..], |current| work.bytes(current.value, inputs));
    Outcome::Integer(value.get(byte).map_or(0, |byte| i64::from(byte >> shift & 1)))
}

pub(super) fn set(
    work: &mut Work,
    command: &Command,
    current: Option<Current>,
    inputs: &impl Inputs,
) -> Outcome {
    let (byte, shift) = place(command);
    if byte >= MAX_VALUE {
        return TOO_LONG;
    }
    let mut value = current.map_or(Vec::new(), |current| work.bytes(current.value, inputs).to_vec());
    value.resize(value.len().max(byte + 1), 0);
    let before = value[byte] >> shift & 1;
    value[byte] = value[byte] & !(1 << shift) | (command.other as u8) << shift;
    let made = work.make(&[&value]);
    match work.put(command, made, current.map_or(Head::default(), |current| current.head)) {
        Outcome::Stored(_) => Outcome::Integer(before.into()),
        refused => refused,
    }
}
