//! Reclamation: unlinked blocks are freed once no reader can hold them.
//!
//! Each heap has a domain of its own. Readers of the heap pin its domain; work that was deferred in it waits for them, and for no
//! reader of another heap. When the epochs show that a piece of work has waited long enough, the reader that
//! notices it only moves the work to a list. Calls on the heap do the work, so it cannot outlive the heap:
//! [`Heap`]'s drop does the rest.
//!
//! `crossbeam-epoch` keeps deferred functions with the thread that deferred them until it has 64 of them: a thread
//! that writes a little and then becomes idle would keep its blocks from all other threads. So work is collected in
//! lists first, which any thread can pass to the epochs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_epoch::{Collector, Guard, LocalHandle};

use super::Heap;
use crate::{ImageError, Owner, Persist};

/// Threads share this many lists of new work, so that they rarely wait for each other.
const LISTS: usize = 16;
/// Pieces of work that are handed to the epochs together.
const GROUP: usize = 64;
/// Groups that a writer completes for each one that it hands to the epochs: more than one, so that they do not pile up.
const GROUPS_PER_WRITER: usize = 2;
/// Attempts to move the epochs of a domain that is dropped.
const LAST_ATTEMPTS: usize = 1 << 10;

/// A function that is called with the heap.
type Call<P> = Box<dyn FnOnce(&Heap<P>) + Send>;

/// A piece of work on the heap.
enum Work<P: Persist> {
    /// Free these blocks.
    Free(Vec<u64>),
    /// Call this.
    Call(Call<P>),
}

type Group<P> = Vec<Work<P>>;

/// Groups of work that were passed to the epochs.
struct Groups<P: Persist> {
    /// By number, the groups that readers may still delay.
    handed: BTreeMap<u64, Group<P>>,
    /// The groups that no reader delays.
    ripe: Vec<Group<P>>,
    /// The next number.
    next: u64,
}

/// The state shared with the functions that are deferred in the epochs.
struct Shared<P: Persist> {
    owner: Owner,
    groups: Mutex<Groups<P>>,
    /// How many groups are ripe.
    ripe: AtomicUsize,
}

