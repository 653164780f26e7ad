//! Group commit: many threads append, one of them writes for all.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpkeep_core::{Durability, Lsn};

use crate::batch::ChangeBatch;
use crate::error::LogError;
use crate::files::{Directory, Poison};
use crate::laid::LaidRecord;
use crate::options::LogOptions;
use crate::queue::{Queue, worst_footprint};
use crate::segment::{SMALL_SEGMENT, SegmentMaker};
use crate::tail::Tail;

/// Waiters sleep by the group they wait for, modulo this: a finished write then wakes those it concerns, and one of
/// the next group to lead, instead of everyone. They sleep on a counter rather than on a condition variable, so
/// that they need not queue for the lock only to learn that they are done.
const BEDS: usize = 4;
/// How many groups a leader writes at most before it goes back to its own work.
const TURNS: u32 = 4;
/// How long it is not tried again to make a segment after that failed: on some file systems an attempt takes as long as
/// writing all of it.
const NEXT_ATTEMPT: Duration = Duration::from_millis(100);
/// Above this backlog the flusher does not wait for its interval.
const FLUSH_EARLY: u64 = 4 << 20;
/// Bits of [`Commit::unsettled`]; the others count bytes of records that were promised room and have not come yet.
const OWES_CHECKPOINT: u64 = 1 << 63;
const UNLOGGED: u64 = 1 << 62;

/// Where waiters sleep.
#[derive(Default)]
struct Bed {
    /// Counts wake-ups; what they sleep on.
    calls: AtomicU32,
    /// How many sleep here, or are about to, or have just been woken.
    sleepers: AtomicU32,
}

/// The queue, and what the flusher is to do.
struct Shared {
    queue: Queue,
    /// The flusher has nothing to do and wants to be told when there is.
    flusher_idle: bool,
    spare_wanted: bool,
    /// When it was tried last to make a segment ahead of its use.
    spare_tried: Option<Instant>,
    stop: bool,
    /// Called when the log has everything, and before it no longer has.
    watch: Option<SettledWatch>,
    /// What it was called with last.
    told_settled: bool,
}

/// See [`Log::watch_settled`](crate::Log::watch_settled).
pub(crate) type SettledWatch = Box<dyn Fn(Option<Lsn>) + Send + Sync>;

impl Shared {
    /// Tells that everything is in the log and durable, if it is.
    fn tell_settled(&mut self) {
        if let Some(watch) = &self.watch
            && self.queue.is_settled()
        {
            watch(Some(self.queue.durable()));
            self.told_settled = true;
        }
    }

    /// Tells that something will be in the image before it is in the log.
    fn tell_unsettled(&mut self) {
        if let Some(watch) = self.watch.as_ref().filter(|_| self.told_settled) {
            watch(None);
            self.told_settled = false;
        }
    }
}

/// What is appended: a batch that is copied, or a record that is laid out, with the sum of its changes.
enum Appended<'a> {
    Batch(&'a ChangeBatch),
    Laid(LaidRecord, u32),
}

pub(crate) struct Commit {
    options: LogOptions,
    /// The process that opened the log. A child of it shares the files.
    owner: u32,
    poison: Poison,
    shared: Mutex<Shared>,
    beds: [Bed; BEDS],
    flusher: Condvar,
    durable: AtomicU64,
    /// The last record appended, and what readers may see that no record tells of. Stored under the lock, the former before
    /// the latter, and read without it in the other order: a promise that is seen to be kept has its record.
    last: AtomicU64,
    unsettled: AtomicU64,
    /// Bytes of frames written, those at hand when the log was opened among them.
    written: AtomicU64,
    /// What it was when the last checkpoint began.
    written_before_checkpoint: AtomicU64,
    tail: Mutex<Tail>,
    maker: SegmentMaker,
}

