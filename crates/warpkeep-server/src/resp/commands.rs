//! Command names, and their arguments.

use super::numbers::{float, integer};
use super::parse::parts;
use super::{about, multi};
use crate::batch::Batch;
use crate::command::{Command, Part, Verb, bits};
use crate::item::MAX_KEY;
use crate::lifetime::Lifetime;
use crate::server_commands::ServerCommand;
use crate::session::{Parsed, Session};
use crate::settings::Access;
use crate::span::Span;

pub(super) const NOT_INTEGER: &[u8] = b"-ERR value is not an integer or out of range\r\n";
const NOT_FLOAT: &[u8] = b"-ERR value is not a valid float\r\n";
pub(super) const SYNTAX: &[u8] = b"-ERR syntax error\r\n";

/// Why the time of a `GETEX` is refused: not an integer, or not a valid time.
pub(super) const NO_INTEGER: i64 = 1;
pub(super) const NO_TIME: i64 = 2;

/// A command with its arguments, the first of which is its name.
pub(super) struct Asked<'i> {
    pub(super) input: &'i [u8],
    pub(super) arguments: &'i [Span],
    /// The position after it.
    pub(super) next: usize,
}

impl<'i> Asked<'i> {
    pub(super) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// An argument; the name is the first.
    pub(super) fn get(&self, index: usize) -> &'i [u8] {
        self.arguments.get(index).map_or(&[], |span| span.of(self.input))
    }

    /// The name in capitals; empty if it is longer than any.
    #[inline]
    pub(super) fn name<'n>(&self, memory: &'n mut [u8; 16]) -> &'n [u8] {
        let given = self.get(0);
        match memory.get_mut(..given.len()) {
            Some(name) => {
                name.copy_from_slice(given);
                name.make_ascii_uppercase();
                name
            }
            None => b"",
        }
    }

    /// All arguments.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = &'i [u8]> + Clone + use<'i> {
        let input = self.input;
        self.arguments.iter().map(move |span| span.of(input))
    }

    /// Whether an argument is this word, in capitals or not.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    pub(super) fn integer(&self, index: usize) -> Option<i64> {
        integer(self.get(index))
    }
}

