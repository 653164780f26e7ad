//! The keeper: an index in an image, with a log behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use warpkeep_core::{Durability, Lsn};
use warpkeep_device::fault_point;
use warpkeep_image::{Heap, Image, Owner, Persist};
use warpkeep_log::{ChangeBatch, CheckpointInfo, LaidRecord, Log, LogError};

use crate::checkpointer::Checkpoints;
use crate::read_only::Held;
use crate::{Error, Items, Result, metrics};

/// Items of a checkpoint after which it is noted how far it is.
const NOTED: u64 = 1024;

/// Versions of an opening that no write is admitted for any more: those that were admitted draw fewer, all together.
const VERSIONS_IN_PROGRESS: u64 = 1 << 36;

/// Keeps the items of an index through crashes of the process and of the machine.
///
/// The index applies changes and serialises the writers of a key; the keeper decides the order of log and image,
/// and thereby the meaning of an acknowledgement. See [`open`](crate::open) for recovery after a crash.
pub struct Keeper<P: Persist, I> {
    heap: Arc<Heap<P>>,
    items: I,
    log: Option<Log>,
    /// Why there is none, if the store has one that could not be opened for writing.
    only_reads: Option<Arc<LogError>>,
    versions: AtomicU64,
    /// Writes are admitted up to this version. Those of the next opening begin above it, and must be larger.
    last_admitted: u64,
    checkpoints: Arc<Checkpoints>,
    owner: Owner,
    /// If the store is opened for reading: the locks that keep writers out.
    held: Option<Held>,
}

impl<P: Persist, I: Items<P>> Keeper<P, I> {
    pub(crate) fn new(heap: Arc<Heap<P>>, items: I, log: Option<Log>, epoch: u64) -> Keeper<P, I> {
        let owner = heap.image().owner();
        let versions = AtomicU64::new(Lsn::new(epoch, 0).bits());
        let last_admitted = Lsn::new(epoch, Lsn::MAX_COUNTER - VERSIONS_IN_PROGRESS).bits();
        let checkpoints = Arc::default();
        if let Some(log) = &log {
            let image = Arc::clone(heap.image());
            log.watch_settled(move |up_to| image.set_settled(epoch, up_to));
        }
        Keeper { heap, items, log, only_reads: None, versions, last_admitted, checkpoints, owner, held: None }
    }