impl Commit {
    pub(crate) fn new(
        directory: &Directory,
        options: LogOptions,
        queue: Queue,
        tail: Tail,
        maker: SegmentMaker,
        since_checkpoint: u64,
    ) -> Commit {
        let durable = AtomicU64::new(queue.durable().bits());
        let last = AtomicU64::new(queue.last().bits());
        let unsettled = AtomicU64::new(unsettled(&queue));
        Commit {
            options,
            owner: std::process::id(),
            poison: directory.poison().clone(),
            shared: Mutex::new(Shared {
                queue,
                flusher_idle: false,
                spare_wanted: false,
                spare_tried: None,
                stop: false,
                watch: None,
                told_settled: false,
            }),
            beds: Default::default(),
            flusher: Condvar::new(),
            durable,
            last,
            unsettled,
            written: AtomicU64::new(since_checkpoint),
            written_before_checkpoint: AtomicU64::new(0),
            tail: Mutex::new(tail),
            maker,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic under this lock can only come from the caller's `on_lsn`, which runs before anything is changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to do anything to the files in a child of the process that opened them.
    pub(crate) fn check_process(&self) -> Result<(), LogError> {
        if self.is_in_its_process() { Ok(()) } else { Err(LogError::Forked { pid: self.owner }) }
    }

    pub(crate) fn is_in_its_process(&self) -> bool {
        self.owner == std::process::id()
    }

    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn append(
        &self,
        batch: &ChangeBatch,
        durability: Durability,
        on_lsn: impl FnOnce(Lsn),
    ) -> Result<Lsn, LogError> {
        self.check_size(batch.bytes().len())?;
        self.append_to(self.lock(), Appended::Batch(batch), durability, on_lsn)
    }

    /// Appends a record that is laid out.
    pub(crate) fn append_laid(
        &self,
        record: LaidRecord,
        durability: Durability,
        on_lsn: impl FnOnce(Lsn),
    ) -> Result<Lsn, LogError> {
        self.check_size(record.changes_len())?;
        let crc = record.sum()?;
        self.append_to(self.lock(), Appended::Laid(record, crc), durability, on_lsn)
    }

    /// The same, if it was promised room.
    pub(crate) fn append_laid_promised(
        &self,
        footprint: u64,
        record: LaidRecord,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        let summed = record.sum();
        self.keep_promise(footprint, summed.map(|crc| Appended::Laid(record, crc)), durability)
    }

    /// Has a segment ready that has room for a record of so many bytes: a full disk is found here, where it can still be refused.
    pub(crate) fn make_room(&self, changes_len: usize) -> Result<(), LogError> {
        self.check_size(changes_len)?;
        self.poison.check()?;
        self.check_process()?;
        if self.lock().queue.has_room_for(changes_len) {
            return Ok(());
        }
        let made = self.maker.prepare_for(worst_footprint(changes_len));
        self.poison.check()?;
        made.map_err(|cause| LogError::NoSegment { cause: Arc::new(cause) })
    }

    /// Memory for a record of so many bytes that is to be laid out.
    pub(crate) fn take_buffer(&self, changes_len: usize) -> Vec<u8> {
        self.lock().queue.take_buffer(changes_len)
    }

    /// Nothing more is to be done with this log.
    pub(crate) fn give_up(&self, error: LogError) -> LogError {
        let poisoned = self.poison.set(error);
        // Under the lock, so that nobody falls asleep who has not seen it.
        let _shared = self.lock();
        // The image may have a part of it, or the log.
        self.unsettled.fetch_or(UNLOGGED, Ordering::Release);
        self.wake_all();
        poisoned
    }

    /// Appends a batch that was promised room.
    pub(crate) fn append_promised(
        &self,
        footprint: u64,
        batch: &ChangeBatch,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        self.keep_promise(footprint, Ok(Appended::Batch(batch)), durability)
    }

    /// Appends what was promised room. Its effects are in the image already: if it cannot be appended, nothing that readers see
    /// can be vouched for any more, and the log stops.
    fn keep_promise(
        &self,
        footprint: u64,
        appended: Result<Appended<'_>, LogError>,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        let mut shared = self.lock();
        shared.queue.redeem(footprint);
        let done = appended.and_then(|appended| self.append_to(shared, appended, durability, |_| ()));
        done.map_err(|error| {
            let _shared = self.lock();
            self.unsettled.fetch_or(UNLOGGED, Ordering::Release);
            let poisoned = self.poison.set(error);
            self.wake_all();
            poisoned
        })
    }

    fn append_to(
        &self,
        mut shared: MutexGuard<'_, Shared>,
        appended: Appended<'_>,
        durability: Durability,
        on_lsn: impl FnOnce(Lsn),
    ) -> Result<Lsn, LogError> {
        self.poison.check()?;
        let changes_len = match &appended {
            Appended::Batch(batch) => batch.bytes().len(),
            Appended::Laid(record, _) => record.changes_len(),
        };
        let lsn = shared.queue.next_lsn(changes_len, durability)?;
        if durability == Durability::Process {
            shared.tell_unsettled();
        }
        on_lsn(lsn);
        match appended {
            Appended::Batch(batch) => shared.queue.push(lsn, batch, durability),
            Appended::Laid(record, crc) => shared.queue.push_laid(lsn, record, crc, durability),
        }
        self.note(&shared.queue);
        // Someone who asks for `Power` will come and wait, and writes then.
        let unattended = durability == Durability::Process || shared.queue.backlog() > FLUSH_EARLY;
        if unattended && shared.flusher_idle {
            shared.flusher_idle = false;
            self.flusher.notify_one();
        }
        Ok(lsn)
    }

    /// Sets room aside for a batch, if it would be taken now; gives how much.
    pub(crate) fn promise(&self, changes_len: usize, durability: Durability) -> Result<u64, LogError> {
        self.check_size(changes_len)?;
        let mut shared = self.lock();
        self.poison.check()?;
        shared.queue.next_lsn(changes_len, durability)?;
        let footprint = shared.queue.promise(changes_len);
        shared.tell_unsettled();
        self.note(&shared.queue);
        Ok(footprint)
    }

    pub(crate) fn withdraw(&self, footprint: u64) {
        let mut shared = self.lock();
        shared.queue.redeem(footprint);
        self.note(&shared.queue);
    }

    /// Tells those who do not take the lock how the queue stands. The caller has the lock.
    fn note(&self, queue: &Queue) {
        self.last.store(queue.last().bits(), Ordering::Release);
        let unlogged = self.unsettled.load(Ordering::Relaxed) & UNLOGGED;
        self.unsettled.store(unsettled(queue) | unlogged, Ordering::Release);
    }

    /// From now on `watch` is called when the log has everything, and before it no longer has.
    pub(crate) fn watch_settled(&self, watch: SettledWatch) {
        let mut shared = self.lock();
        shared.watch = Some(watch);
        shared.tell_settled();
    }

    /// Whether something is in the image, or about to be, whose record is still to come.
    pub(crate) fn has_promised(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) & !(OWES_CHECKPOINT | UNLOGGED) != 0
    }

    /// The last record appended, if every effect that readers may see has its record. The caller has waited for the promises that
    /// it may have seen the effects of.
    pub(crate) fn appended(&self) -> Result<Lsn, LogError> {
        if self.unsettled.load(Ordering::Acquire) & UNLOGGED != 0 {
            self.poison.check()?;
        }
        Ok(Lsn::from_bits(self.last.load(Ordering::Acquire)))
    }

    fn check_size(&self, changes_len: usize) -> Result<(), LogError> {
        let (bytes, limit) = (changes_len as u64, self.options.max_batch_bytes);
        if bytes > limit { Err(LogError::BatchTooLarge { bytes, limit }) } else { Ok(()) }
    }

    pub(crate) fn last_lsn(&self) -> Lsn {
        self.lock().queue.last()
    }

    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn::from_bits(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn owes_checkpoint(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) & OWES_CHECKPOINT != 0
    }

    /// Notes a complete checkpoint; `written_before` is what [`Commit::written`] was when it began.
    pub(crate) fn checkpoint_done(&self, written_before: u64) {
        self.written_before_checkpoint.store(written_before, Ordering::Relaxed);
        let mut shared = self.lock();
        shared.queue.checkpoint_done();
        self.note(&shared.queue);
        shared.tell_settled();
    }

    /// The permissions of new files.
    pub(crate) fn file_mode(&self) -> u32 {
        self.options.file_mode
    }

    /// The least that an opening makes its first segment of.
    pub(crate) fn first_segment_bytes(&self) -> u64 {
        self.options.segment_bytes.min(SMALL_SEGMENT)
    }

    /// Why there is no further segment, if there is none.
    pub(crate) fn no_segment(&self) -> Option<Arc<LogError>> {
        self.lock().queue.no_segment().cloned()
    }

    /// Bytes of frames written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes of frames written since the last checkpoint began.
    pub(crate) fn since_checkpoint(&self) -> u64 {
        self.written().saturating_sub(self.written_before_checkpoint.load(Ordering::Relaxed))
    }

    pub(crate) fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        if self.durable_lsn() >= lsn {
            return Ok(());
        }
        let mut shared = self.lock();
        let last = shared.queue.last();
        if lsn > last {
            return Err(LogError::NotAppended { asked: lsn, last });
        }
        loop {
            if shared.queue.durable() >= lsn {
                return Ok(());
            }
            self.check()?;
            if shared.queue.is_writing() {
                let group = shared.queue.group_of(lsn);
                self.sleep(shared, group);
                if self.durable_lsn() >= lsn {
                    return Ok(());
                }
                shared = self.lock();
            } else {
                shared = self.lead(shared);
            }
        }
    }

