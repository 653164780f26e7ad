//! Sockets over io_uring: one system call submits the output of all of them and waits for input of any.
//!
//! Each socket has one multishot receive request, into buffers that are [lent](lent) to the kernel. Output is sent
//! in the next wait, all in the same system call: such a request is tried once, by that call, and has no completion
//! if everything was sent, so that it wakes no thread. Output that a socket does not accept at once goes into a
//! request that waits.
//!
//! The kernel holds no memory of a closed socket: its requests are cancelled, and socket and memory are kept until
//! each of them has completed.

mod channel;
mod lent;
mod probe;
mod requests;
mod setup;
#[cfg(test)]
mod tests;

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use slab::Slab;

use self::channel::{Channel, Sending};
use self::lent::Lent;
pub(super) use self::probe::probe;
use self::requests::Of;
use super::Event;

/// Bytes kept for a connection that does not read, before receiving for it stops.
const KEPT: usize = 64 << 10;
/// Buffers of sent answers to keep: their number, and the largest size of each.
const SPARE: (usize, usize) = (128, 256 << 10);
/// How long the kernel has, at the end, to complete all requests.
const LETTING_GO: Duration = Duration::from_secs(2);
/// No channel.
const NONE: usize = usize::MAX;

/// Sockets over io_uring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Before the memory that its requests use, so that it is dropped first.
    uring: ManuallyDrop<Uring>,
    lent: ManuallyDrop<Lent>,
    channels: ManuallyDrop<Slab<Channel>>,
    /// The channel of a number.
    places: Vec<usize>,
    /// Writing to it wakes the worker.
    bell: Arc<OwnedFd>,
    bell_is_watched: bool,
    is_enabled: bool,
    /// Channels to handle before the next wait: to send, to receive, to keep unread input, to cancel.
    to_send: Vec<usize>,
    to_receive: Vec<usize>,
    to_keep: Vec<usize>,
    leaving: Vec<usize>,
    /// Channels whose send request has no completion if it succeeds.
    silent: Vec<usize>,
    spare: Vec<Vec<u8>>,
}

/// The ring itself; its debug form hides the contents.
struct Uring(IoUring);

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").finish_non_exhaustive()
    }
}

