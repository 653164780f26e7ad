//! Group commit: many threads append, one of them writes for the whole group.

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

/// Waiters sleep by the number of their group, modulo this. A finished write then wakes only the waiters of its
/// group, and one waiter of the next group to lead it. They sleep on a counter instead of a condition variable, so
/// that a woken waiter need not take the lock to see that its record is durable.
const BEDS: usize = 4;
/// The most groups a leader writes before it returns to its caller.
const TURNS: u32 = 4;
/// How long to wait after a failed attempt before trying again to make a segment: on some file systems an attempt
/// takes as long as writing the whole segment.
const NEXT_ATTEMPT: Duration = Duration::from_millis(100);
/// Above this backlog the flusher does not wait for its interval.
const FLUSH_EARLY: u64 = 4 << 20;
/// Bits of [`Commit::unsettled`]; the other bits count bytes of records that were promised room and are not
/// appended yet.
const OWES_CHECKPOINT: u64 = 1 << 63;
const UNLOGGED: u64 = 1 << 62;

/// Where waiters sleep.
#[derive(Default)]
struct Bed {
    /// Counts wake-ups; the futex word the waiters sleep on.
    calls: AtomicU32,
    /// Waiters that sleep here, are about to sleep, or have just been woken.
    sleepers: AtomicU32,
}

/// The queue, and the state of the flusher.
struct Shared {
    queue: Queue,
    /// The flusher is idle and must be woken when there is work.
    flusher_idle: bool,
    spare_wanted: bool,
    /// When making a segment ahead of its use was last tried.
    spare_tried: Option<Instant>,
    stop: bool,
    /// Called when every visible effect is durable in the log, and before that stops being true.
    watch: Option<SettledWatch>,
    /// Whether the last call reported a settled log.
    told_settled: bool,
}

/// See [`Log::watch_settled`](crate::Log::watch_settled).
pub(crate) type SettledWatch = Box<dyn Fn(Option<Lsn>) + Send + Sync>;

impl Shared {
    /// Reports to the watcher that every visible effect is durable in the log, if it is.
    fn tell_settled(&mut self) {
        if let Some(watch) = &self.watch
            && self.queue.is_settled()
        {
            watch(Some(self.queue.durable()));
            self.told_settled = true;
        }
    }

    /// Reports to the watcher that an effect will be in the image before its record is in the log.
    fn tell_unsettled(&mut self) {
        if let Some(watch) = self.watch.as_ref().filter(|_| self.told_settled) {
            watch(None);
            self.told_settled = false;
        }
    }
}

/// The form of an appended record: a batch to copy, or a laid-out record with the checksum of its changes.
enum Appended<'a> {
    Batch(&'a ChangeBatch),
    Laid(LaidRecord, u32),
}

pub(crate) struct Commit {
    options: LogOptions,
    /// The process that opened the log. A forked child shares the files.
    owner: u32,
    poison: Poison,
    shared: Mutex<Shared>,
    beds: [Bed; BEDS],
    flusher: Condvar,
    durable: AtomicU64,
    /// The last record appended, and the effects that readers may see before their record exists. Stored under the
    /// lock, `last` before `unsettled`, and read without it in the other order: a reader that sees a promise kept
    /// also sees its record.
    last: AtomicU64,
    unsettled: AtomicU64,
    /// Bytes of frames written, including those present when the log was opened.
    written: AtomicU64,
    /// The value of `written` when the last checkpoint began.
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

    /// Appends a laid-out record.
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

    /// Appends a laid-out record that was promised room.
    pub(crate) fn append_laid_promised(
        &self,
        footprint: u64,
        record: LaidRecord,
        durability: Durability,
    ) -> Result<Lsn, LogError> {
        let summed = record.sum();
        self.keep_promise(footprint, summed.map(|crc| Appended::Laid(record, crc)), durability)
    }

    /// Makes sure that a segment has room for a record of `changes_len` bytes. A full disk shows here, where the
    /// batch can still be refused.
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

    /// The same, except for a record so small that [`Commit::back_pressure`] has provided for it: that makes the next
    /// segment when an eighth of the current one is left.
    pub(crate) fn make_room_if_large(&self, changes_len: usize) -> Result<(), LogError> {
        match worst_footprint(changes_len) <= self.options.segment_bytes / 16 {
            true => Ok(()),
            false => self.make_room(changes_len),
        }
    }

    /// Memory for laying out a record of `changes_len` bytes.
    pub(crate) fn take_buffer(&self, changes_len: usize) -> Vec<u8> {
        self.lock().queue.take_buffer(changes_len)
    }