    pub(crate) fn back_pressure(&self) -> Result<(), LogError> {
        let mut shared = self.lock();
        // A full disk should be found here, where a writer can still be refused, and not in the middle of a write.
        // If the next segment is just being made, what comes of it is waited for: where it fails, a write that had come
        // further would find no room and stop the log.
        let short = shared.queue.is_short_of_room() && !self.maker.is_spare_ready();
        let try_now = match shared.queue.no_segment() {
            None => short,
            // Without a thread there is no other to try again.
            Some(_) => {
                !self.options.background
                    || shared.spare_tried.is_none_or(|at| at.elapsed() >= NEXT_ATTEMPT)
                    || self.maker.has_space()
            }
        };
        if try_now {
            drop(shared);
            self.prepare_spare()?;
            shared = self.lock();
        }
        while shared.queue.backlog() > self.options.backlog_bytes {
            self.check()?;
            shared = match shared.queue.group_in_flight() {
                Some(group) => {
                    self.sleep(shared, group);
                    self.lock()
                }
                None => self.lead(shared),
            };
        }
        self.poison.check()
    }

    /// Like the poison's own check, for someone who may have been woken to lead: others must learn of it too.
    fn check(&self) -> Result<(), LogError> {
        self.poison.check().inspect_err(|_| self.wake_all())
    }

