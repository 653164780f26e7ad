//! A slot number for every thread, so that threads can count without contention.

use std::sync::{Mutex, PoisonError};

/// Threads that can have a slot of their own at a time.
pub(super) const SEATS: usize = 32;

/// The seats that are taken, a bit each.
static TAKEN: Mutex<u32> = Mutex::new(0);

/// The seat of a thread, given back when the thread ends.
struct Seat(Option<usize>);

impl Seat {
    fn take() -> Seat {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = taken.trailing_ones();
        if free < u32::BITS {
            *taken |= 1 << free;
        }
        Seat((free < u32::BITS).then_some(free as usize))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(seat) = self.0 {
            *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << seat);
        }
    }
}

/// The slot of this thread, which no other running thread has; `None` if there are more threads than slots.
#[inline]
pub(super) fn mine() -> Option<usize> {
    thread_local! {
        static SEAT: Seat = Seat::take();
    }
    // A thread that is ending may have given its seat back already.
    SEAT.try_with(|seat| seat.0).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_running_threads_share_a_seat_and_seats_are_used_again() {
        for _ in 0..5 {
            let barrier = std::sync::Barrier::new(2 * SEATS);
            let seats: Vec<Option<usize>> = std::thread::scope(|scope| {
                let sit = || {
                    let seat = mine();
                    barrier.wait();
                    seat
                };
                let threads: Vec<_> = (0..2 * SEATS).map(|_| scope.spawn(sit)).collect();
                threads.into_iter().map(|thread| thread.join().expect("it ends well")).collect()
            });
            let taken: Vec<usize> = seats.into_iter().flatten().collect();
            assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len());
            // Other tests in this process have some, too.
            assert!(taken.len() >= SEATS / 2 && taken.iter().all(|&seat| seat < SEATS), "{taken:?}");
        }
    }
}
