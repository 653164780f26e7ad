//! Which chunks are free: kept in memory, rebuilt at every opening.

/// A bitmap of chunks with first-fit search for runs.
#[derive(Default)]
pub(crate) struct ChunkMap {
    /// A set bit is a chunk in use.
    used: Vec<u64>,
    chunks: u64,
    free: u64,
    /// No chunk below this one is free.
    first_free: u64,
}

impl ChunkMap {
    /// Adds free chunks at the end, up to `chunks` in all.
    pub(crate) fn extend(&mut self, chunks: u64) {
        assert!(chunks >= self.chunks, "images do not shrink while in use");
        self.used.resize(chunks.div_ceil(64) as usize, 0);
        self.free += chunks - self.chunks;
        self.chunks = chunks;
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    fn is_used(&self, chunk: u64) -> bool {
        self.used[(chunk / 64) as usize] >> (chunk % 64) & 1 == 1
    }

    /// Takes particular chunks.
    pub(crate) fn take(&mut self, first: u64, span: u64) {
        for chunk in first..first + span {
            debug_assert!(!self.is_used(chunk));
            self.used[(chunk / 64) as usize] |= 1 << (chunk % 64);
        }
        self.free -= span;
    }

    /// Takes the first free run of `span` chunks.
    pub(crate) fn take_run(&mut self, span: u64) -> Option<u64> {
        if span == 0 || self.free < span {
            return None;
        }
        let mut run = 0;
        let mut chunk = self.first_free;
        let mut seen_free = false;
        while chunk < self.chunks {
            if chunk.is_multiple_of(64) && self.used[(chunk / 64) as usize] == u64::MAX {
                run = 0;
                chunk += 64;
                continue;
            }
            if self.is_used(chunk) {
                run = 0;
            } else {
                if !seen_free {
                    self.first_free = chunk;
                    seen_free = true;
                }
                run += 1;
            }
            chunk += 1;
            if run == span {
                let first = chunk - span;
                self.take(first, span);
                if first == self.first_free {
                    self.first_free = chunk;
                }
                return Some(first);
            }
        }
        None
    }

    /// Gives chunks back.
    pub(crate) fn give(&mut self, first: u64, span: u64) {
        for chunk in first..first + span {
            debug_assert!(self.is_used(chunk));
            self.used[(chunk / 64) as usize] &= !(1 << (chunk % 64));
        }
        self.free += span;
        self.first_free = self.first_free.min(first);
    }

    /// How many chunks at the end of the image are free: a growth for a run need not add those.
    pub(crate) fn free_at_end(&self) -> u64 {
        (0..self.chunks).rev().take_while(|&chunk| !self.is_used(chunk)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    #[test]
    fn runs_are_found_first_fit() {
        let mut map = ChunkMap::default();
        map.extend(200);
        assert_eq!(map.take_run(1), Some(0));
        assert_eq!(map.take_run(100), Some(1));
        assert_eq!(map.take_run(100), None);
        assert_eq!(map.take_run(99), Some(101));
        assert_eq!((map.free(), map.free_at_end()), (0, 0));
        map.give(50, 3);
        assert_eq!(map.take_run(2), Some(50));
        assert_eq!(map.take_run(2), None);
        map.extend(201);
        assert_eq!(map.free_at_end(), 1);
        assert_eq!(map.take_run(2), None);
        assert_eq!(map.take_run(1), Some(52));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
        })]
        #[test]
        fn agrees_with_a_plain_list(steps in proptest::collection::vec((1u64..6, any::<u16>()), 1..200)) {
            let mut map = ChunkMap::default();
            map.extend(150);
            let mut used = [false; 150];
            let mut runs: Vec<(u64, u64)> = Vec::new();
            for (span, pick) in steps {
                if pick % 3 == 0 && !runs.is_empty() {
                    let (first, span) = runs.swap_remove(pick as usize % runs.len());
                    map.give(first, span);
                    used[first as usize..(first + span) as usize].fill(false);
                } else {
                    let expected = (0..=150 - span).find(|&at| !used[at as usize..(at + span) as usize].contains(&true));
                    let got = map.take_run(span);
                    prop_assert_eq!(got, expected);
                    if let Some(first) = got {
                        used[first as usize..(first + span) as usize].fill(true);
                        runs.push((first, span));
                    }
                }
                prop_assert_eq!(map.free(), used.iter().filter(|&&u| !u).count() as u64);
            }
        }
    }
}