    /// The process that opened the store.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Refuses to work in a child of that process. Before any lock is taken: in a child, the thread that holds it
    /// may not exist.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        check_process(&self.owner)
    }

    /// A keeper that refuses all writes, because the log had no space to be opened with.
    pub(crate) fn only_reads(mut self, why: Arc<LogError>) -> Keeper<P, I> {
        self.only_reads = Some(why);
        self
    }

    /// Why all writes are refused, if they are.
    pub(crate) fn why_only_reads(&self) -> Option<&Arc<LogError>> {
        self.only_reads.as_ref()
    }

    /// One that refuses every write.
    pub(crate) fn read_only(heap: Arc<Heap<P>>, items: I, held: Held) -> Keeper<P, I> {
        let epoch = heap.image().epoch();
        Keeper { held: Some(held), ..Keeper::new(heap, items, None, epoch) }
    }

    /// Whether it refuses every write.
    pub fn is_read_only(&self) -> bool {
        self.held.is_some()
    }

    /// An error if it refuses every write.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// The index.
    pub fn items(&self) -> &I {
        &self.items
    }

    /// The space its items lie in.
    pub fn heap(&self) -> &Arc<Heap<P>> {
        &self.heap
    }

    /// The image.
    pub fn image(&self) -> &Arc<Image<P>> {
        self.heap.image()
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The log, for writing; an error if there is none.
    pub(crate) fn written_log(&self) -> Result<&Log> {
        self.log.as_ref().ok_or_else(|| self.no_log())
    }

    /// The strongest durability that it can promise.
    pub(crate) fn strongest(&self) -> Durability {
        if self.log.is_some() { Durability::Power } else { Durability::Process }
    }

    fn no_log(&self) -> Error {
        match &self.only_reads {
            Some(why) => Error::OnlyReads { why: Arc::clone(why) },
            None => Error::NoLog,
        }
    }

    /// A version larger than all before it, also those of earlier openings. Draw it while the key's writers are
    /// serialised, so that versions of a key grow in the order of its changes. The write has been
    /// [admitted](Keeper::admit), which keeps versions below those of the next opening.
    pub fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Reserves `count` consecutive versions for an admitted write; returns the first.
    pub fn next_versions(&self, count: u64) -> u64 {
        self.versions.fetch_add(count, Ordering::Relaxed) + 1
    }

    /// An error when the versions of this opening are nearly used up. A version of the next opening's range would let
    /// a rebuild take an older value for the newer one.
    fn check_versions(&self) -> Result<()> {
        match self.versions.load(Ordering::Relaxed) <= self.last_admitted {
            true => Ok(()),
            false => Err(Error::VersionsExhausted),
        }
    }

    /// Called before a write takes any lock: waits while too much is waiting to be logged, and takes the checkpoint
    /// that is owed after a re-attachment before `Power` can be promised again.
    pub fn admit(&self, durability: Durability) -> Result<()> {
        self.check_process()?;
        self.check_writable()?;
        self.check_versions()?;
        match (&self.log, durability) {
            (None, Durability::Process) if self.only_reads.is_none() => Ok(()),
            (None, _) => Err(self.no_log()),
            (Some(log), durability) => {
                log.back_pressure()?;
                if durability == Durability::Power && log.owes_checkpoint() {
                    self.checkpoint_if_owed(log)?;
                }
                Ok(())
            }
        }
    }

    /// The record up to which the log must be durable before a batch with this durability is answered, if the batch
    /// has read the current image without holding any key; `None` if it need not be. Takes the checkpoint that is
    /// owed after a re-attachment. The caller holds nothing that a writer needs between its effects and its record.
    pub(crate) fn seen(&self, durability: Durability) -> Result<Option<Lsn>> {
        match (&self.log, durability) {
            (None, Durability::Power) if self.only_reads.is_some() => Err(self.no_log()),
            (None, _) | (_, Durability::Process) => Ok(None),
            (Some(log), Durability::Power) => {
                if log.owes_checkpoint() {
                    self.checkpoint_if_owed(log)?;
                }
                Ok(Some(log.seen()?))
            }
        }
    }

    /// Returns when the log is durable up to the [seen](Keeper::seen) record.
    pub(crate) fn wait_seen(&self, seen: Option<Lsn>) -> Result<()> {
        match (&self.log, seen) {
            (Some(log), Some(seen)) => Ok(log.wait_durable(seen)?),
            _ => Ok(()),
        }
    }

    /// Returns when an answer may be given that depends only on the current image, and on no record logged for it.
    /// See [`Keeper::seen`] for what the caller must not hold.
    pub(crate) fn confirm(&self, durability: Durability) -> Result<()> {
        self.wait_seen(self.seen(durability)?)
    }

    /// Makes changes and acknowledges them by returning. The caller has been [admitted](Keeper::admit), excludes
    /// other writers of these keys until this has returned, and has prepared everything that can fail: `apply` must
    /// bring the image to the state of `changes`, durably, and cannot fail. Records of a key are then in the log in
    /// the order of its changes, and a `Power` commit makes everything durable that it has seen of the keys it
    /// holds.
    pub fn write<R>(
        &self,
        durability: Durability,
        changes: &ChangeBatch,
        apply: impl FnOnce() -> R,
    ) -> Result<R> {
        self.check_writable()?;
        let Some(log) = &self.log else {
            return match durability {
                Durability::Process if self.only_reads.is_none() => Ok(apply()),
                _ => Err(self.no_log()),
            };
        };
        // A full disk shows here, where the batch can still be refused.
        log.make_room_for(changes)?;
        match durability {
            Durability::Process => {
                // A batch that the log refuses must not take effect.
                let promise = log.promise(changes, durability)?;
                let applied = apply();
                log.append_promised(promise, changes, durability)?;
                Ok(applied)
            }
            Durability::Power => {
                let _inside = log.enter();
                let mut pending = self.image().claim_pending()?;
                let lsn = log.append(changes, durability, |lsn| pending.name(lsn))?;
                log.wait_durable(lsn)?;
                let applied = apply();
                pending.finish();
                Ok(applied)
            }
        }
    }

    /// The same for a batch that a device has decided, and whose changes are laid out by several threads: `lay`
    /// returns the record that `fill` fills. `apply` receives work that it may do while the device writes, and must
    /// bring the image to the state of the record; if it cannot, it has stopped the log.
    pub(crate) fn write_laid<R>(
        &self,
        durability: Durability,
        lay: impl FnOnce(&Log) -> Result<LaidRecord>,
        fill: impl FnOnce(&mut LaidRecord),
        apply: impl FnOnce(&mut dyn FnMut()) -> Result<R>,
    ) -> Result<R> {
        let log = self.written_log()?;
        let mut record = lay(log)?;
        log.make_room(record.bytes())?;
        match durability {
            Durability::Process => {
                // A batch that the log refuses must not take effect.
                let promise = log.promise_bytes(record.bytes(), durability)?;
                let mut fill = Some(fill);
                let applied = apply(&mut || {
                    if let Some(fill) = fill.take() {
                        fill(&mut record);
                    }
                })?;
                if let Some(fill) = fill {
                    fill(&mut record);
                }
                log.append_laid_promised(promise, record, durability)?;
                Ok(applied)
            }
            Durability::Power => {
                let _inside = log.enter();
                fill(&mut record);
                let mut pending = self.image().claim_pending()?;
                let mut apply = Some(apply);
                let mut applied = None;
                if fault_point!("log.durable_before_publish") {
                    applied = apply.take().map(|apply| apply(&mut || ())).transpose()?;
                }
                let lsn = log.append_laid(record, durability, |lsn| pending.name(lsn))?;
                log.wait_durable(lsn)?;
                if fault_point!("log.named_until_published") {
                    pending.finish();
                    pending = self.image().claim_pending()?;
                }
                if let Some(apply) = apply {
                    applied = Some(apply(&mut || ())?);
                }
                pending.finish();
                applied.ok_or_else(|| Error::Invalid("a batch was not applied".into()))
            }
        }
    }

    /// The checkpoints of this store.
    pub(crate) fn checkpoints(&self) -> &Arc<Checkpoints> {
        &self.checkpoints
    }

    /// Writes all items to a checkpoint, while writers continue, and trims the log. There is one at a time: while
    /// another one runs, this waits for it; callers that wait together share the next one.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        self.check_process()?;
        self.check_writable()?;
        let log = self.written_log()?;
        self.checkpoints.run(|| self.make_checkpoint(log))
    }

    /// Takes the checkpoint that is owed after a re-attachment, unless the one in progress is it.
    pub(crate) fn checkpoint_if_owed(&self, log: &Log) -> Result<()> {
        self.checkpoints.run_while(|| log.owes_checkpoint(), || self.make_checkpoint(log))
    }

    fn make_checkpoint(&self, log: &Log) -> Result<CheckpointInfo> {
        let begun = Instant::now();
        self.checkpoints.expect(self.items.count());
        let info = log.checkpoint(|writer| {
            self.items.scan(&mut |change| match self.checkpoints.is_cancelled() {
                false => {
                    writer.push(change)?;
                    if writer.changes().is_multiple_of(NOTED) {
                        self.checkpoints.note_written(writer.changes());
                    }
                    Ok(())
                }
                true => {
                    Err(Error::Invalid("the checkpoint was given up, because the store is closed".into()))
                }
            })
        })?;
        metrics::checkpoint(&info, begun.elapsed());
        Ok(info)
    }

    /// Makes everything written so far survive the machine.
    pub fn flush(&self) -> Result<()> {
        self.check_process()?;
        self.check_writable()?;
        match &self.log {
            None => Err(self.no_log()),
            Some(log) => {
                // One that is in progress may have begun before the newest writes: the flush makes them durable.
                self.checkpoint_if_owed(log)?;
                Ok(log.flush()?)
            }
        }
    }

    /// Closes the store. Dropping it instead leaves the image unclosed: nothing acknowledged is lost and other
    /// processes can open it at once, but the next opening takes longer, as after a crash.
    pub fn close(self) -> Result<()> {
        if let Err(error) = self.check_process() {
            // All of it is its parent's.
            std::mem::forget(self);
            return Err(error);
        }
        if let Some(log) = &self.log {
            self.checkpoint_if_owed(log)?;
        }
        let Keeper { heap, items, log, .. } = self;
        drop(items);
        let last_lsn = match log {
            None => Lsn::ZERO,
            Some(log) => {
                let last = log.last_lsn();
                log.close()?;
                last
            }
        };
        // The log first: an image that is marked as closed cleanly vouches for its log, too.
        let image = Arc::clone(heap.image());
        // With the heap, what still waits for readers is freed, while the image is mapped.
        drop(heap);
        let in_use = || Error::Invalid("the store is still in use; drop what refers to it first".into());
        Ok(Arc::into_inner(image).ok_or_else(in_use)?.close(last_lsn.bits())?)
    }
}

/// Refuses to work in a child of the owning process.
#[inline]
pub(crate) fn check_process(owner: &Owner) -> Result<()> {
    if owner.is_here() { Ok(()) } else { Err(Error::Forked { pid: owner.pid() }) }
}
