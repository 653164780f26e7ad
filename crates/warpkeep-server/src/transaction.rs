//! A transaction of a connection: commands that wait for `EXEC`, and keys that must not have changed by then.

use crate::keyspace::Keyspace;
use crate::outcome::Version;
use crate::reads::Reads;
use crate::text::number;
use crate::touches::Watching;

/// Bytes of queued commands; more are refused.
const MOST_QUEUED: usize = 64 << 20;

/// The state that `MULTI` and `WATCH` begin.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// After `MULTI`: commands are queued.
    pub(crate) open: bool,
    /// A command could not be queued, so `EXEC` will refuse.
    pub(crate) refused: bool,
    /// Commands that are queued.
    pub(crate) count: usize,
    /// Their bytes, in RESP.
    pub(crate) queued: Vec<u8>,
    pub(crate) watched: Vec<Watch>,
    /// There while a key is watched.
    watching: Option<Watching>,
    /// Keys that are about to be watched.
    pub(crate) to_watch: Vec<Vec<u8>>,
}

/// A key that must not have changed.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) key: Vec<u8>,
    /// The version of its item when it was first watched, if it had one.
    version: Option<u64>,
    /// How often it had been changed then; counts if it was not there.
    touches: u32,
}

impl Transaction {
    /// Queues a command; `false` if there is no room for it.
    pub(crate) fn queue<'a>(&mut self, arguments: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> bool {
        let len: usize = arguments.clone().map(<[u8]>::len).sum();
        if self.queued.len() + len > MOST_QUEUED {
            return false;
        }
        encode(&mut self.queued, arguments);
        self.count += 1;
        true
    }

    /// Notes the versions of the keys that are about to be watched.
    pub(crate) fn watch(&mut self, keyspace: &Keyspace<'_>, now: u64) {
        self.watching.get_or_insert_with(|| keyspace.touches.watch());
        let table = keyspace.table();
        let mut reads = Reads::new(&table);
        for key in std::mem::take(&mut self.to_watch) {
            // Watched twice, the first version counts.
            if self.watched.iter().all(|watch| watch.key != key) {
                let touches = keyspace.touches.of(keyspace.hash(&key));
                let version = version(&mut reads, &table, &key, now);
                self.watched.push(Watch { key, version, touches });
            }
        }
    }
}

impl Watch {
    /// Whether the key still has the version it had when first watched. `reads` is memory to read into.
    pub(crate) fn holds(
        &self,
        reads: &mut Reads,
        (keyspace, table): (&Keyspace<'_>, &warpkeep::Table),
        now: u64,
    ) -> bool {
        version(reads, table, &self.key, now) == self.version
            && (self.version.is_some() || keyspace.touches.of(keyspace.hash(&self.key)) == self.touches)
    }
}

/// The version of a key's item; the store never reuses a version, not even for another item.
fn version(reads: &mut Reads, table: &warpkeep::Table, key: &[u8], now: u64) -> Option<u64> {
    let current = reads.one(table, key).filter(|current| !current.head.is_expired(now))?;
    match current.version {
        Version::Stored(version) => Some(version),
        Version::Coming(_) => None,
    }
}

/// Adds a command as a client sends it in RESP.
pub(crate) fn encode<'a>(out: &mut Vec<u8>, arguments: impl ExactSizeIterator<Item = &'a [u8]>) {
    out.push(b'*');
    number(out, arguments.len());
    out.extend_from_slice(b"\r\n");
    arguments.for_each(|argument| crate::resp::bulk(out, argument));
}
