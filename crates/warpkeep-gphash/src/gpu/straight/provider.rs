//! Slabs that are taken from the heap ahead of need, by a thread of its own: taking one can make the image grow, and what it grows by is
//! registered with the device, which takes far longer than a batch.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use warpkeep_image::{Heap, Persist, PoolId};

/// Blocks side by side: where the first is, and how many.
pub(super) type Slab = (u64, u64);

#[derive(Default)]
struct Store {
    slabs: Vec<Slab>,
    blocks: u64,
    /// Blocks that are to be there.
    wanted: u64,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    store: Mutex<Store>,
    changed: Condvar,
}

impl Shared {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until slabs are wanted; whether they ever are.
    fn is_wanted(&self) -> bool {
        let idle = |store: &mut Store| !store.ended && store.blocks >= store.wanted;
        let store = self.changed.wait_while(self.store(), idle).unwrap_or_else(PoisonError::into_inner);
        !store.ended
    }
}

/// The thread, and what it has taken.
pub(super) struct Provider {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    /// Begins, with nothing wanted.
    pub(super) fn start<P: Persist>(heap: &Weak<Heap<P>>, pool: PoolId) -> std::io::Result<Provider> {
        let shared = Arc::<Shared>::default();
        let (heap, theirs) = (Weak::clone(heap), Arc::clone(&shared));
        let provide = move || {
            while theirs.is_wanted() {
                let Some(heap) = heap.upgrade() else { return };
                let slab = heap.allocate_slab(pool);
                let mut store = theirs.store();
                match slab {
                    Ok(slab) => {
                        store.blocks += slab.1;
                        store.slabs.push(slab);
                    }
                    // Whoever needs one takes it himself, and is told.
                    Err(_) => store.wanted = 0,
                }
            }
        };
        let thread = std::thread::Builder::new().name("warpkeep-blocks".to_owned()).spawn(provide)?;
        Ok(Provider { shared, thread: Some(thread) })
    }

    /// Has so many blocks ready, soon.
    pub(super) fn want(&self, blocks: u64) {
        let mut store = self.shared.store();
        store.wanted = blocks;
        if store.blocks < blocks {
            self.shared.changed.notify_one();
        }
    }

    /// Slabs with so many blocks, or all there are.
    pub(super) fn take(&self, blocks: u64) -> Vec<Slab> {
        let mut store = self.shared.store();
        let (mut taken, mut total) = (Vec::new(), 0);
        while total < blocks
            && let Some(slab) = store.slabs.pop()
        {
            total += slab.1;
            store.blocks -= slab.1;
            taken.push(slab);
        }
        taken
    }

    /// Ends the thread; gives what is left.
    pub(super) fn end(&mut self) -> Vec<Slab> {
        self.stop();
        self.take(u64::MAX)
    }

    fn stop(&mut self) {
        self.shared.store().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, what it had taken is still there.
            let _ = thread.join();
        }
    }
}

/// Also where the heap is gone, and with it what was taken: the thread must not wait for ever, nor hold a heap that others have let go of.
impl Drop for Provider {
    fn drop(&mut self) {
        self.stop();
    }
}
