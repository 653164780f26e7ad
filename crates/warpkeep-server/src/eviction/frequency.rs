//! Eviction by frequency: of a random sample, the items with the fewest recent requests are evicted, the oldest
//! first.

use warpkeep::Table;

use crate::keyspace::Keyspace;

/// Items that are compared.
const COMPARED: usize = 128;
/// How many of them are evicted.
const GO: usize = 8;

/// An item that may go.
#[derive(Debug)]
pub(crate) struct Candidate<K> {
    pub(crate) key: K,
    /// Recent requests.
    pub(crate) frequency: u8,
    /// Grows with every change.
    pub(crate) version: u64,
}

/// An item of the store that may go: its key, and the bytes that it takes.
pub(super) type Stored = Candidate<(Vec<u8>, u64)>;

impl<K> Candidate<K> {
    /// Smaller ranks are evicted first.
    pub(crate) fn rank(&self) -> (u8, u64) {
        (self.frequency, self.version)
    }
}

/// Keeps the candidates to evict, `count` at the most, each once.
pub(crate) fn coldest<K: PartialEq>(candidates: &mut Vec<Candidate<K>>, count: usize) {
    candidates.sort_unstable_by_key(Candidate::rank);
    candidates.dedup_by(|one, other| one.version == other.version && one.key == other.key);
    candidates.truncate(count);
}

/// A random sample, of all items or of those that take as much space as one with a key and a value of these
/// lengths: keys, and the bytes they take. The coldest come first.
pub(super) fn candidates(
    frequency: impl Fn(u64) -> u8,
    keyspace: &Keyspace<'_>,
    table: &Table,
    like: Option<(usize, usize)>,
) -> Result<Vec<Stored>, warpkeep::Error> {
    let mut candidates = Vec::with_capacity(COMPARED);
    table.sample(like, COMPARED, |item| {
        candidates.push(Candidate {
            frequency: frequency(keyspace.hash(item.key)),
            version: item.version,
            key: (item.key.to_vec(), item.bytes),
        });
    })?;
    coldest(&mut candidates, COMPARED);
    Ok(candidates)
}

/// The keys of the victims, and the bytes they take.
pub(super) fn victims(mut candidates: Vec<Stored>) -> (Vec<Vec<u8>>, u64) {
    // Few items, few victims: the last ones are not to go all at once.
    candidates.truncate(candidates.len().div_ceil(COMPARED / GO));
    let bytes = candidates.iter().map(|candidate| candidate.key.1).sum();
    (candidates.into_iter().map(|candidate| candidate.key.0).collect(), bytes)
}

/// Whether even the coldest of some candidates is warmer than several of the others: then the others have more than
/// their share of the space.
pub(crate) fn is_warm<K, L>(candidates: &[Candidate<K>], others: &[Candidate<L>]) -> bool {
    let (Some(own), Some(other)) = (candidates.first(), others.get(others.len() * GO / COMPARED)) else {
        return candidates.is_empty();
    };
    other.rank() < own.rank()
}
