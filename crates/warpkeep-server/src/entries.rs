//! Keys that a batch changes, and what they have in the course of it.

use hashbrown::HashTable;

use crate::batch::Inputs;
use crate::command::{Command, NONE};
use crate::outcome::{Current, Refusal};
use crate::reads::Reads;
use crate::span::Span;

/// A key that a batch changes.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    /// Where the key was first met.
    pub(crate) connection: u32,
    pub(crate) key: Span,
    /// Of the command that it was met in.
    pub(crate) bits: u16,
    /// The read of what the table has, if that must be known.
    pub(crate) read: u32,
    /// Whether `base` says what the table has.
    pub(crate) known: bool,
    pub(crate) base: Option<Current>,
    /// What the key has at this point of the batch.
    pub(crate) current: Option<Current>,
    pub(crate) changed: bool,
    /// That its change was not made.
    pub(crate) refused: Option<Refusal>,
    /// Of the change, when it was made.
    pub(crate) version: u64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) list: Vec<Entry>,
    index: HashTable<u32>,
}

impl Entries {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.index.clear();
    }

    /// The entry of a command's key, which is made if there is none.
    pub(crate) fn enter(&mut self, command: &Command, key: &[u8], inputs: &impl Inputs) -> u32 {
        let known = self.find(command.hash, key, inputs);
        if known != NONE {
            return known;
        }
        let number = self.list.len() as u32;
        self.list.push(Entry {
            hash: command.hash,
            connection: command.connection,
            key: command.key,
            bits: command.bits,
            read: NONE,
            known: false,
            base: None,
            current: None,
            changed: false,
            refused: None,
            version: 0,
        });
        let list = &self.list;
        self.index.insert_unique(command.hash, number, |&number| list[number as usize].hash);
        number
    }

    /// The entry of a key, if it has one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8], inputs: &impl Inputs) -> u32 {
        let is_it = |&number: &u32| {
            let entry = &self.list[number as usize];
            entry.hash == hash && inputs.key(entry.connection, entry.key, entry.bits) == key
        };
        self.index.find(hash, is_it).copied().unwrap_or(NONE)
    }

    /// What the table has under the key must be known, unless something was stored before it is asked for.
    pub(crate) fn need(&mut self, number: u32, key: &[u8], reads: &mut Reads) {
        let entry = &mut self.list[number as usize];
        if entry.read == NONE {
            entry.read = reads.ask(key);
        }
    }

    /// Takes what was read.
    pub(crate) fn take_reads(&mut self, reads: &Reads) {
        for entry in self.list.iter_mut().filter(|entry| entry.read != NONE) {
            entry.known = true;
            entry.base = reads.found(entry.read);
            entry.current = entry.base;
        }
    }
}