    /// Gives up the lock and sleeps until the group is written, or someone is wanted to lead.
    fn sleep(&self, shared: MutexGuard<'_, Shared>, group: u64) {
        let bed = &self.beds[bed_of(group)];
        bed.sleepers.fetch_add(1, Ordering::Relaxed);
        // Read under the lock, under which it is also counted up: a call from now on is not missed.
        let calls = bed.calls.load(Ordering::Relaxed);
        drop(shared);
        atomic_wait::wait(&bed.calls, calls);
        bed.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Writes a group for everyone in it, and a few more if they are waiting: another leader would first have to be
    /// woken and given a processor, and the disk would stand still meanwhile. Nobody else may be writing.
    fn lead<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        let Some(mut group) = shared.queue.take() else { return shared };
        for turn in 1.. {
            let after_checkpoint = shared.queue.after_checkpoint();
            drop(shared);

            // If the disk panics, those who sleep must not sleep for ever.
            let on_panic = WakeOnPanic { commit: self };
            let mut tail = self.tail();
            let checked = self.poison.check().and_then(|()| self.check_process());
            let written = checked.and_then(|()| tail.write(&self.maker, &mut group, after_checkpoint));
            let (room, wants_spare) = (tail.room(), tail.wants_spare());
            drop(tail);
            std::mem::forget(on_panic);

            shared = self.lock();
            if let Err(error) = written {
                self.poison.set(error);
                shared.queue.abandon();
                self.wake_all();
                return shared;
            }
            // Padded by now to what it takes in the file.
            self.written.fetch_add(group.frame.len() as u64, Ordering::Relaxed);
            shared.queue.finish(group.frame, group.summed.is_some());
            shared.queue.set_room(room);
            self.durable.store(group.last.bits(), Ordering::Release);
            if self.unsettled.load(Ordering::Relaxed) & UNLOGGED == 0 {
                shared.tell_settled();
            }
            let spare_wanted = wants_spare && !self.maker.has_spare();
            // Taken before the lock is let go: from then on nobody else leads.
            let next = if turn < TURNS && !spare_wanted { shared.queue.take() } else { None };
            shared = self.wake(shared, group.seq, next.is_none());
            if spare_wanted {
                shared = self.want_spare(shared);
            }
            match next {
                Some(next) => group = next,
                None => break,
            }
        }
        shared
    }

