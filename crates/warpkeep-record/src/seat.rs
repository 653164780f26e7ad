//! The result of searching for a key.

use warpkeep_image::{Image, Persist};

use crate::{ItemRef, LockKey, Value};

/// An item that a search found, with its index's knowledge of its position.
pub trait Located: Copy {
    /// The item.
    fn item(&self) -> ItemRef;
}

/// The position of a key in a table, or its absence: a [stage](crate::Staged) searches once and uses the result
/// several times.
#[derive(Clone, Copy, Debug)]
pub struct Seat<F> {
    lock: LockKey,
    found: Option<F>,
    damaged: bool,
}

impl<F: Located> Seat<F> {
    /// The result of searching for a key with this lock key. `is_damaged` returns whether the item fails its
    /// checksum; tables that do not check gets return `false`.
    #[inline]
    pub fn new(lock: LockKey, found: Option<F>, is_damaged: impl FnOnce(&F) -> bool) -> Seat<F> {
        Seat { lock, found, damaged: found.is_some_and(|found| is_damaged(&found)) }
    }

    /// The lock key of the key.
    #[inline]
    pub fn lock(&self) -> LockKey {
        self.lock
    }

    /// Where it was found.
    #[inline]
    pub fn found(&self) -> Option<F> {
        self.found
    }

    /// The version of the key's item, if it has one.
    #[inline]
    pub fn version(&self) -> Option<u64> {
        self.found.map(|found| found.item().version)
    }

    /// The value of the key, in this image, under the pinned epoch.
    #[inline]
    pub fn value<'a, P: Persist>(&self, image: &'a Image<P>) -> Option<Value<'a, P>> {
        Some(Value::new(image, self.found?.item()).damaged(self.damaged))
    }
}
