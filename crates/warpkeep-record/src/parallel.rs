//! Work on all parts of a table, by as many threads as the machine has.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs all of `0..parts`, in shares of `share`, on several threads; the first error ends it. Up to one share is
/// done by the caller alone.
pub fn in_parallel<E: Send>(
    parts: u64,
    share: u64,
    work: impl Fn(Range<u64>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    // First, because finding the number of threads takes system calls.
    if parts <= share {
        return work(0..parts);
    }
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let threads = threads.min(parts.div_ceil(share));
    if threads == 1 {
        return work(0..parts);
    }
    let (next, failed, failure) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    let worker = || {
        while !failed.load(Ordering::Relaxed) {
            let first = next.fetch_add(share, Ordering::Relaxed);
            if first >= parts {
                return;
            }
            if let Err(error) = work(first..(first + share).min(parts)) {
                failed.store(true, Ordering::Relaxed);
                failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without another thread this one does it all.
            let _ = std::thread::Builder::new().name("warpkeep-walk".into()).spawn_scoped(scope, worker);
        }
        worker();
    });
    failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: u64 = 64;

    #[test]
    fn every_part_once() {
        for parts in [0, 1, SHARE, 5 * SHARE + 7] {
            let (sum, count) = (AtomicU64::new(0), AtomicU64::new(0));
            in_parallel(parts, SHARE, |range| {
                count.fetch_add(range.end - range.start, Ordering::Relaxed);
                sum.fetch_add(range.sum::<u64>(), Ordering::Relaxed);
                Ok::<(), ()>(())
            })
            .unwrap();
            assert_eq!(count.into_inner(), parts);
            assert_eq!(sum.into_inner(), parts * parts.saturating_sub(1) / 2);
        }
    }

    #[test]
    fn an_error_ends_it() {
        let failed =
            in_parallel(
                100 * SHARE,
                SHARE,
                |range| if range.contains(&(3 * SHARE)) { Err("there") } else { Ok(()) },
            );
        assert_eq!(failed, Err("there"));
    }
}
