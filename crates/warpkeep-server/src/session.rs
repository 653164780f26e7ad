//! What is known of a connection beside its bytes: which protocol it speaks, and where its parser stands.

use warpkeep::ScanPosition;

use crate::batch::Batch;
use crate::command::{Command, Verb, Within};
use crate::settings::Access;
use crate::strangers::Incident;
use crate::transaction::Transaction;
use crate::{memcached, resp};

/// The first byte of whoever speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// The longest name of a command, about.
const LONGEST_WORD: usize = 16;

/// What a connection speaks; its first bytes tell.
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

/// What the first bytes of a connection tell.
enum First {
    /// It speaks this.
    Is(Protocol),
    /// An empty line of this many bytes, which both protocols ignore.
    Empty(usize),
    /// Not enough yet.
    NeedsMore,
}

/// What the first bytes of a connection tell.
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

/// Whether a parser goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It does.
    No,
    /// Not before the batch is done: the last command may change how the next is understood.
    UntilDone,
    /// Nothing after what was parsed is looked at.
    ForEver,
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
    /// The database that was selected.
    pub(crate) database: u8,
    /// `MULTI` or `WATCH` was said.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// The command that is to be done as one, in RESP.
    pub(crate) alone: Vec<u8>,
    /// What is parsed is done as one.
    pub(crate) isolated: bool,
    /// Some of the above is not as usual, and RESP's commands have to look at it. See [`Session::note`].
    pub(crate) special: bool,
    /// What happened that the worker has to see to.
    pub(crate) incident: Option<Incident>,
    /// Wrong passwords in a row.
    pub(crate) wrong_passwords: u32,
    /// The last command goes on when its answer so far is sent.
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

    /// Notes whether commands have to look at more than themselves; to be called when that may have changed.
    pub(crate) fn note(&mut self) {
        self.special = !self.authenticated || self.database != 0 || self.transaction.is_some();
    }

    /// What was parsed is done.
    pub(crate) fn batch_is_done(&mut self) {
        self.in_batch = false;
        if self.halt == Halt::UntilDone {
            self.halt = Halt::No;
        }
    }

    /// Has the worker count something, and tell of it.
    pub(crate) fn report(&mut self, incident: Incident) {
        self.incident = Some(incident);
    }

    /// A password was given. What comes after a wrong one waits until its answer is given, which is held back.
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

    /// Ends the connection of a client that speaks HTTP, without a word: what it sends may not be its own doing.
    pub(crate) fn hang_up_on_http(&mut self, batch: &mut Batch, next: usize) -> Parsed {
        self.report(Incident::Http);
        self.say_and_close(batch, next, b"")
    }

    /// If a transaction is open, nothing of it will be done.
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
        batch.say(Command::new(Verb::Said, self.at), answer);
        self.at = next;
        self.within = Within::default();
        Parsed::Some
    }

    /// The same, and nothing after it is looked at.
    pub(crate) fn say_and_close(&mut self, batch: &mut Batch, next: usize, answer: &[u8]) -> Parsed {
        batch.say(Command::new(Verb::Farewell, self.at), answer);
        self.at = next;
        self.halt = Halt::ForEver;
        Parsed::Some
    }

    /// Goes back to before a command, which is to be parsed again.
    pub(crate) fn rewind(&mut self, command: &Command) {
        self.at = command.at as usize;
        self.within = command.within();
        self.halt = Halt::No;
        self.skip = 0;
        self.skip_bulks = 0;
    }
}
