//! Clients that write ever larger numbers, and know which values must and may be there afterwards.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::command;

/// The protocol of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Speaks {
    Resp,
    Memcached,
}

/// The known state of a key whose value only grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The last number that was acknowledged.
    pub(crate) acknowledged: u64,
    /// The last number that was sent.
    pub(crate) sent: u64,
}

impl Known {
    /// Whether the key can have this.
    pub(crate) fn allows(&self, value: Option<u64>) -> bool {
        (self.acknowledged..=self.sent).contains(&value.unwrap_or(0))
    }

    /// From here on, it is this.
    fn settle(&mut self, value: Option<u64>) {
        self.acknowledged = value.unwrap_or(0);
        self.sent = self.acknowledged;
    }
}

/// The known state of a key that is set in odd rounds and removed in even ones.
#[derive(Clone, Copy, Debug, Default)]
struct ByTurns {
    /// Its state when the server was started, after this round.
    before: Option<u64>,
    began: u64,
    /// The last turn that was sent, and the last that was acknowledged.
    sent: u64,
    acknowledged: u64,
}

/// A client with keys of its own: one that it sets, one that it adds to, and one that it sets and removes
/// alternately.
pub(crate) struct Client {
    number: usize,
    speaks: Speaks,
    turn: u64,
    set: Known,
    count: Known,
    by_turns: ByTurns,
    commands: u64,
}

impl Client {
    pub(crate) fn new(number: usize, speaks: Speaks) -> Client {
        let (set, count) = (Known::default(), Known::default());
        Client { number, speaks, turn: 0, set, count, by_turns: ByTurns::default(), commands: 0 }
    }

    /// Commands that were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.commands
    }

    fn key(&self, what: &str) -> String {
        format!("{what}-{}", self.number)
    }

    /// The commands of a turn.
    fn turn(&self) -> Vec<u8> {
        let turn = self.turn.to_string();
        let [set, count, by_turns] = ["set", "count", "by-turns"].map(|what| self.key(what));
        match self.speaks {
            Speaks::Resp => {
                let third = match self.turn % 2 {
                    1 => command(&["SET", &by_turns, &turn]),
                    _ => command(&["DEL", &by_turns]),
                };
                let mut commands =
                    [command(&["SET", &set, &turn]), command(&["INCR", &count]), third].concat();
                // Now and then the server is in the middle of a checkpoint when it dies.
                if self.turn.is_multiple_of(64) {
                    commands.extend(command(&["BGSAVE"]));
                }
                commands
            }
            Speaks::Memcached => {
                let third = match self.turn % 2 {
                    1 => format!("set {by_turns} 0 0 {}\r\n{turn}\r\n", turn.len()),
                    _ => format!("delete {by_turns}\r\n"),
                };
                let add = format!("ma {count} N0 J1 v\r\n");
                format!("set {set} 0 0 {}\r\n{turn}\r\n{add}{third}", turn.len()).into_bytes()
            }
        }
    }

    /// Writes until the server is gone.
    pub(crate) fn write_until_it_dies(&mut self, address: SocketAddr) {
        let Ok(stream) = TcpStream::connect(address) else { return };
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        loop {
            self.turn += 1;
            self.set.sent = self.turn;
            self.count.sent += 1;
            self.by_turns.sent = self.turn;
            if stream.write_all(&self.turn()).is_err() {
                return;
            }
            let mut line = || {
                let mut line = String::new();
                // A line that is not whole is no answer.
                answers.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')).then_some(line)
            };
            let Some(said) = line() else { return };
            assert!(matches!(said.as_str(), "+OK\r\n" | "STORED\r\n"), "{said}");
            self.set.acknowledged = self.turn;
            self.commands += 1;
            let Some(mut said) = line() else { return };
            if said.starts_with("VA ") {
                let Some(value) = line() else { return };
                said = value;
            }
            // No other client adds to it: it counts the acknowledged writes, and perhaps those in progress before.
            let counted: u64 = said.trim_start_matches(':').trim_end().parse().unwrap();
            assert!(counted > self.count.acknowledged && counted <= self.count.sent, "{counted}");
            self.count.acknowledged = counted;
            self.commands += 1;
            let Some(said) = line() else { return };
            let as_expected = ["+OK\r\n", ":1\r\n", ":0\r\n", "STORED\r\n", "DELETED\r\n", "NOT_FOUND\r\n"];
            assert!(as_expected.contains(&said.as_str()), "{said}");
            self.by_turns.acknowledged = self.turn;
            self.commands += 1;
            if matches!(self.speaks, Speaks::Resp) && self.turn.is_multiple_of(64) && line().is_none() {
                return;
            }
        }
    }

    /// Checks that a restarted server has every required value, and no impossible one.
    pub(crate) fn check(&mut self, address: SocketAddr) -> Result<(), String> {
        let mut asked = crate::harness::Client::memcached(address);
        let mut get = |what: &str| -> Option<u64> {
            let key = self.key(what);
            asked.say(&format!("get {key}\r\n")).lines().nth(1).map(|value| value.parse().unwrap())
        };
        let [set, count, by_turns] = ["set", "count", "by-turns"].map(&mut get);
        if !self.set.allows(set) {
            return Err(format!("client {} has set {:?} and finds {set:?}", self.number, self.set));
        }
        if !self.count.allows(count) {
            return Err(format!("client {} has counted {:?} and finds {count:?}", self.number, self.count));
        }
        let known = self.by_turns;
        let left = |turn: u64| match turn == known.began {
            true => known.before,
            false => (turn % 2 == 1).then_some(turn),
        };
        if !(known.acknowledged..=known.sent).any(|turn| left(turn) == by_turns) {
            return Err(format!("client {}: of {known:?} there is {by_turns:?}", self.number));
        }
        self.set.settle(set);
        self.count.settle(count);
        let turn = self.turn;
        self.by_turns = ByTurns { before: by_turns, began: turn, sent: turn, acknowledged: turn };
        Ok(())
    }
}
