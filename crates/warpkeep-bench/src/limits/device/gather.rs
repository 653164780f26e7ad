//! Rows that the threads of the host copy from anywhere in memory: what answers to gets cost at least, if the host gathers them.

use std::path::Path;
use std::sync::Barrier;
use std::time::Instant;

use warpkeep_core::{Seed, mix64, reduce};

use crate::lines::Lines;
use crate::{BenchError, pinned};

/// Lines of a row.
const ROW: u64 = 2;
/// Words of a row.
const WORDS: usize = 16;
/// Rows of the array that each thread copies to, again and again: more than its caches hold.
const TARGET: usize = 1 << 16;
/// Rows that are on their way while others are copied.
const AHEAD: u64 = 16;

/// Rows in a file that is mapped as an image is.
pub(super) struct Gather {
    lines: Lines,
    threads: usize,
}

impl Gather {
    pub(super) fn new(path: &Path, bytes: u64) -> Result<Gather, BenchError> {
        Ok(Gather { lines: Lines::create(path, bytes)?, threads: pinned::core_count() })
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        format!("the host, {} threads gathering rows of {} bytes", self.threads, 8 * WORDS)
    }

    /// Rows a second that all threads together copy, about so many in all.
    pub(super) fn rate(&self, seed: u64, rows: u64) -> f64 {
        let barrier = &Barrier::new(self.threads);
        let each = (rows / self.threads as u64).max(1);
        let count = self.lines.count() / ROW;
        let work = |thread: usize| {
            pinned::to_core(thread);
            let seed = Seed(mix64(Seed(seed), thread as u64));
            let row = |number: u64| ROW * reduce(mix64(seed, number), count);
            let mut target = vec![[1_u64; WORDS]; TARGET];
            barrier.wait();
            let begun = Instant::now();
            for number in 0..each {
                let later = row(number + AHEAD);
                (0..ROW).for_each(|line| self.lines.prefetch(later + line));
                self.lines.copy(row(number), &mut target[number as usize % TARGET]);
            }
            std::hint::black_box(&target);
            each as f64 / begun.elapsed().as_secs_f64()
        };
        let work = &work;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("reading memory cannot fail")).sum()
        })
    }
}