/// Decodes a completion's result.
fn outcome(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// Wakes the worker that the bell is of.
pub(super) fn ring_bell(bell: &OwnedFd) -> io::Result<()> {
    match rustix::io::write(bell, &1_u64.to_ne_bytes()) {
        // It rings already.
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Ring {
    /// The event file that wakes the worker.
    pub(super) fn bell(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.bell)
    }

    /// Takes a socket, which from here on waits: it is the ring that does not.
    pub(super) fn add(&mut self, number: usize, stream: std::net::TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        self.add_socket(number, stream.into());
        Ok(())
    }

    fn add_socket(&mut self, number: usize, socket: OwnedFd) {
        let place = self.channels.insert(Channel::new(socket, number));
        if self.places.len() <= number {
            self.places.resize(number + 1, NONE);
        }
        self.places[number] = place;
        self.to_receive.push(place);
    }

    fn channel(&mut self, number: usize) -> io::Result<(usize, &mut Channel)> {
        let place = self.places.get(number).copied().unwrap_or(NONE);
        let channel = self.channels.get_mut(place).ok_or(io::ErrorKind::NotConnected)?;
        Ok((place, channel))
    }

    /// Closes a socket. Output just written is tried once.
    pub(super) fn remove(&mut self, number: usize) {
        let Ok((place, channel)) = self.channel(number) else { return };
        channel.number = None;
        if channel.sending == Sending::Patient || channel.is_full || channel.failed.is_some() {
            // It has not accepted earlier output.
            channel.out.clear();
        }
        for filled in std::mem::take(&mut channel.filled) {
            self.lent.give_back(filled);
        }
        self.places[number] = NONE;
        self.leaving.push(place);
        self.forget_if_still(place);
    }

    /// Frees a closed channel if the kernel has no more requests for it.
    fn forget_if_still(&mut self, place: usize) {
        let gone =
            |channel: &Channel| channel.number.is_none() && channel.is_still() && channel.out.is_empty();
        if self.channels.get(place).is_some_and(gone) {
            self.channels.remove(place);
        }
    }

    pub(super) fn end_reading(&mut self, number: usize) {
        if let Ok((_, channel)) = self.channel(number) {
            // Fails if the client has already closed.
            let _ = shutdown(&channel.socket, Shutdown::Read);
        }
    }

    #[inline]
    pub(super) fn unsent(&self, number: usize) -> usize {
        let place = self.places.get(number).copied().unwrap_or(NONE);
        self.channels.get(place).map_or(0, Channel::unsent)
    }

    pub(super) fn notify_when_sent(&mut self, number: usize) {
        if let Ok((_, channel)) = self.channel(number) {
            channel.watched = true;
        }
    }

    #[inline]
    pub(super) fn read(&mut self, number: usize, into: &mut [u8]) -> io::Result<usize> {
        let place = self.places.get(number).copied().unwrap_or(NONE);
        let channel = self.channels.get_mut(place).ok_or(io::ErrorKind::NotConnected)?;
        let done = channel.read(&mut self.lent, into);
        if !channel.receiving && !channel.ended && channel.is_read() {
            self.to_receive.push(place);
        }
        done
    }

    pub(super) fn write(&mut self, number: usize, bytes: &[u8]) -> io::Result<usize> {
        let (place, channel) = self.channel(number)?;
        channel.takes()?;
        channel.out.extend_from_slice(bytes);
        self.to_send.push(place);
        Ok(bytes.len())
    }

    /// Takes bytes without copying them, and gives memory for them.
    #[inline]
    pub(super) fn take_all(&mut self, number: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let (place, channel) = self.channel(number)?;
        channel.takes()?;
        if bytes.is_empty() {
            return Ok(());
        }
        match channel.out.is_empty() {
            true => channel.out = std::mem::take(bytes),
            false => channel.out.append(bytes),
        }
        self.to_send.push(place);
        if bytes.capacity() == 0 {
            *bytes = self.spare.pop().unwrap_or_default();
        }
        Ok(())
    }

    /// Submits requests, waits, and collects events. Returns whether the worker was woken.
    pub(super) fn wait(&mut self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<bool> {
        if !self.is_enabled {
            self.uring.0.submitter().register_enable_rings()?;
            self.is_enabled = true;
        }
        self.request()?;
        self.enter(timeout)?;
        let mut rung = self.collect(events);
        while self.uring.0.submission().cq_overflow() {
            self.enter(Duration::ZERO)?;
            rung |= self.collect(events);
        }
        // A request that the kernel consumed without a completion is sent.
        if self.uring.0.submission().is_empty() {
            for place in std::mem::take(&mut self.silent) {
                if self.channels.get(place).is_some_and(|channel| channel.sending == Sending::Silent) {
                    self.sent(place);
                    self.forget_if_still(place);
                }
            }
        }
        Ok(rung)
    }

    /// Calls the kernel, unless there is nothing to submit and nothing to wait for.
    fn enter(&mut self, timeout: Duration) -> io::Result<()> {
        let done = if timeout.is_zero() {
            let queue = self.uring.0.submission();
            if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
                return Ok(());
            }
            drop(queue);
            self.uring.0.submit()
        } else {
            let timeout = Timespec::from(timeout);
            self.uring.0.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
        };
        match done.map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(_) => Ok(()),
            // Nothing happened; or the call must be repeated after the completions are handled.
            Err((Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Handles completions.
    fn collect(&mut self, events: &mut Vec<Event>) -> bool {
        let mut rung = false;
        while let Some(entry) = { self.uring.0.completion().next() } {
            match Of::from_user_data(entry.user_data()) {
                Of::Bell => {
                    rung = true;
                    self.bell_is_watched = cqueue::more(entry.flags());
                    let mut count = [0; 8];
                    // It may have been emptied by the ring before.
                    let _ = rustix::io::read(&*self.bell, &mut count);
                }
                Of::Receiving(place) => self.has_received(place, &entry, events),
                Of::Sending(place) => self.has_sent(place, outcome(entry.result()), events),
                Of::Cancelling(place) => self.has_cancelled(place),
            }
        }
        rung
    }

    fn has_received(&mut self, place: usize, entry: &cqueue::Entry, events: &mut Vec<Event>) {
        let result = outcome(entry.result());
        let bytes = result.unwrap_or(0);
        // SAFETY: this completion names the buffer, and is looked at once.
        let filled =
            cqueue::buffer_select(entry.flags()).map(|buffer| unsafe { self.lent.filled(buffer, bytes) });
        let Some(channel) = self.channels.get_mut(place) else { return };
        channel.receiving = cqueue::more(entry.flags());
        match filled {
            Some(filled) if bytes > 0 && channel.number.is_some() => {
                channel.filled.push_back(filled);
                self.to_keep.push(place);
            }
            Some(filled) => self.lent.give_back(filled),
            None => {}
        }
        match result {
            Ok(0) => channel.ended = true,
            Ok(_) => {}
            // No buffer was free, or the request was cancelled; it begins again when the channel is read.
            Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => channel.failed = Some(error.raw_os_error()),
        }
        let ended = channel.ended || channel.failed.is_some();
        if let Some(number) = channel.number
            && (bytes > 0 || ended)
        {
            events.push(Event { number, readable: true, writable: false, ended });
        }
        if !channel.receiving {
            self.to_receive.push(place);
            self.forget_if_still(place);
        }
    }

    fn has_sent(&mut self, place: usize, result: Result<usize, Errno>, events: &mut Vec<Event>) {
        let Some(channel) = self.channels.get_mut(place) else { return };
        let is_awaited = channel.sending != Sending::Silent;
        channel.sending = Sending::Nothing;
        channel.sent += result.unwrap_or(0);
        match result {
            Ok(_) if channel.sent >= channel.under_way.len() => self.sent(place),
            // The rest is sent when the socket accepts it.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => channel.is_full = true,
            Err(error) if channel.failed.is_none() => {
                channel.failed = Some(error.raw_os_error());
                if let Some(number) = channel.number {
                    events.push(Event { number, readable: true, writable: false, ended: true });
                }
            }
            Err(_) => {}
        }
        let Some(channel) = self.channels.get_mut(place) else { return };
        if let Some(number) = channel.number
            && is_awaited
        {
            events.push(Event { number, writable: true, ..Event::default() });
        }
        if channel.number.is_none() || channel.failed.is_some() {
            // The connection is gone.
            channel.out.clear();
            channel.under_way.clear();
            channel.sent = 0;
        }
        self.to_send.push(place);
        self.forget_if_still(place);
    }

    /// Everything that was under way is sent.
    fn sent(&mut self, place: usize) {
        let channel = &mut self.channels[place];
        channel.sending = Sending::Nothing;
        channel.is_full = false;
        channel.sent = 0;
        let mut bytes = std::mem::take(&mut channel.under_way);
        let (count, largest) = SPARE;
        if self.spare.len() < count && bytes.capacity() <= largest {
            bytes.clear();
            self.spare.push(bytes);
        }
        if !self.channels[place].out.is_empty() {
            self.to_send.push(place);
        }
    }

    fn has_cancelled(&mut self, place: usize) {
        let Some(channel) = self.channels.get_mut(place) else { return };
        channel.cancels -= 1;
        if channel.number.is_none() && channel.cancels == 0 && !channel.is_still() {
            // The request was not found because it is about to complete: this ends one that waits for the client.
            let _ = shutdown(&channel.socket, Shutdown::Both);
        }
        self.forget_if_still(place);
    }

    /// Has the kernel let go of everything. Whether it has.
    fn let_go(&mut self) -> bool {
        for number in 0..self.places.len() {
            self.remove(number);
        }
        if !self.is_enabled {
            return true;
        }
        let begun = Instant::now();
        while !self.channels.is_empty() && begun.elapsed() < LETTING_GO {
            if self.wait(Duration::from_millis(20), &mut Vec::new()).is_err() {
                return false;
            }
            for (place, channel) in &*self.channels {
                if channel.number.is_none() && !channel.is_still() {
                    self.leaving.push(place);
                }
            }
        }
        self.channels.is_empty()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let is_free = self.let_go();
        if !is_free {
            tracing::warn!("the kernel did not let go of {} sockets in time", self.channels.len());
        }
        // SAFETY: they are not used again. Memory that the kernel may still use is not freed: it is leaked rather
        // than reused.
        unsafe {
            ManuallyDrop::drop(&mut self.uring);
            if is_free {
                ManuallyDrop::drop(&mut self.channels);
                ManuallyDrop::drop(&mut self.lent);
            }
        }
    }
}
