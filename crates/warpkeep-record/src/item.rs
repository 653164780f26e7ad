//! The item of a key: a version and a value, in a record or in the slot.

use warpkeep_core::{Change, ChangeKind};
use warpkeep_image::{Image, Persist};

/// An item that was found.
#[derive(Clone, Copy, Debug)]
pub struct ItemRef {
    /// Its version.
    pub version: u64,
    /// Its value.
    pub value: ValueRef,
}

/// Where the value of an item is.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef {
    /// In a record, which stays as it is for as long as the epoch is pinned.
    Record {
        /// Its offset in the image.
        at: u64,
        /// Its length in bytes.
        len: usize,
    },
    /// Here, copied from its slot.
    Word {
        /// The value, and the bytes behind it.
        bytes: [u8; 8],
        /// Its length in bytes.
        len: u8,
    },
}

impl ValueRef {
    /// Bytes in the value.
    pub fn len(&self) -> usize {
        match *self {
            ValueRef::Record { len, .. } => len,
            ValueRef::Word { len, .. } => usize::from(len),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A value of a table, good for as long as it is borrowed.
#[derive(Clone, Copy)]
pub struct Value<'a, P: Persist> {
    image: &'a Image<P>,
    item: ItemRef,
    damaged: bool,
}

impl<'a, P: Persist> Value<'a, P> {
    /// The value of an item that was found, in this image, under the epoch that is pinned.
    pub fn new(image: &'a Image<P>, item: ItemRef) -> Value<'a, P> {
        Value { image, item, damaged: false }
    }

    /// The same, for a table that [checks](crate::Lookup) lookups.
    #[must_use]
    pub fn damaged(mut self, damaged: bool) -> Value<'a, P> {
        self.damaged = damaged;
        self
    }

    /// Whether it differs from the written value. Only tables that check lookups know: for others it is `false`.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The version of the item.
    pub fn version(&self) -> u64 {
        self.item.version
    }

    /// Bytes in the value.
    pub fn len(&self) -> usize {
        self.item.value.len()
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value itself.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.item.value {
            // SAFETY: a record that can be found is not written to, and it is not freed while the epoch that this
            // borrow belongs to is pinned.
            ValueRef::Record { at, len } => unsafe { self.image.bytes(*at, *len as u64) },
            ValueRef::Word { bytes, len } => &bytes[..usize::from(*len)],
        }
    }

    /// The change that puts this value under a key of a table: how scans give items out.
    #[inline]
    pub fn as_put<'v>(&'v self, table: u32, key: &'v [u8]) -> Change<'v> {
        Change { table, kind: ChangeKind::Put, version: self.version(), key, value: self.bytes() }
    }

    /// Copies the value.
    ///
    /// # Panics
    /// If the slice is not as long as the value.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        to.copy_from_slice(self.bytes());
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }
}
