//! One event in the memory or the files, and the place in the code that caused it.

use std::fmt;
use std::sync::Arc;

/// The kind of a call that makes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Lines leave the caches.
    Flush,
    /// Flushed lines are durable.
    Fence,
    /// The whole memory, and its length, is durable.
    MemorySync,
    /// A file is durable.
    FileSync,
    /// The names of the files are durable.
    DirSync,
}

/// A place in the code under test that makes something durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The word the code names it with.
    pub name: &'static str,
    /// The kind of call. A flush and the fence after it may have the same name; they are two sites.
    pub kind: SiteKind,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SiteKind::Flush => "flush",
            SiteKind::Fence => "fence",
            SiteKind::MemorySync => "memory sync",
            SiteKind::FileSync => "file sync",
            SiteKind::DirSync => "directory sync",
        };
        write!(f, "{kind} `{}`", self.name)
    }
}

/// The event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A memory was created; its contents are durable.
    MemoryCreate {
        /// Its length.
        len: u64,
        /// Its first bytes; the rest is zeros.
        content: Arc<[u8]>,
        /// The largest length it can grow to.
        capacity: u64,
    },
    /// An aligned word was stored.
    Store {
        /// Where.
        offset: u64,
        /// The value.
        value: u64,
    },
    /// Neighbouring words were stored, one after the other.
    Write {
        /// Where the first lies.
        offset: u64,
        /// The words; in the outer words, bytes that were not written keep their values.
        words: Arc<[u64]>,
    },
    /// Lines were sent on their way to the medium.
    Flush {
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
        /// The calling site.
        site: &'static str,
    },
    /// This thread's flushes are complete.
    Fence {
        /// The calling site.
        site: &'static str,
    },
    /// The memory became longer, by zeros.
    Grow {
        /// Its length now.
        len: u64,
    },
    /// All of the memory has arrived, with its length.
    MemorySync {
        /// The calling site.
        site: &'static str,
    },
    /// A file was created, empty.
    FileCreate {
        /// Its number, which stays with it when it is renamed.
        file: u64,
        /// Its name.
        name: Arc<str>,
    },
    /// Bytes were written to a file.
    FileWrite {
        /// Its number.
        file: u64,
        /// Where.
        offset: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was extended with zeros.
    FileAllocate {
        /// Its number.
        file: u64,
        /// Its length now.
        len: u64,
    },
    /// A file has arrived on disk.
    FileSync {
        /// Its number.
        file: u64,
        /// The calling site.
        site: &'static str,
    },
    /// A file should have arrived on disk and did not; its pages are clean all the same.
    FileSyncFailed {
        /// Its number.
        file: u64,
    },
    /// A file got another name, and took it from whatever had it.
    Rename {
        /// The name it had.
        from: Arc<str>,
        /// The name it has.
        to: Arc<str>,
    },
    /// A file lost its name.
    Remove {
        /// The name.
        name: Arc<str>,
    },
    /// The names have arrived on disk.
    DirSync {
        /// The calling site.
        site: &'static str,
    },
    /// A mark of the scenario.
    Ack(u64),
    /// No crashes from here on.
    Pause,
    /// Crashes again from here on; everything before is durable.
    Resume,
}

/// An event and the virtual thread it happened in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The thread.
    pub thread: u32,
    /// The event.
    pub event: Event,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::MemoryCreate { len, .. } => write!(f, "memory of {len} bytes made"),
            Event::Store { offset, value } => write!(f, "store of {value:#x} at {offset:#x}"),
            Event::Write { offset, words } => write!(f, "write of {} words at {offset:#x}", words.len()),
            Event::Flush { offset, len, site } => write!(f, "flush `{site}` of {len} bytes at {offset:#x}"),
            Event::Fence { site } => write!(f, "fence `{site}`"),
            Event::Grow { len } => write!(f, "memory grown to {len} bytes"),
            Event::MemorySync { site } => write!(f, "memory sync `{site}`"),
            Event::FileCreate { file, name } => write!(f, "file {file} created as {name}"),
            Event::FileWrite { file, offset, bytes } => {
                write!(f, "write of {} bytes at {offset} of file {file}", bytes.len())
            }
            Event::FileAllocate { file, len } => write!(f, "file {file} extended to {len} bytes"),
            Event::FileSync { file, site } => write!(f, "sync `{site}` of file {file}"),
            Event::FileSyncFailed { file } => write!(f, "failed sync of file {file}"),
            Event::Rename { from, to } => write!(f, "{from} renamed to {to}"),
            Event::Remove { name } => write!(f, "{name} removed"),
            Event::DirSync { site } => write!(f, "directory sync `{site}`"),
            Event::Ack(tag) => write!(f, "acknowledgement {tag}"),
            Event::Pause => write!(f, "pause"),
            Event::Resume => write!(f, "resumption"),
        }
    }
}