    /// Stops the log for good.
    pub(crate) fn give_up(&self, error: LogError) -> LogError {
        let poisoned = self.poison.set(error);
        // Under the lock: a waiter either sees the error before it sleeps, or is woken.
        let _shared = self.lock();
        // The image or the log may hold part of the batch.
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

    /// Appends a record that was promised room. Its effects are already in the image. If it cannot be appended,
    /// readers see effects that no log record covers, so the log stops.
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
        // A caller that asks for `Power` will wait for its record and write it then.
        let unattended = durability == Durability::Process || shared.queue.backlog() > FLUSH_EARLY;
        if unattended && shared.flusher_idle {
            shared.flusher_idle = false;
            self.flusher.notify_one();
        }
        Ok(lsn)
    }

    /// Sets room aside for a batch, if the log would accept it now; returns the number of bytes.
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

    /// Publishes the state of the queue to threads that do not take the lock. The caller holds the lock.
    fn note(&self, queue: &Queue) {
        self.last.store(queue.last().bits(), Ordering::Release);
        let unlogged = self.unsettled.load(Ordering::Relaxed) & UNLOGGED;
        self.unsettled.store(unsettled(queue) | unlogged, Ordering::Release);
    }

    /// From now on `watch` is called when every visible effect is durable in the log, and before that stops being
    /// true.
    pub(crate) fn watch_settled(&self, watch: SettledWatch) {
        let mut shared = self.lock();
        shared.watch = Some(watch);
        shared.tell_settled();
    }

    /// Whether the image has, or is about to have, an effect whose record is not appended yet.
    pub(crate) fn has_promised(&self) -> bool {
        self.unsettled.load(Ordering::Acquire) & !(OWES_CHECKPOINT | UNLOGGED) != 0
    }

    /// The last record appended, if every effect that readers may see has its record. The caller has waited for the
    /// promises whose effects it may have seen.
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

    /// Records a complete checkpoint; `written_before` is the value of [`Commit::written`] when it began.
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

    /// The smallest first segment that an opening accepts.
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
        // A full disk should show here, where a writer can still be refused, and not in the middle of a write. If
        // the next segment is being made, wait for the result: if making it fails, a write admitted meanwhile would
        // find no room and stop the log.
        let short = shared.queue.is_short_of_room() && !self.maker.is_spare_ready();
        let try_now = match shared.queue.no_segment() {
            None => short,
            // Without a background thread, this caller must retry.
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

    /// Like the poison's own check, for a waiter that may have been woken to lead: it passes the wake-up on to the
    /// others.
    fn check(&self) -> Result<(), LogError> {
        self.poison.check().inspect_err(|_| self.wake_all())
    }

    /// Releases the lock and sleeps until the group is written or a leader is needed.
    fn sleep(&self, shared: MutexGuard<'_, Shared>, group: u64) {
        let bed = &self.beds[bed_of(group)];
        bed.sleepers.fetch_add(1, Ordering::Relaxed);
        // Read under the lock that also protects the increment, so that no later wake-up is missed.
        let calls = bed.calls.load(Ordering::Relaxed);
        drop(shared);
        atomic_wait::wait(&bed.calls, calls);
        bed.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Writes a group for all its waiters, and a few more groups if they are waiting: another leader would first
    /// have to be woken and scheduled, and the disk would idle meanwhile. No other thread may be writing.
    fn lead<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        let Some(mut group) = shared.queue.take() else { return shared };
        for turn in 1.. {
            let after_checkpoint = shared.queue.after_checkpoint();
            drop(shared);

            // If the disk panics, sleeping waiters must be woken.
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
            // Padded by now to its length in the file.
            self.written.fetch_add(group.frame.len() as u64, Ordering::Relaxed);
            shared.queue.finish(group.frame, group.summed.is_some());
            shared.queue.set_room(room);
            self.durable.store(group.last.bits(), Ordering::Release);
            if self.unsettled.load(Ordering::Relaxed) & UNLOGGED == 0 {
                shared.tell_settled();
            }
            let spare_wanted = wants_spare && !self.maker.has_spare();
            // Taken before the lock is released: from then on no other thread leads.
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
        // A failure is kept in the queue or poisons the log; the callers it affects get the error there.
        let _ = self.prepare_spare();
        self.lock()
    }

    /// Wakes the waiters of the group, and, if a leader is needed, first one waiter of a later group.
    ///
    /// The counts of sleepers are never too low, but may be too high for a moment. So one waiter is woken from
    /// every slot that seems occupied: any of them can lead, and without a leader the waiters would sleep forever.
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

    /// Tries again to make a segment after a failure: space may be free now.
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

    /// The loop of the flusher thread, until [`Commit::stop`].
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

/// The effects that readers may see before their record exists: see [`Commit::unsettled`].
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
