//! The log, open for writing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use warpkeep_core::{Durability, Lsn};

use crate::batch::ChangeBatch;
use crate::block::Seed;
use crate::checkpoint::{CheckpointInfo, CheckpointWriter};
use crate::commit::Commit;
use crate::disk::Disk;
use crate::error::LogError;
use crate::files::Directory;
use crate::frame::FRAME_MAGIC;
use crate::gate::{Gate, OpGuard};
use crate::image_note::ImageNote;
use crate::laid::{ChangeForm, LaidRecord, PieceLen};
use crate::layout::{FileName, PAGE, TMP, checkpoint_name, segment_name};
use crate::manifest::Manifest;
use crate::options::LogOptions;
use crate::queue::Queue;
use crate::segment::SegmentMaker;
use crate::site;
use crate::tail::{Finished, Tail};

/// The log, open for writing. Made by [`Log::create`] or [`Recovery::start`](crate::Recovery::start).
///
/// Dropping it without [`Log::close`] looks like a crash to the next opening: harmless, but records that were
/// appended and not waited for may be lost.
///
/// ```
/// use std::sync::Arc;
/// use warpkeep_core::{Change, ChangeKind, Durability};
/// use warpkeep_log::{ChangeBatch, Log, LogError, LogOptions, OsDisk};
/// # let directory = tempfile::tempdir().unwrap();
///
/// let disk = Arc::new(OsDisk::open(directory.path())?);
/// let log = Log::create(disk, [7; 16], 1, LogOptions::default())?;
/// let mut batch = ChangeBatch::new();
/// batch.push(&Change { table: 1, kind: ChangeKind::Put, version: 1, key: b"warp", value: b"weft" })?;
///
/// log.back_pressure()?; // before any lock is taken
/// let guard = log.enter();
/// let lsn = log.append(&batch, Durability::Power, |_lsn| { /* note it as pending */ })?;
/// log.wait_durable(lsn)?;
/// // ... apply the batch to the image ...
/// drop(guard);
/// log.close()?;
/// # Ok::<(), LogError>(())
/// ```
pub struct Log {
    pub(crate) directory: Directory,
    pub(crate) commit: Arc<Commit>,
    gate: Gate,
    /// The gate of writers that were promised room: they apply their effects first and append their records
    /// afterwards.
    promised: Gate,
    /// The manifest in force. Locked while a checkpoint runs: there is one at a time.
    pub(crate) manifest: Mutex<Manifest>,
    flusher: Option<JoinHandle<()>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("last_lsn", &self.last_lsn())
            .field("durable_lsn", &self.durable_lsn())
            .finish_non_exhaustive()
    }
}

/// Room in the log for a record that is not appended yet; released if it is dropped. Its holder is inside the
/// writers' gate.
#[must_use = "a promise that is dropped is taken back"]
pub struct Promise<'a> {
    commit: &'a Commit,
    footprint: u64,
    /// Set once the record is appended.
    taken: bool,
    _inside: OpGuard<'a>,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.commit.withdraw(self.footprint);
        }
    }
}

/// Space that an opening needs besides a segment: manifests, and the file system's own metadata.
const RESERVE_FOR_OPENING: u64 = 64 << 10;

/// The state that a log begins with.
pub(crate) struct Beginning {
    pub(crate) directory: Directory,
    pub(crate) options: LogOptions,
    /// The manifest that was read; generation, first segment and the clean mark are updated.
    pub(crate) manifest: Manifest,
    pub(crate) last: Lsn,
    pub(crate) finished: Vec<Finished>,
    pub(crate) next_number: u64,
    /// Bytes of the frames that were written since the last checkpoint began.
    pub(crate) since_checkpoint: u64,
    pub(crate) after_checkpoint: u64,
}

impl Log {
    /// Whether the directory holds a log.
    pub fn exists(disk: &dyn Disk) -> Result<bool, LogError> {
        let names = disk.list().map_err(|e| LogError::io("list", "the log directory", e))?;
        Ok(Manifest::is_among(&names))
    }

    /// The image that the log in a directory was last used with, if its manifest notes one; nothing but the manifest is
    /// read.
    pub fn image(disk: Arc<dyn Disk>) -> Result<Option<ImageNote>, LogError> {
        Ok(Manifest::read(&Directory::new(disk))?.and_then(|found| found.manifest.image))
    }