/// Adds a command that was parsed.
pub(super) fn command(
    session: &mut Session,
    asked: &Asked<'_>,
    access: &Access,
    batch: &mut Batch,
) -> Parsed {
    let mut name = [0; 16];
    let name = asked.name(&mut name);
    let mut to = To { session, asked, batch, access };
    match name {
        b"GET" => to.simple(Verb::Get, 2, 0),
        b"SET" => to.set(),
        b"SETNX" => to.set_with(3, 2, Lifetime::Never, bits::NX | bits::COUNTED),
        b"GETSET" => to.set_with(3, 2, Lifetime::Never, bits::GIVE),
        b"SETEX" => to.set_for(1000),
        b"PSETEX" => to.set_for(1),
        b"MGET" => to.many(Verb::Get, bits::MANY),
        b"MSET" => to.set_many(),
        b"DEL" | b"UNLINK" => to.many(Verb::Delete, 0),
        b"EXISTS" | b"TOUCH" => to.many(Verb::Exists, 0),
        b"INCR" => to.increment(2, Some(1)),
        b"DECR" => to.increment(2, Some(-1)),
        b"INCRBY" => to.increment(3, to.asked.integer(2)),
        b"DECRBY" => to.decrement(),
        b"INCRBYFLOAT" => to.increment_float(),
        b"EXPIRE" => to.expire(0),
        b"PEXPIRE" => to.expire(bits::MILLIS),
        b"EXPIREAT" => to.expire(bits::MOMENT),
        b"PEXPIREAT" => to.expire(bits::MILLIS | bits::MOMENT),
        b"TTL" => to.simple(Verb::TimeToLive, 2, 0),
        b"PTTL" => to.simple(Verb::TimeToLive, 2, bits::MILLIS),
        b"EXPIRETIME" => to.simple(Verb::TimeToLive, 2, bits::MOMENT),
        b"PEXPIRETIME" => to.simple(Verb::TimeToLive, 2, bits::MILLIS | bits::MOMENT),
        b"PERSIST" => to.simple(Verb::Persist, 2, 0),
        b"GETDEL" => to.simple(Verb::GetDelete, 2, 0),
        b"GETEX" => to.get_expire(),
        b"APPEND" => to.simple(Verb::Append, 3, 0),
        b"STRLEN" => to.simple(Verb::Length, 2, 0),
        b"GETRANGE" | b"SUBSTR" => to.get_range(),
        b"SETRANGE" => to.set_range(),
        b"TYPE" => to.simple(Verb::Type, 2, 0),
        b"SETBIT" => to.set_bit(),
        b"GETBIT" => to.get_bit(),
        b"MSETNX" => to.set_many_if_none(),
        b"RENAME" => to.rename(0),
        b"RENAMENX" => to.rename(bits::NX),
        b"COPY" => to.copy(),
        b"MOVE" => to.move_to(),
        b"DBSIZE" => to.server_command(1..=1, ServerCommand::Count),
        b"FLUSHALL" => to.flush(ServerCommand::FlushAll { delay: 0 }),
        b"FLUSHDB" => to.flush(ServerCommand::FlushDatabase),
        b"SCAN" => to.scan(),
        b"KEYS" => to.server_command(2..=2, ServerCommand::Keys),
        b"RANDOMKEY" => to.server_command(1..=1, ServerCommand::RandomKey),
        b"INFO" => to.server_command(1..=usize::MAX, ServerCommand::Info),
        b"MULTI" => multi::begin(&mut to),
        b"EXEC" => multi::execute(&mut to),
        b"DISCARD" => multi::discard(&mut to),
        b"WATCH" => multi::watch(&mut to),
        b"UNWATCH" => multi::unwatch(&mut to),
        _ => about::command(&mut to, name),
    }
}

/// The context a command is added to.
pub(super) struct To<'a> {
    pub(super) session: &'a mut Session,
    pub(super) asked: &'a Asked<'a>,
    pub(super) batch: &'a mut Batch,
    pub(super) access: &'a Access,
}

