//! The chunk directory: where the descriptor of each chunk lies.

use super::descriptor::Descriptor;
use crate::layout::DIRECTORY;
use crate::{Image, ImageError, Persist};

/// Number of the chunk that holds the descriptor of `chunk`, and the descriptor's offset in the image.
fn locate(chunk_size: u64, chunk: u64) -> (u64, u64) {
    let in_first = (chunk_size - DIRECTORY) / 8;
    if chunk < in_first {
        return (0, DIRECTORY + 8 * chunk);
    }
    let in_each = chunk_size / 8;
    let holder = in_first + (chunk - in_first) / in_each * in_each;
    (holder, holder * chunk_size + 8 * (chunk - holder))
}

/// Whether a chunk holds descriptors.
pub(crate) fn is_directory(chunk_size: u64, chunk: u64) -> bool {
    locate(chunk_size, chunk).0 == chunk
}

impl<P: Persist> Image<P> {
    /// Marks the directory chunks among new chunks, and all others as free. Ends with the descriptors flushed but not
    /// fenced.
    pub(crate) fn prepare_directory(&self, from: u64, to: u64) {
        for chunk in from..to {
            let descriptor = match is_directory(self.chunk_size(), chunk) {
                true => Descriptor::Directory,
                false => Descriptor::Free,
            };
            // Free is zero, as new bytes are; but those of the first part are as old as the image, and have not
            // been checked yet.
            let word = self.load(locate(self.chunk_size(), chunk).1);
            if word != descriptor.encode(chunk) {
                self.describe(chunk, descriptor);
                self.flush_descriptor("image.directory", chunk);
            }
        }
    }

    /// Stores a descriptor.
    pub(crate) fn describe(&self, chunk: u64, descriptor: Descriptor) {
        self.store(locate(self.chunk_size(), chunk).1, descriptor.encode(chunk));
    }

    pub(crate) fn flush_descriptor(&self, site: &'static str, chunk: u64) {
        self.flush(site, locate(self.chunk_size(), chunk).1, 8);
    }

    /// Reads and checks the descriptor of a chunk.
    pub(crate) fn descriptor(&self, chunk: u64) -> Result<Descriptor, ImageError> {
        let word = self.load(locate(self.chunk_size(), chunk).1);
        let descriptor = Descriptor::decode(chunk, word)
            .ok_or_else(|| self.damaged(format!("the descriptor of chunk {chunk} is {word:#018x}")))?;
        if is_directory(self.chunk_size(), chunk) != (descriptor == Descriptor::Directory) {
            return Err(self.damaged(format!("chunk {chunk} is described as {descriptor:?}")));
        }
        Ok(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MIN_CHUNK;

    #[test]
    fn descriptors_do_not_overlap_and_lie_in_directory_chunks() {
        let (size, in_first) = (MIN_CHUNK, (MIN_CHUNK - DIRECTORY) / 8);
        let mut last = 0;
        for chunk in 0..3 * size / 8 {
            let (holder, offset) = locate(size, chunk);
            assert!(offset > last, "chunk {chunk}");
            assert!(holder <= chunk && offset / size == holder, "chunk {chunk}");
            assert!(is_directory(size, holder));
            last = offset;
        }
        assert!(
            is_directory(size, 0) && is_directory(size, in_first) && is_directory(size, in_first + size / 8)
        );
        assert!(!is_directory(size, 1) && !is_directory(size, in_first - 1));
    }
}
