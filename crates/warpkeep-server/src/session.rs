//! What is known of a connection beside its bytes: which protocol it speaks, and where its parser stands.

use crate::batch::Batch;
use crate::command::{Command, Verb, Within};
use crate::settings::Access;
use crate::{memcached, resp};

/// The first byte of whoever speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a connection speaks; its first byte tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// memcached's text protocol, with meta commands.
    Memcached,
    /// RESP2 and RESP3.
    Resp,
    /// TLS, on a port that does not speak it.
    Tls,
}

/// What parsing the next command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Commands were added, or bytes were passed over.
    Some,
    /// The input ends within a command; it takes at least so many bytes from the parser's place on.
    NeedsMore(usize),
    /// The next command waits until those before it are done.
    Waits,
}

/// What is known of a connection beside its bytes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) protocol: Option<Protocol>,
    /// Where in the input the next command begins.
    pub(crate) at: usize,
    pub(crate) within: Within,
    /// Bytes to pass over: what is left of a value that is too large.
    pub(crate) skip: u64,
    /// The same by bulks, of a command that is too large.
    pub(crate) skip_bulks: u32,
    pub(crate) resp3: bool,
    pub(crate) authenticated: bool,
    /// The next `mg` holds its key.
    pub(crate) careful: bool,
    /// Keys that were not sent as they are.
    pub(crate) decoded: Vec<u8>,
    /// As it calls itself.
    pub(crate) name: Vec<u8>,
    /// It has commands in the batch.
    pub(crate) in_batch: bool,
    /// Nothing after what was parsed is looked at.
    pub(crate) closing: bool,
}

impl Session {
    pub(crate) fn new(number: u64, access: &Access) -> Session {
        Session {
            number,
            protocol: None,
            at: 0,
            within: Within::default(),
            skip: 0,
            skip_bulks: 0,
            resp3: false,
            authenticated: access.password.is_none(),
            careful: false,
            decoded: Vec::new(),
            name: Vec::new(),
            in_batch: false,
            closing: false,
        }
    }

    /// Parses the next command, or as many of its parts as there are, and adds it to the batch.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        input: &[u8],
        connection: u32,
        access: &Access,
        batch: &mut Batch,
    ) -> Parsed {
        if self.skip > 0 {
            let skipped = self.skip.min((input.len() - self.at) as u64);
            self.skip -= skipped;
            self.at += skipped as usize;
        }
        if self.closing || self.at == input.len() {
            return Parsed::NeedsMore(1);
        }
        let protocol = *self.protocol.get_or_insert(match input[self.at] {
            b'*' => Protocol::Resp,
            TLS_HANDSHAKE => Protocol::Tls,
            _ => Protocol::Memcached,
        });
        let before = batch.len();
        let parsed = match protocol {
            Protocol::Memcached => memcached::parse(self, input, access, batch),
            Protocol::Resp => resp::parse(self, input, access, batch),
            // Its client would wait for ever for the end of a line.
            Protocol::Tls => {
                self.say_and_close(batch, self.at + 1, b"ERROR this port does not speak TLS\r\n")
            }
        };
        for command in &mut batch.commands[before..] {
            command.connection = connection;
        }
        self.in_batch |= batch.len() > before;
        parsed
    }

    /// Adds an answer that is known, to the command that ends at `next`.
    pub(crate) fn say(&mut self, batch: &mut Batch, next: usize, answer: &[u8]) -> Parsed {
        batch.say(Command::new(Verb::Said, self.at), answer);
        self.at = next;
        self.within = Within::default();
        Parsed::Some
    }

    /// The same, and nothing after it is looked at.
    pub(crate) fn say_and_close(&mut self, batch: &mut Batch, next: usize, answer: &[u8]) -> Parsed {
        batch.say(Command::new(Verb::Farewell, self.at), answer);
        self.at = next;
        self.closing = true;
        Parsed::Some
    }

    /// Goes back to before a command, which is to be parsed again.
    pub(crate) fn rewind(&mut self, command: &Command) {
        self.at = command.at as usize;
        self.within = command.within();
        self.closing = false;
        self.skip = 0;
        self.skip_bulks = 0;
    }
}
