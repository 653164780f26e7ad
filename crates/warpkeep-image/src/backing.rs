//! The bytes under an image: a mapped file in production, plain memory in tests.

use crate::ImageError;

/// A run of bytes at a fixed address that can grow at its end.
///
/// # Safety
/// `base` never changes, and `base..base + len` stays mapped, readable and (unless read-only) writable for as
/// long as the backing lives, also across `grow`.
#[allow(clippy::len_without_is_empty, reason = "an image always has a header")]
pub unsafe trait Backing: Send + Sync {
    /// Where the bytes begin.
    fn base(&self) -> *mut u8;
    /// The number of bytes.
    fn len(&self) -> u64;
    /// The most they can grow to without moving.
    fn max_len(&self) -> u64;
    /// Reserves the space up to `len` and maps it, zeroed. A full disk is an error here and nowhere later.
    fn grow(&self, len: u64) -> Result<(), ImageError>;
    /// Makes everything stored so far, and the length, outlive the machine where the medium can.
    fn sync(&self, site: &'static str) -> Result<(), ImageError>;
    /// As [`Backing::sync`], but only the first `len` bytes need be included: the header of a large image need not
    /// wait for the rest of it.
    fn sync_start(&self, site: &'static str, len: u64) -> Result<(), ImageError> {
        let _ = len;
        self.sync(site)
    }
}
