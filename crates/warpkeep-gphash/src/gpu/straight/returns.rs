//! Blocks of records that are gone, until they are used again. Batches note them one behind the other on a page; when it is closed, and nobody can be
//! reading any of those records any more, it is a list of blocks that are ready.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_epoch::Guard;
use warpkeep_device::{Buffer, DevicePtr};

use super::sorting::List;

/// Lists of blocks that nobody can be reading any more, and how many there are that somebody may be reading still.
#[derive(Default)]
struct Ready {
    lists: Mutex<Vec<List>>,
    pending: AtomicUsize,
}

impl Ready {
    fn lists(&self) -> MutexGuard<'_, Vec<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some blocks in device memory. Whoever may be reading a record of one of them keeps it.
struct Page {
    buffer: Option<Buffer>,
    noted: AtomicU64,
    ready: Weak<Ready>,
}

impl Drop for Page {
    fn drop(&mut self) {
        let count = *self.noted.get_mut();
        if let (Some(ready), Some(buffer), 1..) = (self.ready.upgrade(), self.buffer.take(), count) {
            ready.lists().push(List { buffer, count });
            ready.pending.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Blocks on their way to be used again.
#[derive(Default)]
pub(super) struct Returns {
    ready: Arc<Ready>,
    open: Option<Arc<Page>>,
}

impl Returns {
    /// Room for a batch to note so many blocks, on the open page; on a new one, of so many blocks or more, if it has not so much. `buffer` gives memory for so many.
    pub(super) fn room<E>(
        &mut self,
        count: u64,
        page: u64,
        buffer: impl FnOnce(u64) -> Result<Buffer, E>,
    ) -> Result<DevicePtr, E> {
        let has_room = |open: &Arc<Page>| open.len() >= 8 * (open.noted() + count);
        if !self.open.as_ref().is_some_and(has_room) {
            self.close();
            let buffer = Some(buffer(count.max(page))?);
            self.open =
                Some(Arc::new(Page { buffer, noted: AtomicU64::new(0), ready: Arc::downgrade(&self.ready) }));
        }
        Ok(self.open.as_ref().map_or(DevicePtr::NULL, |open| open.end()))
    }

    /// A batch has noted so many where it had [room](Returns::room). They can be used again once nobody can be reading them.
    pub(super) fn noted(&self, count: u64, guard: &Guard) {
        if let Some(open) = self.open.as_ref().filter(|_| count > 0) {
            open.noted.fetch_add(count, Ordering::Relaxed);
            let page = Arc::clone(open);
            guard.defer(move || drop(page));
            guard.flush();
        }
    }

    /// Blocks on the open page.
    pub(super) fn on_open_page(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.noted())
    }

    /// Blocks of lists that are ready.
    pub(super) fn ready(&self) -> u64 {
        self.ready.lists().iter().map(|list| list.count).sum()
    }

    /// Closes the page, if there is anything on it: it will be a list.
    pub(super) fn close(&mut self) {
        if self.on_open_page() > 0 {
            self.ready.pending.fetch_add(1, Ordering::Relaxed);
            self.open = None;
        }
    }

    /// Pages that are closed and not yet lists.
    pub(super) fn pending(&self) -> usize {
        self.ready.pending.load(Ordering::Relaxed)
    }

    /// All lists that are ready.
    pub(super) fn take(&mut self) -> Vec<List> {
        std::mem::take(&mut *self.ready.lists())
    }

    /// They were not needed after all.
    pub(super) fn put_back(&mut self, mut lists: Vec<List>) {
        self.ready.lists().append(&mut lists);
    }
}

impl Page {
    fn len(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    /// Where the next batch notes.
    fn end(&self) -> DevicePtr {
        self.buffer.as_ref().map_or(DevicePtr::NULL, |buffer| buffer.ptr().offset(8 * self.noted()))
    }
}
