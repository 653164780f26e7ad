//! The reads of a batch: keys that are looked up together, and the results.

use warpkeep::{Durability, Status, Table};
use warpkeep_core::{Answers, Batch as TableBatch, Op};

use crate::batch::BUDGET;
use crate::item::{HEAD, Head};
use crate::outcome::{Current, Place, Version};
use crate::span::Span;

/// The result of a lookup.
#[derive(Clone, Copy, Debug)]
enum Found {
    /// Nothing.
    Nothing,
    /// An item.
    Item(Current),
    /// An item that there was no room for.
    PutOff,
}

/// Keys that are looked up together.
#[derive(Default)]
pub(crate) struct Reads {
    keys: Option<TableBatch>,
    found: Vec<Found>,
    bytes: Vec<u8>,
    /// An item with an expiry was found.
    expiring: bool,
}

impl Reads {
    pub(crate) fn new(table: &Table) -> Reads {
        Reads { keys: Some(table.batch()), ..Reads::default() }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.clear();
        }
        self.found.clear();
        self.bytes.clear();
        self.expiring = false;
        if self.bytes.capacity() > 2 * BUDGET {
            self.bytes = Vec::new();
        }
    }

    /// Adds a key; gives its number. Parsers have checked its length.
    #[inline]
    pub(crate) fn ask(&mut self, key: &[u8]) -> u32 {
        if let Some(keys) = &mut self.keys {
            let pushed = keys.push(Op::Get, key, &[], 0);
            debug_assert!(pushed.is_ok(), "a key of {} bytes was let in", key.len());
        }
        self.found.push(Found::Nothing);
        self.found.len() as u32 - 1
    }

    /// Looks all keys up; beyond `limit` bytes of values, the others are put off.
    pub(crate) fn run(&mut self, table: &Table, limit: usize) -> Result<(), warpkeep::Error> {
        let Some(keys) = &self.keys else { return Ok(()) };
        if keys.is_empty() {
            return Ok(());
        }
        let Reads { found, bytes, expiring, .. } = self;
        let mut into = Into { found, bytes, expiring, limit };
        table.run_into(&keys.view(), Durability::Process, &mut into)
    }

    /// Clears the answers, so that the same keys can be looked up again.
    pub(crate) fn forget_found(&mut self) {
        self.found.fill(Found::Nothing);
        self.bytes.clear();
        self.expiring = false;
    }

    /// Repeats a read that was put off, without a limit.
    pub(crate) fn insist(&mut self, number: u32, table: &Table, key: &[u8]) {
        if self.was_put_off(number) {
            self.found[number as usize] = self.one(table, key).map_or(Found::Nothing, Found::Item);
        }
    }

    /// Looks one key up, after the others.
    pub(crate) fn one(&mut self, table: &Table, key: &[u8]) -> Option<Current> {
        let mut keys = table.batch();
        keys.get(key).ok()?;
        let mut found = [Found::Nothing];
        // The answer depends on it, so there is room for it.
        let Reads { bytes, expiring, .. } = self;
        let mut into = Into { found: &mut found, bytes, expiring, limit: usize::MAX };
        table.run_into(&keys.view(), Durability::Process, &mut into).ok()?;
        match found {
            [Found::Item(current)] => Some(current),
            _ => None,
        }
    }

    /// The item found.
    #[inline]
    pub(crate) fn found(&self, number: u32) -> Option<Current> {
        match self.found[number as usize] {
            Found::Item(current) => Some(current),
            Found::Nothing | Found::PutOff => None,
        }
    }

    /// Whether the read was put off for lack of room.
    #[inline]
    pub(crate) fn was_put_off(&self, number: u32) -> bool {
        matches!(self.found[number as usize], Found::PutOff)
    }

    /// Whether any found item has expired.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        self.expiring && (0..self.found.len()).any(|number| self.is_expired(number as u32, now))
    }

    /// Whether the found item has expired.
    pub(crate) fn is_expired(&self, number: u32, now: u64) -> bool {
        self.found(number).is_some_and(|current| current.head.is_expired(now))
    }

    /// The bytes of values.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The sink for the table's answers.
struct Into<'a> {
    found: &'a mut [Found],
    bytes: &'a mut Vec<u8>,
    expiring: &'a mut bool,
    /// The limit on bytes of values.
    limit: usize,
}

impl Answers for Into<'_> {
    #[inline]
    fn answer(&mut self, _: usize, _: Status, _: u64) {}

    #[inline]
    fn answer_value(&mut self, index: usize, status: Status, version: u64, stored: &[u8]) -> Status {
        let Some(head) = Head::from_bytes(stored) else { return status };
        *self.expiring |= head.expires != 0;
        self.found[index] = match self.bytes.len() > self.limit {
            true => Found::PutOff,
            false => {
                let value = Place::Read(Span::append(self.bytes, &stored[HEAD..]));
                Found::Item(Current { value, head, version: Version::Stored(version) })
            }
        };
        status
    }
}
