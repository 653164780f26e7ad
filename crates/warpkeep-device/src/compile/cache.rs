//! Compiled kernels kept on disk, so that a program starts without compiling.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// What an entry begins with. The number is that of the layout.
const MAGIC: &[u8; 8] = b"WKCUBIN1";
/// Magic, checksum, length of the log, length of the code.
const HEADER_BYTES: usize = 8 + 32 + 8 + 8;

/// A folder of compiled kernels, each under a name that is a hash of everything it was made from.
///
/// Nothing depends on it: an entry that is damaged is compiled again, and a folder that cannot be written is not
/// used.
#[derive(Debug, Clone)]
pub struct KernelCache {
    folder: Option<PathBuf>,
}

impl KernelCache {
    /// The cache in this folder, which need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()) }
    }

    /// No cache: everything is compiled.
    pub fn none() -> Self {
        Self { folder: None }
    }

    /// The user's cache: `kernels` in `$WARPKEEP_CACHE`, else in `warpkeep` in `$XDG_CACHE_HOME`, else in
    /// `~/.cache/warpkeep`. `WARPKEEP_CACHE=off` means none.
    pub fn from_environment() -> Self {
        Self { folder: cache_home().map(|home| home.join("kernels")) }
    }

    /// Where it lies, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The entry of this key, if it is there and whole.
    pub(super) fn get(&self, key: &Key) -> Option<Entry> {
        let bytes = fs::read(self.folder.as_ref()?.join(key.file_name())).ok()?;
        Entry::decode(&bytes)
    }

    /// Keeps an entry. That it could not be kept is no reason to fail: the kernels are there.
    pub(super) fn put(&self, key: &Key, entry: &Entry) {
        if let Some(folder) = &self.folder {
            let _ = write_whole(folder, &key.file_name(), &entry.encode());
        }
    }
}

/// The folder under which this library keeps what it can make again.
pub(crate) fn cache_home() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(own) = set("WARPKEEP_CACHE") {
        return if own == "off" { None } else { Some(own.into()) };
    }
    let caches = match set("XDG_CACHE_HOME") {
        Some(caches) => PathBuf::from(caches),
        None => PathBuf::from(set("HOME")?).join(".cache"),
    };
    Some(caches.join("warpkeep"))
}

/// Another program sees the whole file or none: it is written under another name first.
fn write_whole(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    static UNFINISHED: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{name}.{}.{number}", std::process::id()));
    let written = fs::File::create(&unfinished).and_then(|mut file| file.write_all(bytes));
    let placed = written.and_then(|()| fs::rename(&unfinished, folder.join(name)));
    if placed.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    placed
}

/// A hash over everything that the result of a compilation depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// The key of these parts, in this order. Lengths are hashed too, so that no two lists of parts run together.
    pub(super) fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    fn file_name(&self) -> String {
        use std::fmt::Write as _;
        let mut name = String::with_capacity(70);
        for byte in self.0 {
            let _ = write!(name, "{byte:02x}");
        }
        name + ".cubin"
    }
}

/// What a compilation made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) cubin: Vec<u8>,
    pub(super) log: String,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.log.len() + self.cubin.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[0; 32]);
        bytes.extend_from_slice(&(self.log.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.cubin.len() as u64).to_le_bytes());
        bytes.extend_from_slice(self.log.as_bytes());
        bytes.extend_from_slice(&self.cubin);
        let checksum = Sha256::digest(&bytes[40..]);
        bytes[8..40].copy_from_slice(&checksum);
        bytes
    }

    /// `None` if a single bit of it is wrong: a damaged kernel must not reach a GPU.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
        if &header[..8] != MAGIC || header[8..40] != *Sha256::digest(&bytes[40..]) {
            return None;
        }
        let length = |at: usize| header[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let log_bytes = usize::try_from(length(40)?).ok()?;
        let cubin_bytes = usize::try_from(length(48)?).ok()?;
        let (log, cubin) = body.split_at_checked(log_bytes)?;
        if cubin.len() != cubin_bytes {
            return None;
        }
        Some(Self { cubin: cubin.to_vec(), log: String::from_utf8(log.to_vec()).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { cubin: vec![7; 100], log: "Used 8 registers".to_owned() }
    }

    #[test]
    fn what_is_put_is_got_and_nothing_else_lies_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path().join("deep/er"));
        let key = Key::of(["a", "b"]);
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &entry());
        assert_eq!(cache.get(&key), Some(entry()));
        assert_eq!(fs::read_dir(cache.folder().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(Key::of(["ab", "c"]), Key::of(["a", "bc"]));
        assert_ne!(Key::of(["a"]), Key::of(["a", ""]));
        assert_eq!(Key::of(["a", "b"]), Key::of(["a", "b"]));
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        let whole = entry().encode();
        assert_eq!(Entry::decode(&whole), Some(entry()));
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert_eq!(Entry::decode(&damaged), None, "byte {at}");
            assert_eq!(Entry::decode(&whole[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        fs::write(&file, b"").unwrap();
        let cache = KernelCache::at(file.join("below it"));
        cache.put(&Key::of(["a"]), &entry());
        assert_eq!(cache.get(&Key::of(["a"])), None);
        KernelCache::none().put(&Key::of(["a"]), &entry());
        assert_eq!(KernelCache::none().get(&Key::of(["a"])), None);
    }
}
