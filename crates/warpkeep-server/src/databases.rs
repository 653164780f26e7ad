//! Databases 1 to 15: their keys have a prefix, in the one table that holds all items. Those of database 0, which are also
//! memcached's, are stored without one.

use crate::command::{Command, bits};
use crate::item::MAX_KEY;
use crate::session::Session;
use crate::span::Span;

/// How many databases there are.
pub(crate) const DATABASES: u8 = 16;

/// The prefix of keys of databases other than 0, before the number.
const MARK: [u8; 7] = *b"\xff\x00wkdb\x00";

/// The longest key of databases 1 to 15.
pub(crate) const MAX_MARKED_KEY: usize = MAX_KEY - MARK.len() - 1;

/// A key as it is stored.
pub(crate) fn stored(database: u8, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(MARK.len() + 1 + key.len());
    mark(&mut stored, database);
    stored.extend_from_slice(key);
    stored
}

fn mark(out: &mut Vec<u8>, database: u8) {
    if database != 0 {
        out.extend_from_slice(&MARK);
        out.push(database);
    }
}

/// The database of a stored key, and the key without its prefix.
pub(crate) fn of(stored: &[u8]) -> (u8, &[u8]) {
    match stored.strip_prefix(&MARK) {
        Some([database @ 1..DATABASES, key @ ..]) => (*database, key),
        _ => (0, stored),
    }
}

/// Adds a database's prefix to the key of a command, which lies in `input`. `false` if the result is too long.
pub(crate) fn set_key(session: &mut Session, input: &[u8], command: &mut Command, database: u8) -> bool {
    if database == 0 || command.bits & bits::DECODED != 0 {
        return true;
    }
    let key = command.key.of(input);
    if key.len() > MAX_MARKED_KEY {
        return false;
    }
    let start = session.decoded.len();
    mark(&mut session.decoded, database);
    session.decoded.extend_from_slice(key);
    command.key = Span::between(start, session.decoded.len());
    command.bits |= bits::DECODED;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_one_database() {
        for database in 0..DATABASES {
            assert_eq!(of(&stored(database, b"a")), (database, &b"a"[..]));
        }
        assert_eq!(of(b"\xff\x00wkdb\x00"), (0, &b"\xff\x00wkdb\x00"[..]));
        assert_eq!(of(b"\xff\x00wkdb\x00\x10a"), (0, &b"\xff\x00wkdb\x00\x10a"[..]));
    }
}
