//! The bytes of an image, and an image from bytes, as a crash leaves it.

use std::path::Path;
use std::sync::Arc;

use warpkeep_gphash::{Table, TableError};
use warpkeep_image::{Backing as _, Coherent, Image, MIN_CHUNK, PlainMemory, Surroundings};

use crate::harness::open;

/// All bytes of an image.
pub(crate) fn bytes_of(image: &Image<Coherent>) -> Vec<u8> {
    let mut bytes = vec![0; image.len() as usize];
    image.read(0, &mut bytes);
    bytes
}

/// An image with these bytes that can grow by `more_chunks` chunks.
pub(crate) fn image_of(bytes: &[u8], more_chunks: u64) -> Result<Arc<Image<Coherent>>, TableError> {
    let len = bytes.len() as u64;
    let memory = PlainMemory::new(len, len + more_chunks * MIN_CHUNK);
    // SAFETY: the memory is new, `len` bytes long, and not shared yet.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.base(), bytes.len()) };
    let surroundings = Surroundings { persistent: true, pid: 1, ..Surroundings::default() };
    Ok(Arc::new(Image::attach(Arc::new(memory), Coherent, Path::new("memory"), surroundings, true)?.image))
}

/// The table in these bytes, opened as after a crash.
pub(crate) fn table_of(bytes: &[u8], header: u64, more_chunks: u64) -> Result<Table<Coherent>, TableError> {
    open(&image_of(bytes, more_chunks)?, header)
}
