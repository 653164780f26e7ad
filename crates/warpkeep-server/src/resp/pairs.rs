//! Commands on several keys that depend on each other: `MSETNX`, `RENAME`, `RENAMENX`, `COPY` and `MOVE`. Each is
//! atomic; its parts check keys, take the item of one, and store it under another.

use super::commands::{NOT_INTEGER, SYNTAX, To};
use crate::batch::{Carried, Work};
use crate::command::{Command, Verb, bits};
use crate::databases::{DATABASES, MAX_MARKED_KEY, set_key};
use crate::item::{Head, MAX_KEY};
use crate::outcome::{Current, Outcome, Place};
use crate::session::Parsed;
use crate::span::Span;

const SAME: &[u8] = b"-ERR source and destination objects are the same\r\n";
const TOO_LONG: &[u8] = b"-ERR key is too long, it can have 65535 bytes, and 65527 in databases 1 to 15\r\n";

/// A key of a database.
type Key = (u8, Span);

impl To<'_> {
    pub(super) fn set_many_if_none(&mut self) -> Parsed {
        if self.asked.len() < 3 || self.asked.len().is_multiple_of(2) {
            return self.wrong_number();
        }
        if !self.session.isolated {
            return self.alone();
        }
        let pairs = self.asked.arguments[1..].chunks_exact(2);
        let database = self.session.database;
        let looks = pairs.clone().map(|pair| (Verb::Look, 0, (database, pair[0]), Span::default()));
        let sets = pairs.map(|pair| (Verb::SetIfNone, 0, (database, pair[0]), pair[1]));
        let parts: Vec<_> = looks.chain(sets).collect();
        self.add_parts(&parts)
    }

    pub(super) fn rename(&mut self, condition: u16) -> Parsed {
        if self.asked.len() != 3 {
            return self.wrong_number();
        }
        let counted = if condition == 0 { 0 } else { bits::COUNTED };
        let database = self.session.database;
        self.carry((database, 1), (database, 2), condition | counted)
    }

    pub(super) fn copy(&mut self) -> Parsed {
        if self.asked.len() < 3 {
            return self.wrong_number();
        }
        let (mut database, mut condition) = (self.session.database, bits::NX);
        let mut index = 3;
        while index < self.asked.len() {
            if self.asked.is(index, "REPLACE") {
                condition = 0;
            } else if self.asked.is(index, "DB") && index + 1 < self.asked.len() {
                index += 1;
                match self.asked.integer(index) {
                    None => return self.say(NOT_INTEGER),
                    Some(given) if (0..i64::from(DATABASES)).contains(&given) => database = given as u8,
                    Some(_) => return self.say(b"-ERR DB index is out of range\r\n"),
                }
            } else {
                return self.say(SYNTAX);
            }
            index += 1;
        }
        if database == self.session.database && self.asked.get(1) == self.asked.get(2) {
            return self.say(SAME);
        }
        self.carry(
            (self.session.database, 1),
            (database, 2),
            condition | bits::COUNTED | bits::GIVE | bits::QUIET,
        )
    }

    pub(super) fn move_to(&mut self) -> Parsed {
        if self.asked.len() != 3 {
            return self.wrong_number();
        }
        let database = match self.asked.integer(2) {
            None => return self.say(NOT_INTEGER),
            Some(given) if (0..i64::from(DATABASES)).contains(&given) => given as u8,
            Some(_) => return self.say(b"-ERR DB index is out of range\r\n"),
        };
        if database == self.session.database {
            return self.say(SAME);
        }
        self.carry((self.session.database, 1), (database, 1), bits::NX | bits::COUNTED | bits::QUIET)
    }

    /// Moves the item of one key to another; keys are given by database and argument number.
    fn carry(&mut self, from: (u8, usize), to: (u8, usize), mut more: u16) -> Parsed {
        if !self.session.isolated {
            return self.alone();
        }
        let same = from.0 == to.0 && self.asked.get(from.1) == self.asked.get(to.1);
        if same {
            more |= bits::GIVE | bits::XX;
        }
        let place = |(database, index): (u8, usize)| (database, self.asked.arguments[index]);
        let (from, to) = (place(from), place(to));
        let look = (Verb::Look, more, to, Span::default());
        let take = (Verb::Take, more, from, Span::default());
        self.add_parts(&[look, take, (Verb::Give, more, to, Span::default())])
    }

    /// Adds the parts of a command.
    fn add_parts(&mut self, parts: &[(Verb, u16, Key, Span)]) -> Parsed {
        let longest = |database: u8| if database == 0 { MAX_KEY } else { MAX_MARKED_KEY };
        if parts.iter().any(|(_, _, (database, key), _)| key.len as usize > longest(*database)) {
            return self.say(TOO_LONG);
        }
        for (index, &(verb, more, (database, key), value)) in parts.iter().enumerate() {
            let mut command = Command { key, value, ..self.command(verb, more) };
            if index > 0 {
                command.bits &= !bits::FIRST;
            }
            if index + 1 < parts.len() {
                command.bits &= !bits::LAST;
            }
            set_key(self.session, self.asked.input, &mut command, database);
            self.batch.push(command);
        }
        self.session.at = self.asked.next;
        Parsed::Some
    }
}

/// Does a part of a command.
pub(super) fn execute(work: &mut Work, command: &Command, current: Option<Current>) -> Outcome {
    const NOTHING: Outcome = Outcome::Integer(0);
    if command.is(bits::FIRST) {
        work.carried = Carried::default();
    }
    let stands = !(command.is(bits::NX) && work.carried.any);
    match command.verb {
        Verb::Look => {
            work.carried.any |= current.is_some();
            NOTHING
        }
        Verb::SetIfNone if work.carried.any => NOTHING,
        Verb::SetIfNone => {
            match work.put(command, Place::Input(command.connection, command.value), Head::default()) {
                Outcome::Stored(_) => Outcome::Integer(command.is(bits::LAST).into()),
                refused => refused,
            }
        }
        Verb::Take => {
            work.carried.item = current;
            match current.is_some() && stands && !command.is(bits::GIVE) {
                true => work.delete(command).unwrap_or(NOTHING),
                false => NOTHING,
            }
        }
        _ => match work.carried.item {
            None if command.is(bits::QUIET) => NOTHING,
            None => Outcome::Wrong("-ERR no such key\r\n"),
            Some(_) if !stands => NOTHING,
            Some(item) => {
                let stored = match command.is(bits::XX) {
                    true => Outcome::Stored(0),
                    false => work.put(command, item.value, item.head),
                };
                match stored {
                    Outcome::Stored(_) if command.is(bits::COUNTED) => Outcome::Integer(1),
                    stored => stored,
                }
            }
        },
    }
}
