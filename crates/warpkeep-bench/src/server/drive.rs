//! One thread and its connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::connection::Connection;
use super::error::ServerError;
use super::expected::Judge;
use super::processor;
use super::protocol::Requests;
use super::tally::Tally;
use crate::{BenchError, Progress};

/// The longest sleep: how soon a wish to stop is noticed.
const NAP: u64 = 50_000_000;
/// The system wakes a sleeper about this late, so a request due sooner is waited for without sleeping.
const AWAKE: u64 = 100_000;

/// The shared state of a round's threads.
pub(super) struct Drive<'a> {
    pub(super) requests: &'a Requests,
    pub(super) judge: Judge<'a>,
    pub(super) begun: Instant,
    pub(super) timeout: Duration,
    /// Set when one thread fails, so that the others stop too.
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a dyn Progress,
    /// Whether each answer is reported to the progress bar.
    pub(super) tells: bool,
}

/// A thread's counts, and its processor time, in seconds.
pub(super) struct Driven {
    pub(super) tally: Tally,
    pub(super) processor: f64,
}

impl Drive<'_> {
    /// Runs until the round is over and all is answered.
    pub(super) fn run(&self, connections: &mut [Connection]) -> Result<Driven, ServerError> {
        let before = processor::of_thread();
        let result = self.turns(connections);
        if result.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(Driven { tally: result?, processor: processor::of_thread() - before })
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn turns(&self, connections: &mut [Connection]) -> Result<Tally, ServerError> {
        let waiter = Waiter::new(connections).map_err(self.failed("watch connections to"))?;
        let mut events = Vec::with_capacity(connections.len().max(1));
        let (mut tally, mut told) = (Tally::default(), 0);
        // Requests due by the end are still sent then, as far as there is room.
        let last = self.judge.window.to - 1;
        loop {
            if self.stop.load(Ordering::Relaxed) || self.progress.is_cancelled() {
                return Err(BenchError::Interrupted.into());
            }
            let now = self.now();
            for connection in connections.iter_mut() {
                connection.send(self.requests, &self.judge, now.min(last))?;
                if now >= last {
                    connection.stop(&self.judge, &mut tally, now);
                }
            }
            if connections.iter().all(Connection::is_finished) {
                break;
            }
            let until = self.next_moment(connections, now);
            waiter.wait(&mut events, until).map_err(self.failed("watch connections to"))?;
            for event in events.drain(..) {
                let Some(connection) = connections.get_mut(event.data.u64() as usize) else { continue };
                let flags = event.flags;
                let ended = epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP;
                connection.ended |= flags.intersects(ended);
                connection.readable |= flags.intersects(epoll::EventFlags::IN | ended);
                connection.writable |= flags.contains(epoll::EventFlags::OUT);
                connection.receive(&self.judge, &mut tally, || self.now())?;
            }
            self.look_for_silence(connections)?;
            if self.tells && tally.done() > told {
                self.progress.advance(tally.done() - told);
                told = tally.done();
            }
        }
        Ok(tally)
    }

    /// The longest sleep in nanoseconds; 0 if a request is due so soon that sleeping would be late.
    fn next_moment(&self, connections: &[Connection], now: u64) -> u64 {
        let due = connections.iter().filter_map(Connection::due).min().unwrap_or(u64::MAX);
        let end = if now < self.judge.window.to { self.judge.window.to } else { u64::MAX };
        let left = due.min(end).saturating_sub(now);
        if left < AWAKE && due <= end { 0 } else { left.min(NAP) }
    }

    fn look_for_silence(&self, connections: &[Connection]) -> Result<(), ServerError> {
        let now = self.now();
        let longest = u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX);
        let silent = |connection: &&Connection| {
            connection.waiting_since().is_some_and(|since| now.saturating_sub(since) > longest)
        };
        match connections.iter().find(silent) {
            None => Ok(()),
            Some(connection) => Err(ServerError::Silent {
                address: self.judge.address.to_owned(),
                seconds: self.timeout.as_secs(),
                outstanding: connection.outstanding(),
            }),
        }
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(Errno) -> ServerError {
        let address = self.judge.address.to_owned();
        move |source| ServerError::Io { address, doing, source: source.into() }
    }
}

/// Waits for any of some connections; each change is reported once.
struct Waiter(std::os::fd::OwnedFd);

impl Waiter {
    fn new(connections: &[Connection]) -> Result<Waiter, Errno> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        use epoll::EventFlags as Flags;
        for (place, connection) in connections.iter().enumerate() {
            let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
            epoll::add(&poll, connection.stream(), epoll::EventData::new_u64(place as u64), flags)?;
        }
        Ok(Waiter(poll))
    }

    fn wait(&self, events: &mut Vec<epoll::Event>, nanos: u64) -> Result<(), Errno> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: nanos as _ };
        events.clear();
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