    /// Begins a log in a directory that holds nothing (but perhaps the remains of an attempt to do so).
    pub fn create(
        disk: Arc<dyn Disk>,
        store_id: [u8; 16],
        epoch: u64,
        options: LogOptions,
    ) -> Result<Log, LogError> {
        options.check()?;
        if epoch > Lsn::MAX_EPOCH {
            return Err(LogError::BadEpoch { asked: epoch, last: 0 });
        }
        let directory = Directory::new(disk);
        let names = directory.list()?;
        if Manifest::is_among(&names) {
            return Err(LogError::AlreadyExists);
        }
        if let Some(file) = file_with_data(&directory, &names)? {
            return Err(LogError::ManifestMissing { file });
        }
        let mut next_number = 1;
        for name in &names {
            match FileName::parse(name) {
                FileName::Foreign => {
                    let what = "a log wants a directory of its own".to_owned();
                    return Err(LogError::ForeignFile { file: name.clone(), what });
                }
                FileName::Segment(number) => next_number = next_number.max(number.saturating_add(1)),
                _ => {}
            }
        }
        let remains = |name: &&String| {
            let name = FileName::parse(name);
            matches!(name, FileName::Temporary | FileName::Reserve(_) | FileName::Segment(_))
        };
        names.iter().filter(remains).try_for_each(|name| directory.remove(name))?;
        Log::begin(Beginning {
            directory,
            options,
            manifest: Manifest {
                store_id,
                generation: 0,
                epoch,
                checkpoint: 0,
                checkpoint_start: Lsn::ZERO,
                checkpoint_changes: 0,
                checkpoint_bytes: 0,
                first_segment: 0,
                clean_at: None,
                image: None,
            },
            last: Lsn::ZERO,
            finished: Vec::new(),
            next_number,
            since_checkpoint: 0,
            after_checkpoint: 0,
        })
    }

    /// Creates a segment, and then names it in the manifest.
    pub(crate) fn begin(beginning: Beginning) -> Result<Log, LogError> {
        let Beginning {
            directory,
            options,
            manifest,
            last,
            finished,
            next_number,
            since_checkpoint,
            after_checkpoint,
        } = beginning;
        let store_id = manifest.store_id;
        let maker = SegmentMaker::new(directory.clone(), store_id, options.segment_bytes, next_number);
        let (segment, no_whole_segment) = maker.take_first()?;
        let (number, room) = (segment.number, segment.len - PAGE);
        let seed = Seed::of(&store_id);
        let tail = Tail::new(segment, finished, last, seed, options.fill_ahead_bytes);
        let manifest = Manifest {
            generation: manifest.generation + 1,
            first_segment: tail.first_needed(manifest.checkpoint_start),
            clean_at: None,
            ..manifest
        };
        if let Err(error) = manifest.write(&directory) {
            if !directory.poison().is_set() {
                drop(tail);
                directory.discard(&segment_name(number));
            }
            return Err(error);
        }
        directory.return_reserve();
        let mut queue = Queue::new(manifest.epoch, last, after_checkpoint, options.segment_bytes);
        queue.set_room(room);
        queue.set_no_segment(no_whole_segment.map(Arc::new));
        let background = options.background;
        let commit = Arc::new(Commit::new(&directory, options, queue, tail, maker, since_checkpoint));
        let flusher = match background {
            false => None,
            true => {
                let commit = Arc::clone(&commit);
                let thread = std::thread::Builder::new().name("warpkeep-log".to_owned());
                let spawned = thread.spawn(move || commit.run_flusher());
                Some(spawned.map_err(|e| LogError::io("start a thread for", "the log", e))?)
            }
        };
        let (gate, promised) = (Gate::default(), Gate::default());
        Ok(Log { directory, commit, gate, promised, manifest: Mutex::new(manifest), flusher })
    }

    /// Appends a batch as one record and returns its number. Does no I/O.
    ///
    /// `on_lsn` receives the number before the record can reach the file. It runs under the log's lock, so it must be
    /// short and must not call the log.
    pub fn append(
        &self,
        batch: &ChangeBatch,
        durability: Durability,
        on_lsn: impl FnOnce(Lsn),
    ) -> Result<Lsn, LogError> {
        self.commit.append(batch, durability, on_lsn)
    }