    /// Has the next segment made.
    fn want_spare<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        if self.options.background {
            shared.spare_wanted = true;
            self.flusher.notify_one();
            return shared;
        }
        drop(shared);
        // A failure is kept in the queue, or poisons; whoever is concerned will be told there.
        let _ = self.prepare_spare();
        self.lock()
    }

    /// Wakes those who waited for the group, and, if a leader is wanted, first one of those after it.
    ///
    /// The counts of sleepers are never too low, but may be too high for a moment. So one is called from every bed
    /// that seems taken: any of them will lead, and it would be fatal if none did.
    fn wake<'a>(
        &'a self,
        shared: MutexGuard<'a, Shared>,
        seq: u64,
        leader_wanted: bool,
    ) -> MutexGuard<'a, Shared> {
        let taken = |ahead: u64| {
            let bed = &self.beds[bed_of(seq + ahead)];
            let called = (ahead == 0 || leader_wanted) && bed.sleepers.load(Ordering::Relaxed) > 0;
            if called {
                bed.calls.fetch_add(1, Ordering::Relaxed);
            }
            called.then_some(bed)
        };
        let beds: [Option<&Bed>; BEDS] = std::array::from_fn(|ahead| taken(ahead as u64));
        if beds.iter().all(Option::is_none) {
            return shared;
        }
        drop(shared);
        let [own, later @ ..] = beds;
        later.into_iter().flatten().for_each(|bed| atomic_wait::wake_one(&bed.calls));
        own.into_iter().for_each(|bed| atomic_wait::wake_all(&bed.calls));
        self.lock()
    }

    fn wake_all(&self) {
        for bed in &self.beds {
            bed.calls.fetch_add(1, Ordering::Relaxed);
            atomic_wait::wake_all(&bed.calls);
        }
        self.flusher.notify_all();
    }

    /// Makes the next segment ahead of time. If that fails, appends are accepted only as far as they surely fit.
    pub(crate) fn prepare_spare(&self) -> Result<(), LogError> {
        self.poison.check()?;
        self.check_process()?;
        let made = self.maker.prepare();
        self.poison.check()?;
        let cause = made.err().map(Arc::new);
        let mut shared = self.lock();
        shared.spare_wanted = false;
        shared.spare_tried = Some(Instant::now());
        shared.queue.set_no_segment(cause);
        Ok(())
    }

    /// Tries again for a segment if there was none to be had: some space may be free now.
    pub(crate) fn retry_spare(&self) {
        let wanted = self.lock().queue.no_segment().is_some();
        if wanted {
            let _ = self.prepare_spare();
        }
    }

    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.flusher.notify_all();
    }

    /// What the flusher's thread does until [`Commit::stop`].
    pub(crate) fn run_flusher(&self) {
        let interval = self.options.flush_interval;
        let mut shared = self.lock();
        while !shared.stop && !self.poison.is_set() {
            if shared.spare_wanted {
                drop(shared);
                let _ = self.prepare_spare();
                shared = self.lock();
            } else if shared.queue.has_work() {
                let target = shared.queue.last();
                let deadline = Instant::now() + interval;
                while !shared.stop && shared.queue.durable() < target && shared.queue.backlog() <= FLUSH_EARLY
                {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    shared = self.doze(shared, left);
                }
                if !shared.stop {
                    drop(shared);
                    // A failure poisons the log, and the loop ends.
                    let _ = self.wait_durable(target);
                    shared = self.lock();
                }
            } else if shared.queue.no_segment().is_some() {
                shared = self.doze(shared, NEXT_ATTEMPT);
                shared.spare_wanted = true;
            } else {
                shared.flusher_idle = true;
                shared = self.flusher.wait(shared).unwrap_or_else(PoisonError::into_inner);
                shared.flusher_idle = false;
            }
        }
    }

    fn doze<'a>(&'a self, shared: MutexGuard<'a, Shared>, time: Duration) -> MutexGuard<'a, Shared> {
        self.flusher.wait_timeout(shared, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// What readers may see that no record tells of: see [`Commit::unsettled`].
fn unsettled(queue: &Queue) -> u64 {
    queue.promised() | if queue.after_checkpoint() == 0 { 0 } else { OWES_CHECKPOINT }
}

fn bed_of(group: u64) -> usize {
    (group % BEDS as u64) as usize
}

struct WakeOnPanic<'a> {
    commit: &'a Commit,
}

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        let source = io::Error::other("the disk's code panicked");
        self.commit.poison.set(LogError::io("write", "the log", source));
        self.commit.lock().queue.abandon();
        self.commit.wake_all();
    }
}
