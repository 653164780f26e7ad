//! Rows that the threads of the host copy from anywhere in memory: the least cost of answers to gets that the host
//! gathers.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use warpkeep_core::{Seed, mix64, reduce};
use warpkeep_record::Streaming;

use crate::lines::Lines;
use crate::{BenchError, pinned};

/// Lines of a row.
const ROW: u64 = 2;
/// Words of a row.
const WORDS: usize = 16;
/// Rows that a thread takes at a time.
const SHARE: usize = 1 << 10;
/// Shares that there are places for: as much memory as the answers to a batch of a million take, so that no cache of a core holds it, and all
/// of it is used again and again, as a program does.
const SHARES: usize = 1 << 10;
/// Rows prefetched while others are copied.
const AHEAD: u64 = 16;

/// Rows in a file that is mapped as an image is.
pub(super) struct Gather {
    lines: Lines,
    threads: usize,
}

/// Where the rows of a share go.
type Target = Mutex<Vec<[u64; WORDS]>>;

impl Gather {
    pub(super) fn new(path: &Path, bytes: u64) -> Result<Gather, BenchError> {
        Ok(Gather { lines: Lines::create(path, bytes)?, threads: pinned::core_count() })
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        format!("the host, {} threads gathering rows of {} bytes", self.threads, 8 * WORDS)
    }

    /// Rows a second that all threads together copy, about `rows` in all: through the caches or past them,
    /// whichever is faster.
    pub(super) fn rate(&self, seed: u64, rows: u64) -> f64 {
        let shares = rows.div_ceil(SHARE as u64).max(1);
        let places = shares.min(SHARES as u64);
        let targets: Vec<Target> = (0..places).map(|_| Mutex::new(vec![[1; WORDS]; SHARE])).collect();
        let rates = [false, true].map(|streamed| self.copy(Seed(seed), shares, &targets, streamed));
        std::hint::black_box(&targets);
        rates[0].max(rates[1])
    }

    /// Copies shares, of which every thread takes the next: a batch is done when the last share is.
    fn copy(&self, seed: Seed, shares: u64, targets: &[Target], streamed: bool) -> f64 {
        let (next, barrier) = (&AtomicU64::new(0), &Barrier::new(self.threads));
        let count = self.lines.count() / ROW;
        let row = |number: u64| ROW * reduce(mix64(seed, number), count);
        let bring_nearer = |number: u64| {
            let row = row(number);
            (0..ROW).for_each(|line| self.lines.prefetch(row + line));
        };
        let copy_share = |share: u64| {
            let target = &targets[share as usize % targets.len()];
            let mut target = target.lock().unwrap_or_else(PoisonError::into_inner);
            let streaming = streamed.then(Streaming::begin);
            let first = share * SHARE as u64;
            (first..first + AHEAD).for_each(&bring_nearer);
            for (number, to) in (first..).zip(target.iter_mut()) {
                bring_nearer(number + AHEAD);
                match &streaming {
                    None => self.lines.copy(row(number), to),
                    Some(streaming) => {
                        let mut words = [0; WORDS];
                        self.lines.copy(row(number), &mut words);
                        streaming.copy(bytemuck::bytes_of(&words), bytemuck::bytes_of_mut(to));
                    }
                }
            }
        };
        let work = |thread: usize| {
            pinned::to_core(thread);
            barrier.wait();
            let begun = Instant::now();
            loop {
                let share = next.fetch_add(1, Ordering::Relaxed);
                if share >= shares {
                    return (begun, Instant::now());
                }
                copy_share(share);
            }
        };
        let work = &work;
        let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            threads.into_iter().map(|thread| thread.join().expect("reading memory cannot fail")).collect()
        });
        let begun = times.iter().map(|time| time.0).min();
        let ended = times.iter().map(|time| time.1).max();
        let took = ended.zip(begun).map_or(0.0, |(ended, begun)| (ended - begun).as_secs_f64());
        (shares * SHARE as u64) as f64 / took.max(1e-9)
    }
}
