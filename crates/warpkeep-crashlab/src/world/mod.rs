//! Memory and disk between two crashes, followed event by event.

mod content;
mod files;
mod memory;

pub(crate) use content::{Content, file_hash, sector_hash};
pub(crate) use files::{FileState, FilesState, NameChange, Names};
pub(crate) use memory::{MemoryState, PendingStore, put};

use crate::event::{Entry, Event};
use crate::hash;
use crate::model::SECTOR;

/// A point in a trace: a number of whole events, and of parts of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) events: usize,
    pub(crate) parts: usize,
}

/// Everything a crash could touch, and what was acknowledged before it.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) memory: Option<MemoryState>,
    pub(crate) files: FilesState,
    pub(crate) acked: Vec<u64>,
    acked_hash: u64,
    paused: bool,
    position: Position,
}

/// Into how many parts the death of a process can cut an event.
pub(crate) fn parts(event: &Event) -> usize {
    match event {
        Event::Write { words, .. } => words.len(),
        Event::FileWrite { offset, bytes, .. } => {
            ((offset + bytes.len() as u64).div_ceil(SECTOR) - offset / SECTOR) as usize
        }
        _ => 1,
    }
}

impl World {
    /// The machine after a power cut that left this state; its acknowledgements are kept.
    pub(crate) fn restarted(&self, memory: Option<MemoryState>, files: FilesState) -> World {
        let (acked, acked_hash) = (self.acked.clone(), self.acked_hash);
        World { memory, files, acked, acked_hash, ..World::default() }
    }

    /// The marks so far, in one number.
    pub(crate) fn acked_hash(&self) -> u64 {
        self.acked_hash
    }

    /// Whether a crash here is to be explored.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Follows the trace up to a position at or after the present one.
    pub(crate) fn advance(&mut self, entries: &[Entry], to: Position) {
        while self.position.events < to.events {
            let entry = &entries[self.position.events];
            self.apply(entry, self.position.parts, parts(&entry.event));
            self.position = Position { events: self.position.events + 1, parts: 0 };
        }
        if self.position.parts < to.parts {
            self.apply(&entries[to.events], self.position.parts, to.parts);
            self.position.parts = to.parts;
        }
    }

    /// The process died, the machine did not: its pending state is at the same risk as before, and the next trace
    /// begins here.
    pub(crate) fn process_died(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.process_died();
        }
        self.position = Position::default();
        self.paused = false;
    }

    /// The durable and the pending state, as one hash.
    pub(crate) fn risk_hash(&self) -> u64 {
        hash::of((self.memory.as_ref().map(MemoryState::risk_hash), self.files.risk_hash()))
    }

    fn apply(&mut self, Entry { thread, event }: &Entry, from: usize, to: usize) {
        match event {
            Event::MemoryCreate { len, content, capacity } => {
                let mut bytes = content.to_vec();
                bytes.resize(*len as usize, 0);
                self.memory = Some(MemoryState::settled(bytes, *capacity));
            }
            Event::Store { offset, value } => self.with_memory(|memory| memory.store(*offset, *value)),
            Event::Write { offset, words } => self.with_memory(|memory| {
                for part in from..to {
                    memory.store(offset + part as u64 * 8, words[part]);
                }
            }),
            Event::Flush { offset, len, .. } => {
                self.with_memory(|memory| memory.flush(*thread, *offset, *len));
            }
            Event::Fence { .. } => self.with_memory(|memory| memory.fence(*thread)),
            Event::Grow { len } => self.with_memory(|memory| memory.grow(*len)),
            Event::MemorySync { .. } => self.with_memory(MemoryState::settle),
            Event::FileCreate { file, name } => self.files.create(name, *file),
            Event::FileWrite { file, offset, bytes } => {
                // Part 0 ends with the sector the write begins in.
                let cut = |part: usize| {
                    let boundary = (offset / SECTOR + part as u64) * SECTOR;
                    (boundary.max(*offset) - offset).min(bytes.len() as u64) as usize
                };
                let rest = &bytes[cut(from)..cut(to)];
                self.files.write(*file, offset + cut(from) as u64, rest, from > 0);
            }
            Event::FileAllocate { file, len } => self.files.allocate(*file, *len),
            Event::FileSync { file, .. } => self.files.sync(*file),
            Event::FileSyncFailed { file } => self.files.sync_failed(*file),
            Event::Rename { from, to } => self.files.rename(from, to),
            Event::Remove { name } => self.files.remove(name),
            Event::DirSync { .. } => self.files.sync_names(),
            Event::Ack(tag) => {
                self.acked.push(*tag);
                self.acked_hash = hash::of((self.acked_hash, tag));
            }
            Event::Pause => self.paused = true,
            Event::Resume => {
                self.paused = false;
                self.with_memory(MemoryState::settle);
                self.files.settle();
            }
        }
    }

    fn with_memory(&mut self, work: impl FnOnce(&mut MemoryState)) {
        if let Some(memory) = &mut self.memory {
            work(memory);
        }
    }
}
