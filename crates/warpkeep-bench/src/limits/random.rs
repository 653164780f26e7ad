//! Memory line by line, anywhere.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use warpkeep_core::{Seed, mix64, reduce};

use super::memory::case_name;
use super::{RATE, Rounds};
use crate::lines::Lines;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress, pinned};

/// Lines that are prefetched at once.
const GROUP: u64 = 32;

/// Lines in a file that is mapped as an image is.
pub(super) struct RandomLines(Lines);

impl RandomLines {
    pub(super) fn create(path: &Path, bytes: u64) -> Result<RandomLines, BenchError> {
        Ok(RandomLines(Lines::create(path, bytes)?))
    }

    pub(super) fn pages(&self) -> Result<String, BenchError> {
        self.0.pages()
    }

    /// Lines a second that `threads` threads read, one after the other and prefetched.
    pub(super) fn measure(
        &self,
        threads: usize,
        rounds: Rounds,
        seed: u64,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let case = format!("{}, random lines", case_name(threads));
        for round in 0..rounds.count {
            progress.check()?;
            for (variant, prefetched) in [("one after the other", false), ("prefetched", true)] {
                let rate = self.rate(threads, rounds, seed ^ u64::from(round) << 32, prefetched);
                report.add(&case, variant, round, RATE, Unit::PerSecond, rate);
            }
            progress.advance(1);
        }
        Ok(())
    }

    fn rate(&self, threads: usize, rounds: Rounds, seed: u64, prefetched: bool) -> f64 {
        let barrier = &Barrier::new(threads);
        let work = |thread: usize| {
            pinned::to_core(thread);
            let seed = Seed(mix64(Seed(seed), thread as u64));
            let line = |number: u64| reduce(mix64(seed, number), self.0.count());
            barrier.wait();
            let begun = Instant::now();
            let (mut done, mut seen) = (0, 0_u64);
            while begun.elapsed() < rounds.time {
                // The next group is prefetched while this one is read.
                for number in done..done + 16 * GROUP {
                    if prefetched {
                        self.0.prefetch(line(number + GROUP));
                    }
                    // Not prefetched, each waits for the one before.
                    let after = if prefetched { 0 } else { seen };
                    seen = seen.wrapping_add(self.0.read(line(number ^ after)));
                }
                done += 16 * GROUP;
            }
            std::hint::black_box(seen);
            done as f64 / begun.elapsed().as_secs_f64()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("reading memory cannot fail")).sum()
        })
    }
}
