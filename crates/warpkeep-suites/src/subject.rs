//! An index that is tested.

use std::fmt::Debug;
use std::sync::Arc;

use warpkeep_core::{KeySpec, ValueSpec};
use warpkeep_image::{Heap, ImageError, Persist};
use warpkeep_record::Kept;

/// An index in one of its forms.
pub trait Subject: Copy + Debug + Send + Sync + 'static {
    /// Its tables.
    type Table<P: Persist>: Kept<P, Error: From<ImageError>>;

    /// An empty table for such items.
    fn create<P: Persist>(
        self,
        heap: &Arc<Heap<P>>,
        items: (KeySpec, ValueSpec),
        capacity: u64,
    ) -> Result<Self::Table<P>, <Self::Table<P> as warpkeep_record::Staging<P>>::Error>;

    /// Whether tables of this form can hold such items.
    fn takes(self, _items: (KeySpec, ValueSpec)) -> bool {
        true
    }

    /// Whether such items lie in their slots, so that they take no block of the heap.
    fn in_slots(self, items: (KeySpec, ValueSpec)) -> bool;

    /// Keys of 8 bytes that are special to it, and are tried among the others.
    fn special_keys(self) -> &'static [u64] {
        &[]
    }

    /// Blocks of the heap that a small table has for itself.
    fn own_blocks(self) -> u64;

    /// Slots of a table for new items, or another number that grows and shrinks with them.
    fn slots<P: Persist>(table: &Self::Table<P>) -> u64;
}
