//! The state of a connection beside its bytes: its protocol, and the parser's position.

use warpkeep::ScanPosition;

use crate::batch::Batch;
use crate::command::{Command, Verb, Within};
use crate::misbehaviour::Incident;
use crate::settings::Access;
use crate::transaction::Transaction;
use crate::{memcached, resp};

/// The first byte of a TLS client.
const TLS_HANDSHAKE: u8 = 0x16;

/// The longest name of a command, about.
const LONGEST_WORD: usize = 16;

/// The protocol of a connection, determined by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// memcached's text protocol, with meta commands.
    Memcached,
    /// RESP2 and RESP3.
    Resp,
    /// TLS, on a port that does not speak it.
    Tls,
    /// memcached's binary protocol, which is not spoken here.
    Binary,
}

/// What the first bytes of a connection determine.
enum First {
    /// It speaks this.
    Is(Protocol),
    /// An empty line of this many bytes, which both protocols ignore.
    Empty(usize),
    /// Not enough yet.
    NeedsMore,
}

/// Determines the protocol from the first bytes of a connection.
fn first(input: &[u8]) -> First {
    match input {
        [b'*', ..] => return First::Is(Protocol::Resp),
        [TLS_HANDSHAKE, ..] => return First::Is(Protocol::Tls),
        [memcached::BINARY, ..] => return First::Is(Protocol::Binary),
        [b'\r', b'\n', ..] => return First::Empty(2),
        [b'\n', ..] => return First::Empty(1),
        [b'\r'] => return First::NeedsMore,
        _ => {}
    }
    // Both have lines of words, and few words in common: memcached's are in small letters.
    let word = input.split(|&byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
    if word.len() == input.len() && word.len() <= LONGEST_WORD {
        return First::NeedsMore;
    }
    match !memcached::is_command(word) && resp::is_command(word) {
        true => First::Is(Protocol::Resp),
        false => First::Is(Protocol::Memcached),
    }
}

/// The result of parsing the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// Commands were added, or bytes were passed over.
    Some,
    /// The input ends within a command, which takes at least this many bytes from the parser's position on.
    NeedsMore(usize),
    /// The next command waits until those before it are done.
    Waits,
}

/// Whether a parser goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It does.
    No,
    /// Not before the batch is done: the last command may change how the next is understood.
    UntilDone,
    /// Input after the last parsed command is ignored.
    ForEver,
}

/// The state of a connection beside its bytes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) protocol: Option<Protocol>,
    /// Where in the input the next command begins.
    pub(crate) at: usize,
    pub(crate) within: Within,
    /// Bytes to skip: the rest of a value that is too large.
    pub(crate) skip: u64,
    /// The same by bulks, of a command that is too large.
    pub(crate) skip_bulks: u32,
    pub(crate) resp3: bool,
    pub(crate) authenticated: bool,
    /// The database that was selected.
    pub(crate) database: u8,
    /// Set after `MULTI` or `WATCH`.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// The command that is to be done as one, in RESP.
    pub(crate) alone: Vec<u8>,
    /// The parsed commands are executed atomically.
    pub(crate) isolated: bool,
    /// Some of the above is not at its default, and RESP commands must check it. See [`Session::note`].
    pub(crate) special: bool,
    /// An incident for the worker to handle.
    pub(crate) incident: Option<Incident>,
    /// Wrong passwords in a row.
    pub(crate) wrong_passwords: u32,
    /// The last command continues when its answer so far is sent.
    pub(crate) goes_on: bool,
    /// Where that stands.
    pub(crate) dump: ScanPosition,
    /// The next `mg` holds its key.
    pub(crate) careful: bool,
    /// Keys that were not sent as they are.
    pub(crate) decoded: Vec<u8>,
    /// As it calls itself.
    pub(crate) name: Vec<u8>,
    /// It has commands in the batch.
    pub(crate) in_batch: bool,
    pub(crate) halt: Halt,
}

