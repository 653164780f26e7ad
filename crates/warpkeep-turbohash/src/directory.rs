//! The directory: the position of each shard, a word each.
//!
//! A word is the [run](crate::shard::Run) of a shard with a check above it, 16 bits of a CRC over the number of the shard and
//! the run. It is aligned, so it lies in one cache line, and it is replaced by one store: a crash leaves the old shard or
//! the new one.

use warpkeep_image::{Heap, Image, ImageError, Marker, Persist};

use crate::shard::Run;
use crate::space;

const CHECK_SHIFT: u32 = 48;

/// Bytes of the directory of `shards` shards.
pub(crate) fn bytes_for(shards: u32) -> u64 {
    (8 * u64::from(shards)).next_multiple_of(256)
}

/// Where the word of a shard lies.
pub(crate) fn word_at(directory: u64, shard: usize) -> u64 {
    directory + 8 * shard as u64
}

/// The word of a shard.
pub(crate) fn seal(shard: usize, run: Run) -> u64 {
    let payload = run.to_word();
    payload | check(shard, payload) << CHECK_SHIFT
}

fn check(shard: usize, payload: u64) -> u64 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&(shard as u64).to_le_bytes()), &payload.to_le_bytes());
    u64::from(crc & 0xffff)
}

/// Writes a new directory, flushed but not fenced.
pub(crate) fn write<P: Persist>(heap: &Heap<P>, directory: u64, runs: &[Run]) {
    let mut words = vec![0_u8; bytes_for(runs.len() as u32) as usize];
    for (shard, (run, word)) in runs.iter().zip(words.chunks_exact_mut(8)).enumerate() {
        word.copy_from_slice(&seal(shard, *run).to_le_bytes());
    }
    // SAFETY: just allocated, and not reachable yet.
    unsafe { heap.image().write(directory, &words) };
    heap.image().flush("turbohash.directory", directory, words.len() as u64);
}

/// Reads a directory found in an image, and checks every word of it.
pub(crate) fn read<P: Persist>(
    image: &Image<P>,
    directory: u64,
    shards: u32,
) -> Result<Vec<Run>, ImageError> {
    let damaged = |what: String| ImageError::Damaged { path: image.path().to_path_buf(), what };
    if !directory.is_multiple_of(8) || !image.contains(directory, bytes_for(shards)) {
        return Err(damaged(format!("the directory at {directory}: it lies outside the image")));
    }
    (0..shards as usize)
        .map(|shard| {
            let word = image.load(word_at(directory, shard));
            let payload = word & ((1 << CHECK_SHIFT) - 1);
            let run = Run::from_word(payload);
            let possible = Run::bytes_of(run.bits).is_some_and(|bytes| image.contains(run.offset, bytes));
            if word >> CHECK_SHIFT != check(shard, payload) || !possible {
                return Err(damaged(format!("the directory at {directory}: wrong word of shard {shard}")));
            }
            Ok(run)
        })
        .collect()
}

/// Marks the directory and the shards it leads to.
pub(crate) fn mark<P: Persist>(
    image: &Image<P>,
    marker: &Marker<'_, P>,
    directory: u64,
    runs: &[Run],
) -> Result<(), ImageError> {
    space::mark(marker, directory, bytes_for(runs.len() as u32))?;
    for (shard, run) in runs.iter().enumerate() {
        if !space::mark(marker, run.offset, run.bytes())? {
            let what = format!("the directory at {directory}: shard {shard} lies where something else does");
            return Err(ImageError::Damaged { path: image.path().to_path_buf(), what });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_of_its_shard() {
        let run = Run { offset: 1 << 20, bits: 4, crowded: false };
        assert_ne!(seal(1, run), seal(2, run));
        assert_ne!(seal(1, run), seal(1, Run { bits: 5, ..run }));
        assert_eq!(seal(1, run) & ((1 << CHECK_SHIFT) - 1), run.to_word());
    }
}
