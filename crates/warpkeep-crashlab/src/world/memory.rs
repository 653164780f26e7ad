//! The memory as the model sees it: the guaranteed contents, the current contents, and the stores in between.

use std::collections::BTreeMap;

use crate::hash;
use crate::model::LINE;

/// A store that is not guaranteed yet.
#[derive(Clone, Copy)]
pub(crate) struct PendingStore {
    pub(crate) offset: u64,
    pub(crate) value: u64,
    /// Its place in the order of all stores.
    sequence: u64,
}

/// A thread's flush that waits for its fence.
#[derive(Clone, Copy)]
struct Flushed {
    line: u64,
    /// Covers the stores before this place in the order.
    before: u64,
}

/// Memory between two crashes.
#[derive(Clone)]
pub(crate) struct MemoryState {
    capacity: u64,
    durable: Vec<u8>,
    live: Vec<u8>,
    durable_hash: u64,
    live_hash: u64,
    /// By line, in program order.
    pending: BTreeMap<u64, Vec<PendingStore>>,
    flushed: BTreeMap<u32, Vec<Flushed>>,
    stores: u64,
    /// The durable length, then the later ones.
    lengths: Vec<u64>,
}

fn load(bytes: &[u8], offset: u64) -> u64 {
    let start = offset as usize;
    u64::from_ne_bytes(bytes[start..start + 8].try_into().expect("a word is 8 bytes"))
}

/// Stores a word.
pub(crate) fn put(bytes: &mut [u8], offset: u64, value: u64) {
    bytes[offset as usize..offset as usize + 8].copy_from_slice(&value.to_ne_bytes());
}

fn hash_of(bytes: &[u8], from: u64) -> u64 {
    let offsets = (from..).step_by(8);
    let words = bytes[from as usize..].chunks_exact(8);
    offsets.zip(words).fold(0, |sum, (offset, word)| {
        sum ^ hash::word(offset, u64::from_ne_bytes(word.try_into().expect("a word is 8 bytes")))
    })
}

impl MemoryState {
    /// Memory of which every byte is durable.
    pub(crate) fn settled(bytes: Vec<u8>, capacity: u64) -> MemoryState {
        let hash = hash_of(&bytes, 0);
        MemoryState::settled_hashed(bytes, capacity, hash)
    }

    /// The same, where the hash of the bytes is known.
    pub(crate) fn settled_hashed(bytes: Vec<u8>, capacity: u64, hash: u64) -> MemoryState {
        MemoryState {
            capacity,
            live: bytes.clone(),
            lengths: vec![bytes.len() as u64],
            durable: bytes,
            durable_hash: hash,
            live_hash: hash,
            pending: BTreeMap::new(),
            flushed: BTreeMap::new(),
            stores: 0,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(crate) fn live_hash(&self) -> u64 {
        self.live_hash
    }

    /// The guaranteed bytes, at the live length: a length that is not durable cuts them.
    pub(crate) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The guaranteed word at `offset`.
    pub(crate) fn durable_word(&self, offset: u64) -> u64 {
        load(&self.durable, offset)
    }

    /// The hash of the guaranteed bytes, cut to a length.
    pub(crate) fn durable_hash(&self, len: u64) -> u64 {
        self.durable_hash ^ hash_of(&self.durable, len)
    }

    /// The durable length, then the later ones.
    pub(crate) fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// The stores that are not guaranteed, by line.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (u64, &[PendingStore])> {
        self.pending.iter().map(|(line, stores)| (*line, stores.as_slice()))
    }

    /// The pending stores of one line.
    pub(crate) fn pending_in(&self, line: u64) -> &[PendingStore] {
        self.pending.get(&line).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn store(&mut self, offset: u64, value: u64) {
        self.live_hash ^= hash::word(offset, load(&self.live, offset)) ^ hash::word(offset, value);
        put(&mut self.live, offset, value);
        let sequence = self.stores;
        self.stores += 1;
        self.pending.entry(offset / LINE).or_default().push(PendingStore { offset, value, sequence });
    }

    pub(crate) fn flush(&mut self, thread: u32, offset: u64, len: u64) {
        let lines = offset / LINE..(offset + len).div_ceil(LINE);
        let flushed = self.flushed.entry(thread).or_default();
        for (&line, _) in self.pending.range(lines) {
            flushed.push(Flushed { line, before: self.stores });
        }
    }

    pub(crate) fn fence(&mut self, thread: u32) {
        for Flushed { line, before } in self.flushed.remove(&thread).unwrap_or_default() {
            let Some(mut stores) = self.pending.remove(&line) else { continue };
            let guaranteed = stores.partition_point(|store| store.sequence < before);
            for store in stores.drain(..guaranteed) {
                self.guarantee(store);
            }
            if !stores.is_empty() {
                self.pending.insert(line, stores);
            }
        }
    }

    fn guarantee(&mut self, PendingStore { offset, value, .. }: PendingStore) {
        self.durable_hash ^= hash::word(offset, self.durable_word(offset)) ^ hash::word(offset, value);
        put(&mut self.durable, offset, value);
    }

    pub(crate) fn grow(&mut self, len: u64) {
        self.live.resize(len as usize, 0);
        self.durable.resize(len as usize, 0);
        self.lengths.push(len);
    }

    /// Everything is guaranteed, the length too.
    pub(crate) fn settle(&mut self) {
        for stores in std::mem::take(&mut self.pending).into_values() {
            for store in stores {
                self.guarantee(store);
            }
        }
        self.flushed.clear();
        self.lengths = vec![self.live.len() as u64];
    }

    /// No fence will complete the dead process's flushes.
    pub(crate) fn process_died(&mut self) {
        self.flushed.clear();
    }

    /// The guaranteed and the pending state, as one hash.
    pub(crate) fn risk_hash(&self) -> u64 {
        let pending = self.pending.values().flatten().map(|store| (store.offset, store.value));
        hash::of((self.durable_hash, pending.collect::<Vec<_>>(), &self.lengths))
    }
}
