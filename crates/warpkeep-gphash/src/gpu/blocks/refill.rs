//! The refill thread of a block pool.
//!
//! To allocate a slab can make the image grow, and the new part of the image is registered with the device. That takes
//! far longer than a batch. The refill thread allocates slabs before a batch needs them; [`Refill::request`] sets how
//! many blocks it keeps ready.
//!
//! A failed allocation ends the current request and is not reported: a batch that needs blocks allocates a slab itself,
//! and returns the error. The thread holds the heap only while it allocates, so it does not keep a closed heap alive.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use warpkeep_image::{Heap, Persist, PoolId};

/// Contiguous blocks: the offset of the first, and their number.
pub(super) type Slab = (u64, u64);

#[derive(Default)]
struct State {
    slabs: Vec<Slab>,
    /// Blocks in `slabs`.
    blocks: u64,
    /// Blocks that are to be ready.
    target: u64,
    stopped: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there are fewer blocks than requested; `false` if the thread is to stop.
    fn wait_for_request(&self) -> bool {
        let is_idle = |state: &mut State| !state.stopped && state.blocks >= state.target;
        let state = self.changed.wait_while(self.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
        !state.stopped
    }
}

/// The refill thread, and the slabs that it has allocated.
pub(super) struct Refill {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Refill {
    /// Starts the thread, with no blocks requested.
    pub(super) fn start<P: Persist>(heap: &Weak<Heap<P>>, pool: PoolId) -> std::io::Result<Refill> {
        let shared = Arc::<Shared>::default();
        let (heap, thread_shared) = (Weak::clone(heap), Arc::clone(&shared));
        let refill = move || {
            while thread_shared.wait_for_request() {
                let Some(heap) = heap.upgrade() else { return };
                let slab = heap.allocate_slab(pool);
                let mut state = thread_shared.state();
                match slab {
                    Ok(slab) => {
                        state.blocks += slab.1;
                        state.slabs.push(slab);
                    }
                    Err(_) => state.target = 0,
                }
            }
        };
        let thread = std::thread::Builder::new().name("warpkeep-blocks".to_owned()).spawn(refill)?;
        Ok(Refill { shared, thread: Some(thread) })
    }

    /// Sets how many blocks the thread keeps ready.
    pub(super) fn request(&self, blocks: u64) {
        let mut state = self.shared.state();
        state.target = blocks;
        if state.blocks < blocks {
            self.shared.changed.notify_one();
        }
    }

    /// Takes slabs with at least this many blocks, or all slabs that are ready.
    pub(super) fn take(&self, blocks: u64) -> Vec<Slab> {
        let mut state = self.shared.state();
        let (mut taken, mut total) = (Vec::new(), 0);
        while total < blocks
            && let Some(slab) = state.slabs.pop()
        {
            total += slab.1;
            state.blocks -= slab.1;
            taken.push(slab);
        }
        taken
    }

    /// Stops the thread, and returns the slabs that no batch has taken.
    pub(super) fn stop_and_take(&mut self) -> Vec<Slab> {
        self.stop();
        self.take(u64::MAX)
    }

    fn stop(&mut self) {
        self.shared.state().stopped = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic. If it did, the slabs are still in the shared state.
            let _ = thread.join();
        }
    }
}

/// Stops the thread even if the heap is gone, and its slabs with it: otherwise it would wait forever.
impl Drop for Refill {
    fn drop(&mut self) {
        self.stop();
    }
}