impl To<'_> {
    pub(super) fn say(&mut self, answer: &[u8]) -> Parsed {
        self.session.say(self.batch, self.asked.next, answer)
    }

    pub(super) fn wrong_number(&mut self) -> Parsed {
        let name = String::from_utf8_lossy(self.asked.get(0)).to_ascii_lowercase();
        self.say(format!("-ERR wrong number of arguments for '{name}' command\r\n").as_bytes())
    }

    /// Adds a command whose key is its first argument.
    pub(super) fn add(&mut self, command: Command) -> Parsed {
        if command.key.len as usize > MAX_KEY {
            return self.say(b"-ERR key is too long, it can have 65535 bytes\r\n");
        }
        self.batch.push(command);
        self.session.at = self.asked.next;
        Parsed::Some
    }

    /// A command with its key, and its value if there is one behind it.
    pub(super) fn command(&self, verb: Verb, more: u16) -> Command {
        let resp3 = if self.session.resp3 { bits::RESP3 } else { 0 };
        let span = |index: usize| self.asked.arguments.get(index).copied().unwrap_or_default();
        Command {
            key: span(1),
            value: span(2),
            bits: more | resp3 | bits::FIRST | bits::LAST,
            ..Command::new(verb, self.session.at)
        }
    }

    #[inline]
    fn simple(&mut self, verb: Verb, arguments: usize, more: u16) -> Parsed {
        if self.asked.len() != arguments {
            return self.wrong_number();
        }
        self.add(self.command(verb, more))
    }

    fn many(&mut self, verb: Verb, more: u16) -> Parsed {
        if self.asked.len() < 2 {
            return self.wrong_number();
        }
        let keys = &self.asked.arguments[1..];
        if keys.iter().any(|key| key.len as usize > MAX_KEY) {
            return self.say(b"-ERR key is too long, it can have 65535 bytes\r\n");
        }
        let resp3 = if self.session.resp3 { bits::RESP3 } else { 0 };
        let part = Part { verb, bits: more | resp3 | bits::FIRST, lifetime: Lifetime::Never };
        parts(self.session, keys, self.asked.next, part, self.batch);
        Parsed::Some
    }

    fn set_many(&mut self) -> Parsed {
        if self.asked.len() < 3 || self.asked.len().is_multiple_of(2) {
            return self.wrong_number();
        }
        let pairs = self.asked.arguments[1..].chunks_exact(2);
        if pairs.clone().any(|pair| pair[0].len as usize > MAX_KEY) {
            return self.say(b"-ERR key is too long, it can have 65535 bytes\r\n");
        }
        let count = pairs.len();
        for (index, pair) in pairs.enumerate() {
            // All of them go back to the beginning: they are done in one batch, or in the next.
            let mut command = self.command(Verb::SetPart, 0);
            (command.key, command.value) = (pair[0], pair[1]);
            if index > 0 {
                command.bits &= !bits::FIRST;
            }
            if index + 1 < count {
                command.bits &= !bits::LAST;
            }
            self.batch.push(command);
        }
        self.session.at = self.asked.next;
        Parsed::Some
    }

    fn set(&mut self) -> Parsed {
        if self.asked.len() < 3 {
            return self.wrong_number();
        }
        let (mut more, mut lifetime) = (0, None);
        let mut index = 3;
        while index < self.asked.len() {
            let asked = self.asked;
            let is = |word| asked.is(index, word);
            if is("NX") && more & bits::XX == 0 {
                more |= bits::NX;
            } else if is("XX") && more & bits::NX == 0 {
                more |= bits::XX;
            } else if is("GET") {
                more |= bits::GIVE;
            } else if is("KEEPTTL") && lifetime.is_none() {
                lifetime = Some(Lifetime::Keep);
            } else if let Some(unit) = Unit::of(asked.get(index))
                && lifetime.is_none()
                && index + 1 < asked.len()
            {
                index += 1;
                match unit.lifetime(asked.get(index), "set") {
                    Ok(given) => lifetime = Some(given),
                    Err(wrong) => return self.say(&wrong),
                }
            } else {
                return self.say(SYNTAX);
            }
            index += 1;
        }
        self.set_with(self.asked.len(), 2, lifetime.unwrap_or(Lifetime::Never), more)
    }

    fn set_with(&mut self, arguments: usize, value: usize, lifetime: Lifetime, more: u16) -> Parsed {
        if self.asked.len() != arguments {
            return self.wrong_number();
        }
        let value = self.asked.arguments[value];
        self.add(Command { value, lifetime, ..self.command(Verb::Set, more) })
    }

    fn set_for(&mut self, unit: u64) -> Parsed {
        if self.asked.len() != 4 {
            return self.wrong_number();
        }
        let unit = if unit == 1 { Unit::Millis } else { Unit::Seconds };
        let name = if unit == Unit::Millis { "psetex" } else { "setex" };
        match unit.lifetime(self.asked.get(2), name) {
            Ok(lifetime) => self.set_with(4, 3, lifetime, 0),
            Err(wrong) => self.say(&wrong),
        }
    }

    fn increment(&mut self, arguments: usize, by: Option<i64>) -> Parsed {
        if self.asked.len() != arguments {
            return self.wrong_number();
        }
        match by {
            Some(by) => self.add(Command { number: by as u64, ..self.command(Verb::Increment, 0) }),
            None => self.say(NOT_INTEGER),
        }
    }

    fn decrement(&mut self) -> Parsed {
        match self.asked.integer(2) {
            Some(i64::MIN) if self.asked.len() == 3 => self.say(b"-ERR decrement would overflow\r\n"),
            by => self.increment(3, by.map(i64::wrapping_neg)),
        }
    }

    fn increment_float(&mut self) -> Parsed {
        if self.asked.len() != 3 {
            return self.wrong_number();
        }
        match float(self.asked.get(2)) {
            Some(by) => self.add(Command { number: by.to_bits(), ..self.command(Verb::IncrementFloat, 0) }),
            None => self.say(NOT_FLOAT),
        }
    }

    fn expire(&mut self, more: u16) -> Parsed {
        if self.asked.len() < 3 {
            return self.wrong_number();
        }
        let mut conditions = 0;
        for index in 3..self.asked.len() {
            conditions |= match self.asked.get(index).to_ascii_uppercase().as_slice() {
                b"NX" => bits::NX,
                b"XX" => bits::XX,
                b"GT" => bits::GT,
                b"LT" => bits::LT,
                other => {
                    let other = String::from_utf8_lossy(other);
                    let wrong = format!("-ERR Unsupported option {}\r\n", super::encode::one_line(&other));
                    return self.say(wrong.as_bytes());
                }
            };
        }
        let any = |some: u16| conditions & some != 0;
        if any(bits::NX) && any(bits::XX | bits::GT | bits::LT) {
            return self.say(b"-ERR NX and XX, GT or LT options at the same time are not compatible\r\n");
        }
        if any(bits::GT) && any(bits::LT) {
            return self.say(b"-ERR GT and LT options at the same time are not compatible\r\n");
        }
        let Some(time) = self.asked.integer(2) else { return self.say(NOT_INTEGER) };
        let millis = if more & bits::MILLIS != 0 { Some(time) } else { time.checked_mul(1000) };
        let since = if more & bits::MOMENT != 0 { 0 } else { crate::lifetime::now() as i64 };
        let Some(millis) = millis.filter(|millis| millis.checked_add(since).is_some()) else {
            let name = String::from_utf8_lossy(self.asked.get(0)).to_ascii_lowercase();
            return self.say(format!("-ERR invalid expire time in '{name}' command\r\n").as_bytes());
        };
        let lifetime = match (u64::try_from(millis), more & bits::MOMENT != 0) {
            (Ok(0) | Err(_), _) => Lifetime::Gone,
            (Ok(millis), true) => Lifetime::Until(millis),
            (Ok(millis), false) => Lifetime::In(millis),
        };
        self.add(Command { lifetime, ..self.command(Verb::Expire, conditions) })
    }

    fn get_expire(&mut self) -> Parsed {
        let lifetime = match self.asked.len() {
            0..2 => return self.wrong_number(),
            2 => Lifetime::Keep,
            3 if self.asked.is(2, "PERSIST") => Lifetime::Never,
            4 => match Unit::of(self.asked.get(2)).map(|unit| unit.lifetime(self.asked.get(3), "getex")) {
                Some(Ok(lifetime)) => lifetime,
                // Redis looks for the key first: it is wrong only if that is there.
                Some(Err(_)) => {
                    let other = if integer(self.asked.get(3)).is_some() { NO_TIME } else { NO_INTEGER };
                    return self.add(Command { other, ..self.command(Verb::GetExpire, 0) });
                }
                None => return self.say(SYNTAX),
            },
            _ => return self.say(SYNTAX),
        };
        self.add(Command { lifetime, ..self.command(Verb::GetExpire, 0) })
    }

    fn get_range(&mut self) -> Parsed {
        if self.asked.len() != 4 {
            return self.wrong_number();
        }
        match (self.asked.integer(2), self.asked.integer(3)) {
            (Some(start), Some(end)) => {
                self.add(Command { number: start as u64, other: end, ..self.command(Verb::GetRange, 0) })
            }
            _ => self.say(NOT_INTEGER),
        }
    }

    fn set_range(&mut self) -> Parsed {
        if self.asked.len() != 4 {
            return self.wrong_number();
        }
        let Some(offset) = self.asked.integer(2) else { return self.say(NOT_INTEGER) };
        let Ok(number) = u64::try_from(offset) else { return self.say(b"-ERR offset is out of range\r\n") };
        let value = self.asked.arguments[3];
        self.add(Command { value, number, ..self.command(Verb::SetRange, 0) })
    }

    fn scan(&mut self) -> Parsed {
        if self.asked.len() < 2 {
            return self.wrong_number();
        }
        let cursor = std::str::from_utf8(self.asked.get(1)).ok().and_then(|text| text.parse().ok());
        let Some(cursor) = cursor else { return self.say(b"-ERR invalid cursor\r\n") };
        let (mut count, mut pattern, mut any) = (10, None, true);
        let mut index = 2;
        while index < self.asked.len() {
            let argument = self.asked.arguments.get(index + 1).copied();
            match (self.asked.get(index).to_ascii_uppercase().as_slice(), argument) {
                (b"MATCH", Some(given)) => pattern = Some(given),
                (b"COUNT", Some(given)) => match integer(given.of(self.asked.input)) {
                    Some(given @ 1..) => count = given as u64,
                    Some(_) => return self.say(SYNTAX),
                    None => return self.say(NOT_INTEGER),
                },
                (b"TYPE", Some(given)) => any = given.of(self.asked.input).eq_ignore_ascii_case(b"string"),
                _ => return self.say(SYNTAX),
            }
            index += 2;
        }
        let command = ServerCommand::Scan { cursor, count, has_pattern: pattern.is_some(), any };
        command.ask(self.session, self.batch, self.asked.next, [pattern, None], 0)
    }

    fn flush(&mut self, command: ServerCommand) -> Parsed {
        match self.asked.len() {
            1 => {}
            2 if self.asked.is(1, "SYNC") || self.asked.is(1, "ASYNC") => {}
            _ => return self.say(SYNTAX),
        }
        self.server_command(1..=2, command)
    }

    /// Makes a request to the server as a whole.
    pub(super) fn server_command(
        &mut self,
        arguments: std::ops::RangeInclusive<usize>,
        command: ServerCommand,
    ) -> Parsed {
        if !arguments.contains(&self.asked.len()) {
            return self.wrong_number();
        }
        let argument = |index: usize| self.asked.arguments.get(index).copied();
        let resp3 = if self.session.resp3 { bits::RESP3 } else { 0 };
        command.ask(self.session, self.batch, self.asked.next, [argument(1), argument(2)], resp3)
    }
}

