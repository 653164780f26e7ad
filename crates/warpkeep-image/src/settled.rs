//! Whether the log has everything: a mark for the next opener after a killed process.
//!
//! While the files of the log hold, durably, everything that is in the image, the last root holds this mark. It is
//! cleared before the first effect of a write whose record comes later. If an opener finds it, the image has
//! nothing that the log lacks.

use warpkeep_core::Lsn;

use crate::check::{seal48, unseal48};
use crate::layout::{ROOT_COUNT, ROOTS};
use crate::{Image, Persist};

const INDEX: u64 = ROOT_COUNT as u64 - 1;
const WORD: u64 = ROOTS + 8 * INDEX;
/// A killed process may have left records in the log's file that were not durable yet: the mark may refer to a
/// record this many before the last one.
const IN_FLIGHT: u64 = 1024;

impl<P: Persist> Image<P> {
    /// Sets the mark: the files of the log have, durably and up to this record, everything that is in the image; or
    /// with `None` clears it. `epoch` is that of the last [`Image::begin`]. One call at a time.
    ///
    /// On a persistent medium the mark is not used: there the image also survives a power cut, and the order of the
    /// mark and of the effects it refers to would have to be maintained.
    pub fn set_settled(&self, epoch: u64, up_to: Option<Lsn>) {
        if !self.surroundings().persistent && self.is_writable() {
            self.store(WORD, up_to.map_or(0, |lsn| seal48(INDEX, self.mark(epoch, lsn))));
        }
    }

    /// Whether the last holder left the image with a complete log, given where the log ends now.
    pub fn is_settled(&self, last: Lsn) -> bool {
        let Some(mark) = unseal48(INDEX, self.load(WORD)).filter(|&mark| mark != 0) else { return false };
        let epoch = self.epoch();
        let first = last.counter().saturating_sub(IN_FLIGHT);
        !self.surroundings().persistent
            && (first..=last.counter())
                .any(|counter| self.mark(epoch, Lsn::new(last.epoch(), counter)) == mark)
    }

    /// The mark for a record in this epoch of the image. Older programs take it for an offset, so it is one that
    /// every image has.
    fn mark(&self, epoch: u64, lsn: Lsn) -> u64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&epoch.to_le_bytes());
        bytes[8..].copy_from_slice(&lsn.bits().to_le_bytes());
        1 + u64::from(crc32c::crc32c(&bytes)) % (2 * self.chunk_size() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::{Coherent, Format, MIN_CHUNK, PlainMemory, Surroundings};

    fn image(persistent: bool) -> Image<Coherent> {
        let memory = PlainMemory::new(4 * MIN_CHUNK, 4 * MIN_CHUNK);
        let format = Format { store_id: [1; 16], chunk_size: MIN_CHUNK, hash_seed: 7 };
        let surroundings = Surroundings { persistent, ..Surroundings::default() };
        let image = Image::format(Arc::new(memory), Coherent, Path::new("memory"), &format, surroundings);
        let image = image.unwrap();
        image.begin(5).unwrap();
        image
    }

    #[test]
    fn the_log_that_has_everything_is_known_again() {
        let image = image(false);
        let at = |counter| Lsn::new(5, counter);
        assert!(!image.is_settled(at(7)), "nothing was said");
        image.set_settled(5, Some(at(7)));
        assert!(image.is_settled(at(7)) && image.is_settled(at(8)) && image.is_settled(at(1000)));
        // A log that ends earlier is an older or damaged one; a much longer one has records that this image does
        // not know.
        assert!(!image.is_settled(at(6)) && !image.is_settled(at(7 + IN_FLIGHT + 1)));
        assert!(!image.is_settled(Lsn::new(4, 7)));
        assert_eq!(image.root(INDEX as usize).unwrap().map(|mark| mark < image.len()), Some(true));
        image.set_settled(5, None);
        assert!(!image.is_settled(at(7)));
    }

    #[test]
    fn it_is_of_one_epoch_and_of_memory_that_goes_with_the_machine() {
        let volatile = image(false);
        volatile.set_settled(5, Some(Lsn::new(5, 7)));
        // A program that does not know the mark uses the image, and leaves the mark unchanged.
        volatile.begin(6).unwrap();
        assert!(!volatile.is_settled(Lsn::new(5, 7)));
        let persistent = image(true);
        persistent.set_settled(5, Some(Lsn::new(5, 7)));
        assert!(!persistent.is_settled(Lsn::new(5, 7)));
    }
}
