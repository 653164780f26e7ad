//! Records that are gone, freed once nobody can see them.

use std::sync::Arc;

use crossbeam_epoch::Guard;
use warpkeep_image::{Heap, Persist};

/// Frees records once no reader can hold them.
pub fn retire<P: Persist>(heap: &Arc<Heap<P>>, offsets: Vec<u64>, guard: &Guard) {
    if offsets.is_empty() {
        return;
    }
    guard.defer(heap.later(move |heap| {
        let freed = heap.free_soon(offsets);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }));
}

/// Frees some of what was replaced and can no longer be seen; otherwise that happens in the course of later writes.
pub fn hasten_freeing() {
    crossbeam_epoch::pin().flush();
}