impl Session {
    pub(crate) fn new(number: u64, access: &Access) -> Session {
        let authenticated = access.password.is_none();
        Session {
            number,
            protocol: None,
            at: 0,
            within: Within::default(),
            skip: 0,
            skip_bulks: 0,
            resp3: false,
            authenticated,
            database: 0,
            transaction: None,
            alone: Vec::new(),
            isolated: false,
            special: !authenticated,
            incident: None,
            wrong_passwords: 0,
            goes_on: false,
            dump: ScanPosition::default(),
            careful: false,
            decoded: Vec::new(),
            name: Vec::new(),
            in_batch: false,
            halt: Halt::No,
        }
    }

    /// Updates `special`; call it when the state may have changed.
    pub(crate) fn note(&mut self) {
        self.special = !self.authenticated || self.database != 0 || self.transaction.is_some();
    }

    /// The parsed commands are done.
    pub(crate) fn batch_is_done(&mut self) {
        self.in_batch = false;
        if self.halt == Halt::UntilDone {
            self.halt = Halt::No;
        }
    }

    /// Has the worker count and log an incident.
    pub(crate) fn report(&mut self, incident: Incident) {
        self.incident = Some(incident);
    }

    /// Records a password attempt. Commands after a wrong password wait until its answer, which is delayed, is
    /// sent.
    pub(crate) fn admit(&mut self, is_right: bool) {
        match is_right {
            true => {
                self.authenticated = true;
                self.wrong_passwords = 0;
                self.report(Incident::RightPassword);
                self.note();
            }
            false => {
                self.wrong_passwords = self.wrong_passwords.saturating_add(1);
                self.report(Incident::WrongPassword);
                self.halt = Halt::UntilDone;
            }
        }
    }

    /// Closes the connection of an HTTP client without an answer: a web page may have sent the request without the
    /// user's knowledge.
    pub(crate) fn hang_up_on_http(&mut self, batch: &mut Batch, next: usize) -> Parsed {
        self.report(Incident::Http);
        self.say_and_close(batch, next, b"")
    }

    /// If a transaction is open, `EXEC` will refuse it.
    pub(crate) fn refuse_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.refused |= transaction.open;
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
        if self.halt != Halt::No || self.at == input.len() {
            return if self.halt == Halt::UntilDone { Parsed::Waits } else { Parsed::NeedsMore(1) };
        }
        let protocol = match self.protocol {
            Some(protocol) => protocol,
            None => match first(&input[self.at..]) {
                First::Is(protocol) => *self.protocol.insert(protocol),
                First::Empty(bytes) => {
                    self.at += bytes;
                    return Parsed::Some;
                }
                First::NeedsMore => return Parsed::NeedsMore(input.len() - self.at + 1),
            },
        };
        let before = batch.len();
        let parsed = match protocol {
            Protocol::Memcached => memcached::parse(self, input, access, batch),
            Protocol::Resp => resp::parse(self, input, access, batch),
            Protocol::Binary => memcached::refuse_binary(self, input, batch),
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
        batch.say(Command::new(Verb::Reply, self.at), answer);
        self.at = next;
        self.within = Within::default();
        Parsed::Some
    }

    /// The same, and later input is ignored.
    pub(crate) fn say_and_close(&mut self, batch: &mut Batch, next: usize, answer: &[u8]) -> Parsed {
        batch.say(Command::new(Verb::Farewell, self.at), answer);
        self.at = next;
        self.halt = Halt::ForEver;
        Parsed::Some
    }

    /// Whether a command that changes the session must wait for those before it: they may be cut from the batch, and
    /// would be parsed again under its effect. Commands that are executed as one are not cut one by one.
    pub(crate) fn must_wait(&self) -> bool {
        self.in_batch && !self.isolated
    }

    /// Goes back to the beginning of a command, which is parsed again.
    pub(crate) fn rewind(&mut self, command: &Command) {
        self.at = command.at as usize;
        self.within = command.within();
        self.halt = Halt::No;
        self.skip = 0;
        self.skip_bulks = 0;
    }
}