impl<P: Persist> Shared<P> {
    fn groups(&self) -> MutexGuard<'_, Groups<P>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No reader delays the group with this number any more.
    fn ripen(&self, number: u64) {
        // A child made by `fork` has the epochs, too; the thread that holds the lock may not exist there.
        if !self.owner.is_here() {
            return;
        }
        let mut groups = self.groups();
        if let Some(group) = groups.handed.remove(&number) {
            groups.ripe.push(group);
            self.ripe.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The epochs of a heap, which its readers pin. They can also be pinned when the heap is gone: a caller may find
/// that out only afterwards.
#[derive(Clone, Debug)]
pub struct Epochs {
    collector: Collector,
    /// Threads that have pinned the epochs see by it whether anything still refers to them.
    alive: Arc<()>,
}

/// The readers of a heap, and the work that waits for them.
pub(super) struct ReclaimDomain<P: Persist> {
    epochs: Epochs,
    shared: Arc<Shared<P>>,
    /// Work that has not been passed to the epochs yet.
    lists: [Mutex<Group<P>>; LISTS],
    /// Pieces of work that are not done yet.
    undone: AtomicUsize,
}

/// This thread as a reader of one domain.
struct Reader {
    handle: LocalHandle,
    domain: Weak<()>,
}

thread_local! {
    /// The domains that this thread has pinned.
    static READERS: RefCell<Vec<Reader>> = const { RefCell::new(Vec::new()) };
}

impl Epochs {
    /// Keeps the blocks that this thread finds in the heap from being freed, until the guard is dropped.
    #[inline]
    pub fn pin(&self) -> Guard {
        let known = READERS.try_with(|readers| {
            let readers = readers.try_borrow().ok()?;
            let reader = readers.iter().find(|reader| *reader.handle.collector() == self.collector)?;
            Some(reader.handle.pin())
        });
        match known {
            Ok(Some(guard)) => guard,
            _ => self.register(),
        }
    }

    /// Makes this thread a reader of the domain, and pins it.
    #[cold]
    fn register(&self) -> Guard {
        let handle = self.collector.register();
        let guard = handle.pin();
        let _ = READERS.try_with(|readers| {
            // Elsewhere on this thread's stack the list may be in use; then the guard alone keeps the registration.
            let Ok(mut readers) = readers.try_borrow_mut() else { return Vec::new() };
            let (known, gone): (Vec<Reader>, Vec<Reader>) =
                readers.drain(..).partition(|reader| Weak::strong_count(&reader.domain) > 0);
            *readers = known;
            readers.push(Reader { handle, domain: Arc::downgrade(&self.alive) });
            // Dropped when the list is no longer borrowed: the last reader of a domain drops its garbage.
            gone
        });
        guard
    }
}

impl<P: Persist> ReclaimDomain<P> {
    pub(super) fn new(owner: Owner) -> ReclaimDomain<P> {
        let groups = Groups { handed: BTreeMap::new(), ripe: Vec::new(), next: 0 };
        ReclaimDomain {
            epochs: Epochs { collector: Collector::new(), alive: Arc::default() },
            shared: Arc::new(Shared { owner, groups: Mutex::new(groups), ripe: AtomicUsize::new(0) }),
            lists: [const { Mutex::new(Vec::new()) }; LISTS],
            undone: AtomicUsize::new(0),
        }
    }

    fn defer(&self, work: Work<P>, guard: &Guard) -> bool {
        debug_assert!(
            guard.collector() == Some(&self.epochs.collector),
            "the guard pins another heap's domain"
        );
        self.undone.fetch_add(1, Ordering::Relaxed);
        let mut list = self.list(own_list());
        list.push(work);
        if list.len() < GROUP {
            return false;
        }
        let full = std::mem::take(&mut *list);
        drop(list);
        self.hand_on(full, guard);
        true
    }

    /// Passes a group to the epochs: it is ripe when all current readers have gone.
    fn hand_on(&self, group: Group<P>, guard: &Guard) {
        let number = {
            let mut groups = self.shared.groups();
            groups.next += 1;
            let number = groups.next;
            groups.handed.insert(number, group);
            number
        };
        let shared = Arc::downgrade(&self.shared);
        guard.defer(move || {
            if let Some(shared) = shared.upgrade() {
                shared.ripen(number);
            }
        });
        // Out of this thread's bag, which other threads cannot empty.
        guard.flush();
    }

    fn hand_on_all(&self) {
        let guard = self.epochs.pin();
        for number in 0..LISTS {
            let group = std::mem::take(&mut *self.list(number));
            if !group.is_empty() {
                self.hand_on(group, &guard);
            }
        }
        guard.flush();
    }

    fn take_ripe(&self) -> Option<Group<P>> {
        if self.shared.ripe.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let group = self.shared.groups().ripe.pop()?;
        self.shared.ripe.fetch_sub(1, Ordering::Relaxed);
        Some(group)
    }

    /// All work that is not done yet, whether it has waited long enough or not.
    fn take_all(&self) -> Vec<Group<P>> {
        let mut all: Vec<Group<P>> =
            (0..LISTS).map(|number| std::mem::take(&mut *self.list(number))).collect();
        let mut groups = self.shared.groups();
        all.extend(std::mem::take(&mut groups.handed).into_values());
        all.append(&mut groups.ripe);
        self.shared.ripe.store(0, Ordering::Relaxed);
        all
    }

    /// Runs functions deferred in the epochs themselves, which is memory of the process and not the heap's. Without readers a few attempts are
    /// enough; a thread that is just ending may be one for a moment, and then the last of them runs the rest.
    fn collect_memory(&self) {
        let last = Arc::new(AtomicBool::new(false));
        let is_last = Arc::clone(&last);
        self.epochs.pin().defer(move || is_last.store(true, Ordering::Relaxed));
        for _ in 0..LAST_ATTEMPTS {
            self.epochs.pin().flush();
            if last.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn list(&self, number: usize) -> MutexGuard<'_, Group<P>> {
        self.lists[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Persist> Heap<P> {
    /// Keeps the blocks that this thread finds in the heap from being freed, until the guard is dropped. It does
    /// not affect other heaps.
    #[inline]
    pub fn pin(&self) -> Guard {
        self.domain.epochs.pin()
    }

    /// The epochs that [`Heap::pin`] pins.
    pub fn epochs(&self) -> &Epochs {
        &self.domain.epochs
    }

    /// Frees blocks once no reader can hold them. They are unlinked, durably; the guard is one of this heap.
    pub fn retire(&self, blocks: Vec<u64>, guard: &Guard) {
        if !blocks.is_empty() {
            self.count_retired(blocks.len() as u64);
            self.defer_work(Work::Free(blocks), guard);
        }
    }

    /// Runs a function on the heap once no reader can hold blocks that were unlinked before this call. The function
    /// must not wait for a lock that a user of the heap may hold, and must not pin.
    pub fn defer(&self, work: impl FnOnce(&Heap<P>) + Send + 'static, guard: &Guard) {
        self.defer_work(Work::Call(Box::new(work)), guard);
    }

    fn defer_work(&self, work: Work<P>, guard: &Guard) {
        if self.domain.defer(work, guard) {
            self.do_ripe(GROUPS_PER_WRITER);
        }
    }

    /// Whether any work waits for readers, or has waited and is not done.
    pub fn has_deferred(&self) -> bool {
        self.domain.undone.load(Ordering::Relaxed) > 0
    }

    /// Frees replaced blocks that no reader can see any more, whichever thread replaced them; otherwise that
    /// happens in the course of later writes. All of them are free after a few calls, unless a reader stays pinned.
    pub fn reclaim(&self) {
        self.domain.hand_on_all();
        self.do_ripe(usize::MAX);
    }

    /// Does up to this many groups of work that no reader delays; returns whether there was one.
    pub(super) fn do_ripe(&self, most: usize) -> bool {
        let mut did = false;
        for group in std::iter::from_fn(|| self.domain.take_ripe()).take(most) {
            let freed = self.do_group(group);
            debug_assert!(freed.is_ok(), "{freed:?}");
            did = true;
        }
        did
    }

    /// Does all of a group; returns the first error, which tells of a damaged heap.
    fn do_group(&self, group: Group<P>) -> Result<(), ImageError> {
        let mut done = Ok(());
        for work in group {
            match work {
                Work::Free(blocks) => {
                    let count = blocks.len() as u64;
                    done = done.and(self.free_soon(blocks));
                    self.count_returned(count);
                }
                Work::Call(call) => call(self),
            }
            self.domain.undone.fetch_sub(1, Ordering::Relaxed);
        }
        done
    }
}

impl<P: Persist> Drop for Heap<P> {
    fn drop(&mut self) {
        // In a child made by `fork` the image is its parent's.
        if self.image.owner().is_here() {
            // The last owner drops it, so no reader is left. A block that cannot be freed was damaged: the next opening finds out, and a panic
            // here would hide what damaged it.
            self.domain.take_all().into_iter().for_each(|group| drop(self.do_group(group)));
            self.domain.collect_memory();
        }
    }
}

/// The list for this thread's work.
fn own_list() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LISTS);
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests;
