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
    /// Runs that are freed chunk by chunk and allocated as a whole. Their chunks count as used.
    held: Vec<HeldRun>,
}

/// A run of chunks that is kept together while it becomes free.
struct HeldRun {
    first: u64,
    /// Which of its chunks are free.
    free: Vec<bool>,
    /// How many are not.
    missing: u64,
    /// Whether it is reserved for a request of its exact length, or joins the other free chunks once it is
    /// complete.
    waits: bool,
}

impl HeldRun {
    fn span(&self) -> u64 {
        self.free.len() as u64
    }
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

    /// Free chunks that are kept for runs.
    pub(crate) fn free_in_held(&self) -> u64 {
        self.held.iter().map(|run| run.span() - run.missing).sum()
    }

    pub(crate) fn is_used(&self, chunk: u64) -> bool {
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
        if let Some(at) = self.held.iter().position(|run| run.missing == 0 && run.span() == span) {
            return Some(self.held.swap_remove(at).first);
        }
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
            if !self.give_to_held(chunk) {
                self.give_one(chunk);
            }
        }
    }

    fn give_one(&mut self, chunk: u64) {
        self.used[(chunk / 64) as usize] &= !(1 << (chunk % 64));
        self.free += 1;
        self.first_free = self.first_free.min(chunk);
    }

    /// Adds a chunk to the held run it belongs to; `false` if there is none.
    fn give_to_held(&mut self, chunk: u64) -> bool {
        let holds = |run: &HeldRun| (run.first..run.first + run.span()).contains(&chunk);
        let Some(at) = self.held.iter().position(holds) else { return false };
        let run = &mut self.held[at];
        let free = &mut run.free[(chunk - run.first) as usize];
        run.missing -= u64::from(!*free);
        *free = true;
        let (first, joins) = (run.first, run.missing == 0 && !run.waits);
        if joins {
            self.release(first);
        }
        true
    }

    /// Holds the chunks of a run together: those that are free now, and the others as they become free.
    pub(crate) fn hold(&mut self, first: u64, span: u64, waits: bool) {
        let free: Vec<bool> = (first..first + span).map(|chunk| !self.is_used(chunk)).collect();
        for chunk in (first..first + span).filter(|chunk| free[(chunk - first) as usize]) {
            self.take(chunk, 1);
        }
        let missing = free.iter().filter(|free| !**free).count() as u64;
        self.held.push(HeldRun { first, free, missing, waits });
        if missing == 0 && !waits {
            self.release(first);
        }
    }

    /// Whether a run is still being kept.
    pub(crate) fn is_held(&self, first: u64) -> bool {
        self.held.iter().any(|run| run.first == first)
    }

    /// Stops holding a run: its free chunks join the other free chunks.
    pub(crate) fn release(&mut self, first: u64) {
        let Some(at) = self.held.iter().position(|run| run.first == first) else { return };
        let run = self.held.swap_remove(at);
        for (chunk, _) in (run.first..).zip(&run.free).filter(|(_, free)| **free) {
            self.give_one(chunk);
        }
    }

    /// The number of free chunks at the end of the image: a growth for a run need not add those.
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

    #[test]
    fn a_run_that_is_held_is_handed_out_as_a_whole() {
        let mut map = ChunkMap::default();
        map.extend(20);
        assert_eq!(map.take_run(20), Some(0));
        map.give(5, 1);
        map.hold(4, 3, true);
        assert_eq!((map.free(), map.free_in_held(), map.take_run(1)), (0, 1, None));
        map.give(4, 1);
        assert_eq!(map.take_run(3), None);
        map.give(6, 2);
        assert_eq!((map.take_run(1), map.take_run(1)), (Some(7), None));
        assert_eq!(map.take_run(3), Some(4));
        map.give(4, 3);
        assert_eq!(map.free(), 3, "it is no longer held");
        map.hold(3, 3, true);
        map.release(3);
        assert_eq!((map.free(), map.is_held(3)), (3, false));
        map.hold(3, 3, false);
        map.give(3, 1);
        assert_eq!((map.free(), map.is_held(3)), (4, false), "it joins the others");
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
