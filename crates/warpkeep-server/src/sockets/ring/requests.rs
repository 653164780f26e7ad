//! The requests of a ring, and the tags of their completions.

use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use rustix::event::PollFlags;
use rustix::net::SendFlags;

use super::channel::Sending;
use super::lent::GROUP;
use super::{KEPT, Ring};

/// The request that a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Bell,
    /// To receive, for a channel.
    Receiving(usize),
    Sending(usize),
    Cancelling(usize),
}

impl Of {
    fn user_data(self) -> u64 {
        match self {
            Of::Bell => u64::MAX,
            Of::Receiving(place) => (place as u64) << 2,
            Of::Sending(place) => (place as u64) << 2 | 1,
            Of::Cancelling(place) => (place as u64) << 2 | 2,
        }
    }

    pub(super) fn from_user_data(data: u64) -> Of {
        let place = (data >> 2) as usize;
        match data & 3 {
            _ if data == u64::MAX => Of::Bell,
            0 => Of::Receiving(place),
            1 => Of::Sending(place),
            _ => Of::Cancelling(place),
        }
    }
}

impl Ring {
    /// Queues all that is to be done: it is submitted with the next call.
    pub(super) fn request(&mut self) -> io::Result<()> {
        if !self.bell_is_watched {
            let poll = opcode::PollAdd::new(Fd(self.bell.as_raw_fd()), u32::from(PollFlags::IN.bits()));
            self.push(&poll.multi(true).build().user_data(Of::Bell.user_data()))?;
            self.bell_is_watched = true;
        }
        for place in std::mem::take(&mut self.to_keep) {
            self.keep(place)?;
        }
        // In the order of the lists: last answers are sent before waiting requests are cancelled.
        for place in std::mem::take(&mut self.to_send) {
            self.send(place)?;
        }
        for place in std::mem::take(&mut self.leaving) {
            self.cancel_all(place)?;
        }
        for place in std::mem::take(&mut self.to_receive) {
            self.receive(place)?;
        }
        Ok(())
    }

    /// Keeps a connection's unread input; if it is much, receiving stops.
    fn keep(&mut self, place: usize) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(place) else { return Ok(()) };
        if channel.filled.is_empty() {
            return Ok(());
        }
        channel.keep(&mut self.lent);
        if channel.kept() > KEPT && channel.receiving && channel.cancels == 0 {
            self.cancel(place, Of::Receiving(place))?;
        }
        Ok(())
    }

    /// Has the kernel receive for a channel until it is cancelled.
    fn receive(&mut self, place: usize) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(place) else { return Ok(()) };
        let is_over = channel.ended || channel.failed.is_some() || channel.number.is_none();
        if is_over || channel.receiving || channel.kept() > KEPT {
            return Ok(());
        }
        channel.receiving = true;
        let receive = opcode::RecvMulti::new(Fd(channel.socket.as_raw_fd()), GROUP).build();
        self.push(&receive.user_data(Of::Receiving(place).user_data()))
    }

    /// Sends a channel's output.
    fn send(&mut self, place: usize) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(place) else { return Ok(()) };
        if channel.sending != Sending::Nothing || channel.unsent() == 0 || channel.failed.is_some() {
            return Ok(());
        }
        if channel.under_way.is_empty() {
            std::mem::swap(&mut channel.under_way, &mut channel.out);
        }
        let rest = &channel.under_way[channel.sent..];
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let send = opcode::Send::new(Fd(channel.socket.as_raw_fd()), rest.as_ptr(), length);
        // Tried by the call that submits it, and nowhere else: all of it, or as much as is taken.
        let once = (SendFlags::DONTWAIT | SendFlags::NOSIGNAL).bits() | WAITALL;
        let (sending, flags, bits) = match (channel.is_full, channel.watched || channel.number.is_none()) {
            (true, _) => (Sending::Patient, Flags::empty(), SendFlags::NOSIGNAL.bits()),
            (false, true) => (Sending::Told, Flags::empty(), once),
            (false, false) => (Sending::Silent, Flags::SKIP_SUCCESS, once),
        };
        channel.sending = sending;
        channel.watched = false;
        if sending == Sending::Silent {
            self.silent.push(place);
        }
        let send = send.flags(bits.cast_signed()).build().flags(flags);
        self.push(&send.user_data(Of::Sending(place).user_data()))
    }

    /// Cancels the requests of a closed channel.
    fn cancel_all(&mut self, place: usize) -> io::Result<()> {
        let Some(channel) = self.channels.get_mut(place) else { return Ok(()) };
        if channel.number.is_some() || !channel.receiving && channel.sending != Sending::Patient {
            return Ok(());
        }
        // One by one: to cancel all requests of a socket the kernel would search the requests of all sockets.
        let receiving = channel.receiving.then_some(Of::Receiving(place));
        let sending = (channel.sending == Sending::Patient).then_some(Of::Sending(place));
        for request in receiving.into_iter().chain(sending) {
            self.cancel(place, request)?;
        }
        Ok(())
    }

    fn cancel(&mut self, place: usize, request: Of) -> io::Result<()> {
        self.channels[place].cancels += 1;
        let cancel = opcode::AsyncCancel::new(request.user_data()).build();
        self.push(&cancel.user_data(Of::Cancelling(place).user_data()))
    }

    /// Queues a request; if the queue is full, submits its requests first.
    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        loop {
            // SAFETY: a request refers to a socket, and to memory of its channel or of `lent`, that stay until it
            // is done: a channel is freed only when it has no requests, and `under_way` is changed only when
            // nothing is being sent. The event file lives as long as the ring.
            match unsafe { self.uring.0.submission().push(entry) } {
                Ok(()) => return Ok(()),
                Err(_full) => self.enter(std::time::Duration::ZERO)?,
            }
        }
    }
}

/// `MSG_WAITALL`, which rustix defines for receiving only: a partial send is reported as a failure, and not as a
/// success without a completion.
const WAITALL: u32 = 0x100;
