//! The keys that a batch changes, and their state in the course of it.

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
    /// The read of the stored item, if it must be known.
    pub(crate) read: u32,
    /// Whether `base` holds the stored item.
    pub(crate) known: bool,
    pub(crate) base: Option<Current>,
    /// The item at this point of the batch.
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

    /// The entry of a command's key; created if there is none.
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

    /// Requires a read of the stored item, unless an earlier command of the batch stores one.
    pub(crate) fn need(&mut self, number: u32, key: &[u8], reads: &mut Reads) {
        let entry = &mut self.list[number as usize];
        if entry.read == NONE {
            entry.read = reads.ask(key);
        }
    }

    /// Takes over the results of the reads.
    pub(crate) fn take_reads(&mut self, reads: &Reads) {
        for entry in self.list.iter_mut().filter(|entry| entry.read != NONE) {
            entry.known = true;
            entry.base = reads.found(entry.read);
            entry.current = entry.base;
        }
    }
}
