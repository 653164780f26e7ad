//! Memory from one end to the other.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::{RATE, Rounds, median};
use crate::report::{Report, Unit};
use crate::{BenchError, Progress, pinned};

/// Bytes of an array that no cache holds; of all arrays together, if there are many.
const ARRAY: usize = 64 << 20;
const ALL_ARRAYS: usize = 1 << 30;
/// Words between two looks at the clock.
const PIECE: usize = (1 << 20) / 8;

/// Bytes a second of copying memory with one thread, from and to more than the caches hold.
pub(crate) fn copy_rate() -> f64 {
    const LEN: usize = 256 << 20;
    let from = vec![0x5a_u8; LEN];
    let mut to = vec![0_u8; LEN];
    // The first pass takes the pages.
    to.copy_from_slice(&from);
    let begun = Instant::now();
    let passes = 4;
    for _ in 0..passes {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
    }
    (passes * LEN) as f64 / begun.elapsed().as_secs_f64()
}

/// Reads and writes of `threads` threads; returns the bytes a second that they write.
pub(crate) fn measure(
    threads: usize,
    rounds: Rounds,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<f64, BenchError> {
    let case = case_name(threads);
    let mut arrays = Arrays::of(threads);
    let mut writes = Vec::new();
    for round in 0..rounds.count {
        progress.check()?;
        let rate = arrays.read_rate(rounds.time);
        report.add(&case, "sequential read", round, RATE, Unit::BytesPerSecond, rate);
        let rate = arrays.write_rate(rounds.time);
        writes.push(rate);
        report.add(&case, "sequential write", round, RATE, Unit::BytesPerSecond, rate);
        progress.advance(1);
    }
    Ok(median(&writes))
}

/// The name of the case of `threads` threads.
pub(super) fn case_name(threads: usize) -> String {
    format!("limits of memory, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Arrays of some threads, one each, on their cores.
pub(crate) struct Arrays {
    arrays: Vec<Vec<u64>>,
}

impl Arrays {
    pub(crate) fn of(threads: usize) -> Arrays {
        let words = ARRAY.min(ALL_ARRAYS / threads.max(1)) / 8;
        Arrays { arrays: (0..threads).map(|thread| vec![thread as u64 + 1; words]).collect() }
    }

    /// Bytes a second that all threads together read, one word after the other.
    pub(crate) fn read_rate(&mut self, time: Duration) -> f64 {
        self.rate(time, |piece| {
            std::hint::black_box(piece.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        })
    }

    /// Bytes a second that all threads together write.
    pub(crate) fn write_rate(&mut self, time: Duration) -> f64 {
        self.rate(time, |piece| {
            piece.fill(std::hint::black_box(7));
            std::hint::black_box(piece);
        })
    }

    fn rate(&mut self, time: Duration, work: impl Fn(&mut [u64]) + Sync) -> f64 {
        let barrier = Barrier::new(self.arrays.len());
        let (work, barrier) = (&work, &barrier);
        std::thread::scope(|scope| {
            let run = |(thread, array): (usize, &'_ mut Vec<u64>)| {
                pinned::to_core(thread);
                barrier.wait();
                let begun = Instant::now();
                let mut bytes = 0;
                'passes: loop {
                    for piece in array.chunks_mut(PIECE) {
                        work(piece);
                        bytes += size_of_val(piece);
                        if begun.elapsed() >= time {
                            break 'passes;
                        }
                    }
                }
                bytes as f64 / begun.elapsed().as_secs_f64()
            };
            let threads: Vec<_> =
                self.arrays.iter_mut().enumerate().map(|part| scope.spawn(move || run(part))).collect();
            threads.into_iter().map(|thread| thread.join().expect("reading memory cannot fail")).sum()
        })
    }
}