/// The unit of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
    SecondsSince1970,
    MillisSince1970,
}

impl Unit {
    fn of(word: &[u8]) -> Option<Unit> {
        match word.to_ascii_uppercase().as_slice() {
            b"EX" => Some(Unit::Seconds),
            b"PX" => Some(Unit::Millis),
            b"EXAT" => Some(Unit::SecondsSince1970),
            b"PXAT" => Some(Unit::MillisSince1970),
            _ => None,
        }
    }

    fn lifetime(self, time: &[u8], command: &str) -> Result<Lifetime, Vec<u8>> {
        let time = integer(time).ok_or_else(|| NOT_INTEGER.to_vec())?;
        let seconds = matches!(self, Unit::Seconds | Unit::SecondsSince1970);
        let millis = if seconds { time.checked_mul(1000) } else { Some(time) };
        let since =
            if matches!(self, Unit::Seconds | Unit::Millis) { crate::lifetime::now() as i64 } else { 0 };
        let millis = millis.filter(|&millis| millis > 0 && millis.checked_add(since).is_some());
        match millis.and_then(|millis| u64::try_from(millis).ok()) {
            None => Err(format!("-ERR invalid expire time in '{command}' command\r\n").into_bytes()),
            Some(millis) => match self {
                Unit::Seconds | Unit::Millis => Ok(Lifetime::In(millis)),
                Unit::SecondsSince1970 | Unit::MillisSince1970 => Ok(Lifetime::Until(millis)),
            },
        }
    }
}
