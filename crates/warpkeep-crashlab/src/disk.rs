//! The disk under test: a flat directory in memory that records, fails and can be crashed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpkeep_log::{Disk, DiskFile};

use crate::event::{Event, SiteKind};
use crate::fault::{DiskCall, Fault, Faults};
use crate::model::SECTOR;
use crate::trace::Trace;
use crate::world::Content;

/// Longer than any file a test needs: a wild offset is an error, as on a real disk, and not an allocation.
const LONGEST_FILE: u64 = 1 << 32;

/// The state of a disk after a crash.
#[derive(Clone, Default)]
pub(crate) struct DiskImage {
    /// Name to file number and bytes.
    pub(crate) files: BTreeMap<Arc<str>, (u64, Content)>,
    /// No file ever had this number or a larger one.
    pub(crate) next_file: u64,
}

/// A directory of files in memory; clones are handles to the same directory.
///
/// [`inject`](LabDisk::inject) makes calls fail. A sync that fails does what Linux does: the pages count as
/// clean afterwards. Their bytes can still be read, may or may not be on disk, and **a later sync that
/// succeeds does not promise them**, only what was written after the failure.
#[derive(Clone)]
pub struct LabDisk {
    shared: Arc<Shared>,
}

struct Shared {
    trace: Trace,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<Arc<str>, u64>,
    files: BTreeMap<u64, Arc<Vec<u8>>>,
    next_file: u64,
    faults: Faults,
}

impl LabDisk {
    /// An empty directory.
    ///
    /// # Panics
    /// If the trace has a disk already.
    pub fn new(trace: &Trace) -> LabDisk {
        LabDisk::reopened(trace, &DiskImage::default())
    }

    /// The directory after a crash; the explorer knows its contents.
    pub(crate) fn reopened(trace: &Trace, image: &DiskImage) -> LabDisk {
        trace.adopt_disk();
        let mut state = State { next_file: image.next_file, ..State::default() };
        for (name, (file, content)) in &image.files {
            state.names.insert(Arc::clone(name), *file);
            state.files.insert(*file, content.shared());
        }
        LabDisk { shared: Arc::new(Shared { trace: trace.clone(), state: Mutex::new(state) }) }
    }

    /// Makes calls fail from now on; several faults may wait at a time.
    pub fn inject(&self, fault: Fault) {
        self.shared.lock().faults.add(fault);
    }

    /// Removes the faults that have not struck yet, and ends those that strike for ever.
    pub fn heal(&self) {
        self.shared.lock().faults.clear();
    }

    fn handle(&self, file: u64) -> Box<dyn DiskFile> {
        Box::new(LabFile { shared: Arc::clone(&self.shared), file })
    }
}

impl fmt::Debug for LabDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_map().entries(state.names.iter().map(|(name, file)| (name, state.files[file].len()))).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn within_limits(end: Option<u64>) -> io::Result<()> {
    match end {
        Some(end) if end <= LONGEST_FILE => Ok(()),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn missing(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no file named {name}"))
}

impl Disk for LabDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Open)?;
        let file = *state.names.get(name).ok_or_else(|| missing(name))?;
        Ok(self.handle(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Create)?;
        if state.names.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name} is there already")));
        }
        let (name, file) = (Arc::<str>::from(name), state.next_file);
        state.next_file += 1;
        state.names.insert(Arc::clone(&name), file);
        state.files.insert(file, Arc::default());
        self.shared.trace.record(Event::FileCreate { file, name });
        Ok(self.handle(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Rename)?;
        if from == to && state.names.contains_key(from) {
            return Ok(());
        }
        let file = state.names.remove(from).ok_or_else(|| missing(from))?;
        state.names.insert(to.into(), file);
        self.shared.trace.record(Event::Rename { from: from.into(), to: to.into() });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Remove)?;
        state.names.remove(name).ok_or_else(|| missing(name))?;
        self.shared.trace.record(Event::Remove { name: name.into() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::List)?;
        Ok(state.names.keys().map(ToString::to_string).collect())
    }

    /// A sync of the directory that fails changes nothing: the names stay at risk until one succeeds.
    fn sync_dir(&self, site: &'static str) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::SyncDir)?;
        self.shared.trace.record_site(site, SiteKind::DirSync, Event::DirSync { site });
        Ok(())
    }
}

/// An open file of a [`LabDisk`]. As on Unix it stays good when the file is renamed or removed.
struct LabFile {
    shared: Arc<Shared>,
    file: u64,
}

impl State {
    /// The bytes of an open file.
    fn bytes(&mut self, file: u64) -> &mut Arc<Vec<u8>> {
        self.files.entry(file).or_default()
    }

    fn write(&mut self, trace: &Trace, file: u64, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let content = Arc::make_mut(self.bytes(file));
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if content.len() < end {
            content.resize(end, 0);
        }
        content[start..end].copy_from_slice(bytes);
        trace.record(Event::FileWrite { file, offset, bytes: bytes.into() });
    }
}

impl DiskFile for LabFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Len)?;
        Ok(state.bytes(self.file).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Read)?;
        let content = state.bytes(self.file);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let count = buffer.len().min(content.len() - start);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        within_limits(offset.checked_add(bytes.len() as u64))?;
        let mut state = self.shared.lock();
        if let Err(error) = state.faults.count(DiskCall::Write) {
            let half = (bytes.len() as u64 / SECTOR / 2 * SECTOR) as usize;
            state.write(&self.shared.trace, self.file, &bytes[..half], offset);
            return Err(error);
        }
        state.write(&self.shared.trace, self.file, bytes, offset);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        within_limits(Some(len))?;
        let mut state = self.shared.lock();
        state.faults.count(DiskCall::Allocate)?;
        let content = state.bytes(self.file);
        if (content.len() as u64) < len {
            Arc::make_mut(content).resize(len as usize, 0);
            self.shared.trace.record(Event::FileAllocate { file: self.file, len });
        }
        Ok(())
    }

    fn sync(&self, site: &'static str) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Err(error) = state.faults.count(DiskCall::Sync) {
            self.shared.trace.record(Event::FileSyncFailed { file: self.file });
            return Err(error);
        }
        let event = Event::FileSync { file: self.file, site };
        self.shared.trace.record_site(site, SiteKind::FileSync, event);
        Ok(())
    }
}
