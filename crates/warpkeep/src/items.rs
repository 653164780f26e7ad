//! What an index must offer to be kept: be found, be marked, be scanned, be redone.

use std::sync::Arc;

use warpkeep_core::Change;
use warpkeep_image::{Heap, Image, Marker, Persist};

use crate::Result;

/// The items of an index that lies in an image, as recovery and checkpoints see them.
pub trait Items<P: Persist>: Send + Sync + Sized {
    /// What a new index is created with.
    type Config;

    /// Lays out an empty index and sets its roots.
    fn create(heap: &Arc<Heap<P>>, config: &Self::Config) -> Result<Self>;

    /// Marks everything that the roots lead to, and checks it on the way. Nothing may be changed.
    fn mark(image: &Image<P>, marker: &Marker<'_, P>) -> Result<()>;

    /// The index that [`Items::mark`] has just walked.
    fn attach(heap: &Arc<Heap<P>>) -> Result<Self>;

    /// Brings an item to the state that a change tells of, unless it is there or beyond already.
    fn redo(&self, change: &Change<'_>) -> Result<()>;

    /// Whether a change is about more than its own key: all changes before it are redone first, and none after it
    /// until it is.
    fn stands_alone(_change: &Change<'_>) -> bool {
        false
    }

    /// How many changes [`Items::scan`] gives out, about, for those who show how far a checkpoint is; 0 if that is not known.
    fn count(&self) -> u64 {
        0
    }

    /// Gives out every item, while writers go on. An item that is there throughout is given out at least once; one
    /// that changes meanwhile is given out as it was or as it is.
    fn scan(&self, each: &mut dyn FnMut(&Change<'_>) -> Result<()>) -> Result<()>;
}