    /// Sets room aside for a batch whose effects come before its record: a batch that the log refuses must not take
    /// effect. Only a failure of the log itself can break the promise, and then the log stops.
    ///
    /// Make the effects between this and [`Log::append_promised`]: the holder of the promise is inside the gate, as after
    /// [`Log::enter`].
    pub fn promise(&self, batch: &ChangeBatch, durability: Durability) -> Result<Promise<'_>, LogError> {
        self.promise_bytes(batch.bytes().len() as u64, durability)
    }

    /// The same for a record of `bytes` bytes: see [`LaidRecord::bytes`].
    pub fn promise_bytes(&self, bytes: u64, durability: Durability) -> Result<Promise<'_>, LogError> {
        let inside = self.promised.enter();
        let footprint = self.commit.promise(usize::try_from(bytes).unwrap_or(usize::MAX), durability)?;
        Ok(Promise { commit: &self.commit, footprint, taken: false, _inside: inside })
    }

    /// Begins a record to be laid out, one thread a piece if there are several. The changes of all pieces have one
    /// form; other changes of the same batch follow them.
    pub fn lay(
        &self,
        form: ChangeForm,
        pieces: &[PieceLen],
        beside: &ChangeBatch,
    ) -> Result<LaidRecord, LogError> {
        let alike = pieces.iter().map(PieceLen::bytes).fold(0, usize::saturating_add);
        let buffer = self.commit.take_buffer(alike.saturating_add(beside.bytes().len()).min(usize::MAX / 2));
        LaidRecord::new(buffer, form, pieces, beside)
    }

    /// Makes sure that a record of `bytes` bytes finds room, creating a segment for it ahead of time if necessary.
    /// Call it before the first effect of a large batch.
    pub fn make_room(&self, bytes: u64) -> Result<(), LogError> {
        self.commit.make_room(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// The same for a batch, if it is so large that [`Log::back_pressure`] may not have provided for it.
    pub fn make_room_for(&self, batch: &ChangeBatch) -> Result<(), LogError> {
        self.commit.make_room_if_large(batch.bytes().len())
    }

    /// Appends a [laid-out](Log::lay) record, as [`Log::append`] does, without copying or checksumming it again.
    /// Refused if a piece is not finished.
    pub fn append_laid(
        &self,
        record: LaidRecord,
        durability: Durability,
        on_lsn: impl FnOnce(Lsn),
    ) -> Result<Lsn, LogError> {
        self.commit.append_laid(record, durability, on_lsn)
    }

    /// The same, for a record with [promised](Log::promise_bytes) room.
    pub fn append_laid_promised(
        &self,
        mut promise: Promise<'_>,
        record: LaidRecord,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        promise.taken = true;
        self.commit.append_laid_promised(promise.footprint, record, durability)
    }

    /// Stops the log, because log and image could not be brought into agreement; the next opening does that.
    /// Returns the error that every later caller gets.
    pub fn give_up(&self, why: String) -> LogError {
        self.commit.give_up(LogError::GivenUp { why })
    }

    /// Appends a batch with [promised](Log::promise) room.
    pub fn append_promised(
        &self,
        mut promise: Promise<'_>,
        batch: &ChangeBatch,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        promise.taken = true;
        self.commit.append_promised(promise.footprint, batch, durability)
    }

    /// Returns when the record, and every one before it, is durable. A caller that finds no write in progress
    /// writes for all waiting callers.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        self.commit.wait_durable(lsn)
    }

    /// Makes everything durable that has been appended so far.
    pub fn flush(&self) -> Result<(), LogError> {
        self.wait_durable(self.last_lsn())
    }

    /// The last record that is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.commit.durable_lsn()
    }

    /// The last record that was appended.
    pub fn last_lsn(&self) -> Lsn {
        self.commit.last_lsn()
    }

    /// The record up to which the log must be durable so that everything readers see at the time of the call
    /// survives a power failure: pass it to [`Log::wait_durable`]. Waits for writers whose effects are visible and
    /// whose records are not appended yet, so the caller must hold nothing that a writer needs between
    /// [`Log::promise`] and [`Log::append_promised`]. Costs two loads when there are none.
    ///
    /// Effects that the image had before the log began are not in the log: see [`Log::owes_checkpoint`].
    pub fn seen(&self) -> Result<Lsn, LogError> {
        if self.commit.has_promised() {
            self.promised.wait_for_present();
        }
        self.commit.appended()
    }

    /// From now on `watch` is called with the last durable record when every effect that readers may see is durable
    /// in the log, and with `None` before a record is promised or appended whose effects come first. It runs under
    /// the log's lock, so it must be short and must not call the log.
    pub fn watch_settled(&self, watch: impl Fn(Option<Lsn>) + Send + Sync + 'static) {
        self.commit.watch_settled(Box::new(watch));
    }

    /// Waits, or writes, while more than `backlog_bytes` are appended but not durable. To be called before any
    /// lock is taken.
    pub fn back_pressure(&self) -> Result<(), LogError> {
        self.commit.back_pressure()
    }

    /// Enters the writers' gate. A writer stays inside from before it draws its number or applies its effect,
    /// whichever is first, until both have happened; a checkpoint waits for it, never the other way round.
    ///
    /// A thread must not take a checkpoint while it is inside.
    pub fn enter(&self) -> OpGuard<'_> {
        self.gate.enter()
    }

    /// Whether `Power` appends are refused until a checkpoint completes.
    pub fn owes_checkpoint(&self) -> bool {
        self.commit.owes_checkpoint()
    }

    /// Bytes of log written since the last checkpoint began: about as much as a checkpoint would trim and a rebuild
    /// would redo.
    pub fn since_checkpoint(&self) -> u64 {
        self.commit.since_checkpoint()
    }

    /// The permissions of new files.
    pub fn file_mode(&self) -> u32 {
        self.commit.file_mode()
    }

    /// Sets space aside for a checkpoint of this many bytes, and for an opening: empty files that are given up when
    /// the disk is full and a checkpoint or an opening needs the space. An error if the disk has not enough room;
    /// calling it again with another size is cheap.
    pub fn keep_reserve(&self, checkpoint_bytes: u64) -> Result<(), LogError> {
        // A checkpoint in progress may be using it.
        let Ok(_manifest) = self.manifest.try_lock() else { return Ok(()) };
        self.directory.poison().check()?;
        let opening = self.commit.first_segment_bytes() + RESERVE_FOR_OPENING;
        self.directory.provide_reserve(opening, checkpoint_bytes.saturating_add(opening))
    }

    /// Bytes [set aside](Log::keep_reserve), and bytes that should be.
    pub fn reserve(&self) -> (u64, u64) {
        self.directory.reserve().bytes()
    }

    /// Why no further segment could be made, if so: then writes are refused as soon as the current one is full.
    pub fn no_segment(&self) -> Option<Arc<LogError>> {
        self.commit.no_segment()
    }

    /// The failure that stopped the log, if it has stopped: it refuses every write from then on.
    pub fn failure(&self) -> Option<LogError> {
        self.directory.poison().check().err()
    }

    /// Whether a checkpoint would free space: some segments hold only records before it.
    pub fn is_trimmable(&self) -> bool {
        self.commit.tail().has_finished()
    }

    /// Takes a checkpoint: `scan` pushes every live item, while writers continue. A second caller waits for
    /// the first to finish.
    ///
    /// An item that changes meanwhile may be pushed in its old or new state: redo from the checkpoint's start corrects
    /// it. After an error the checkpoint before this one is still in force.
    pub fn checkpoint<E: From<LogError>>(
        &self,
        scan: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<CheckpointInfo, E> {
        // Before any lock: in a child made by `fork`, the thread that holds it may not exist.
        self.commit.check_process()?;
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        self.directory.poison().check()?;
        let id = manifest.checkpoint + 1;
        let name = checkpoint_name(id);
        let temporary = format!("{name}{TMP}");
        let written_before = self.commit.written();
        let info = match self.write_checkpoint(&manifest.store_id, id, &name, &temporary, scan) {
            Ok(info) => info,
            Err(error) => {
                self.directory.discard(&temporary);
                self.directory.discard(&name);
                self.directory.return_reserve();
                return Err(error);
            }
        };
        let first_segment = self.commit.tail().first_needed(info.start);
        let next = Manifest {
            generation: manifest.generation + 1,
            checkpoint: id,
            checkpoint_start: info.start,
            checkpoint_changes: info.changes,
            checkpoint_bytes: info.bytes,
            first_segment,
            ..manifest.clone()
        };
        if let Err(error) = next.write(&self.directory) {
            // A poisoned directory may hold either manifest, so either checkpoint may be the one in force.
            if !self.directory.poison().is_set() {
                self.directory.discard(&name);
                self.directory.return_reserve();
            }
            return Err(error.into());
        }
        let old = std::mem::replace(&mut *manifest, next);
        self.commit.checkpoint_done(written_before);
        // If a removal fails, the next opening removes the file.
        for number in self.commit.tail().forget_before(first_segment) {
            self.directory.discard(&segment_name(number));
        }
        if old.checkpoint != 0 {
            self.directory.discard(&checkpoint_name(old.checkpoint));
        }
        // The reserve first: without it, a disk that fills up again could not be recovered.
        self.directory.return_reserve();
        self.commit.retry_spare();
        Ok(info)
    }

    fn write_checkpoint<E: From<LogError>>(
        &self,
        store_id: &[u8; 16],
        id: u64,
        name: &str,
        temporary: &str,
        scan: impl FnOnce(&mut CheckpointWriter) -> Result<(), E>,
    ) -> Result<CheckpointInfo, E> {
        // Every record up to `start` must be in the image before the scan looks at it.
        let start = self.commit.last_lsn();
        self.wait_for_writers();
        // Left behind by an attempt whose own clean-up failed.
        self.directory.remove(temporary)?;
        let file = self.directory.with_reserve(|| self.directory.create(temporary))?;
        let mut writer = CheckpointWriter::new(&self.directory, file, store_id, id, start)?;
        scan(&mut writer)?;
        // The scan may have seen effects whose records are only now being appended. The checkpoint must not
        // outlive the log that leads up to them, or what survives would not be a prefix.
        self.wait_for_writers();
        let end = self.commit.last_lsn();
        self.commit.wait_durable(end)?;
        let info = writer.finish(end)?;
        self.directory.with_reserve(|| self.directory.rename(temporary, name))?;
        self.directory.sync(site::CHECKPOINT_DIR)?;
        Ok(info)
    }

    /// Returns when every writer has left that is inside at the time of the call.
    fn wait_for_writers(&self) {
        self.gate.wait_for_present();
        self.promised.wait_for_present();
    }

    /// Makes everything durable and marks the log as closed cleanly.
    ///
    /// A log that owes a checkpoint cannot be marked so and returns [`LogError::CheckpointNeeded`]: take the
    /// checkpoint first, or drop the log, and the next opening recovers it as after a crash.
    pub fn close(mut self) -> Result<(), LogError> {
        self.commit.check_process()?;
        self.flush()?;
        self.stop_flusher();
        self.directory.poison().check()?;
        if self.owes_checkpoint() {
            return Err(LogError::CheckpointNeeded);
        }
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Manifest {
            generation: manifest.generation + 1,
            clean_at: Some(self.last_lsn()),
            ..manifest.clone()
        };
        next.write(&self.directory)
    }

    fn stop_flusher(&mut self) {
        if let Some(flusher) = self.flusher.take() {
            self.commit.stop();
            // The thread returns nothing, and a panic in it has already poisoned the log.
            let _ = flusher.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.commit.is_in_its_process() {
            // A child made by `fork` does not have the thread.
            std::mem::forget(self.flusher.take());
        }
        self.stop_flusher();
    }
}

/// Finds a segment with a frame, or a checkpoint: files that require a manifest.
pub(crate) fn file_with_data(directory: &Directory, names: &[String]) -> Result<Option<String>, LogError> {
    for name in names {
        match FileName::parse(name) {
            FileName::Checkpoint(_) => return Ok(Some(name.clone())),
            FileName::Segment(_) => {
                let mut magic = [0; 4];
                let read = directory.open(name)?.read(&mut magic, PAGE)?;
                if magic[..read] == *FRAME_MAGIC {
                    return Ok(Some(name.clone()));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}
