//! The duties of a persistent index: to be found, marked, scanned and redone.

use std::sync::Arc;

use warpkeep_core::Change;
use warpkeep_image::{Heap, Image, Marker, Persist};

use crate::Result;

/// The items of an index that lies in an image, as recovery and checkpoints see them.
pub trait Items<P: Persist>: Send + Sync + Sized {
    /// The parameters of a new index.
    type Config;

    /// Lays out an empty index and sets its roots.
    fn create(heap: &Arc<Heap<P>>, config: &Self::Config) -> Result<Self>;

    /// Marks everything reachable from the roots, and checks it on the way. Nothing may be changed.
    fn mark(image: &Image<P>, marker: &Marker<'_, P>) -> Result<()>;

    /// The index that [`Items::mark`] has just walked.
    fn attach(heap: &Arc<Heap<P>>) -> Result<Self>;

    /// Brings an item to the state of a change, unless it already has that state or a later one.
    fn redo(&self, change: &Change<'_>) -> Result<()>;

    /// Whether a change affects more than its own key: all changes before it are redone first, and none after it
    /// until it is done.
    fn stands_alone(_change: &Change<'_>) -> bool {
        false
    }

    /// About how many changes [`Items::scan`] returns, to show a checkpoint's progress; 0 if unknown.
    fn count(&self) -> u64 {
        0
    }

    /// Returns every item, while writers continue. An item that is there throughout is returned at least once; one
    /// that changes meanwhile is returned in its old or new state.
    fn scan(&self, each: &mut dyn FnMut(&Change<'_>) -> Result<()>) -> Result<()>;
}
