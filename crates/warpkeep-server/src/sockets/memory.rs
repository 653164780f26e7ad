//! Clients in this process: their bytes lie in memory, and no system call moves them.

use std::io;

use super::Event;

/// Clients in this process.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// By number.
    clients: Vec<Client>,
    /// Clients that have sent bytes, or ended, since the last wait.
    changed: Vec<usize>,
}

/// One client: its requests, from `read` on, and the answers that it has not taken.
#[derive(Debug, Default)]
struct Client {
    requests: Vec<u8>,
    read: usize,
    answers: Vec<u8>,
    ended: bool,
}

impl Memory {
    /// A client with a number that is free.
    pub(crate) fn add(&mut self, number: usize) {
        if self.clients.len() <= number {
            self.clients.resize_with(number + 1, Client::default);
        }
        self.clients[number] = Client::default();
    }

    /// The client sends these bytes.
    pub(crate) fn send(&mut self, number: usize, bytes: &[u8]) {
        let client = &mut self.clients[number];
        client.requests.extend_from_slice(bytes);
        self.changed.push(number);
    }

    /// The answers that the client has not taken.
    pub(crate) fn answers(&self, number: usize) -> &[u8] {
        &self.clients[number].answers
    }

    /// The client has taken its answers. Their memory stays for the next ones.
    pub(crate) fn take_answers(&mut self, number: usize) {
        self.clients[number].answers.clear();
    }

    /// The events since the last call. Nothing is waited for.
    pub(super) fn wait(&mut self, happened: &mut Vec<Event>) {
        for number in self.changed.drain(..) {
            let ended = self.clients[number].ended;
            happened.push(Event { number, readable: true, writable: false, ended });
        }
    }

    pub(super) fn end_reading(&mut self, number: usize) {
        self.clients[number].ended = true;
        self.changed.push(number);
    }

    #[inline]
    pub(super) fn read(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<usize> {
        let client = &mut self.clients[number];
        let there = &client.requests[client.read..];
        if there.is_empty() {
            return if client.ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        client.read += count;
        if client.read == client.requests.len() {
            client.requests.clear();
            client.read = 0;
        }
        Ok(count)
    }

    /// Takes answers. Usually they are not copied: the two buffers change places.
    #[inline]
    pub(super) fn take_all(&mut self, number: usize, bytes: &mut Vec<u8>) {
        let answers = &mut self.clients[number].answers;
        match answers.is_empty() {
            true => std::mem::swap(answers, bytes),
            false => answers.append(bytes),
        }
    }

    pub(super) fn write(&mut self, number: usize, bytes: &[u8]) -> usize {
        self.clients[number].answers.extend_from_slice(bytes);
        bytes.len()
    }
}
