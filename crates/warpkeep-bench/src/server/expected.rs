//! The requests of a connection that wait for an answer, and the check of an answer against them.

use std::collections::VecDeque;

use super::error::{ServerError, excerpt};
use super::items::Items;
use super::ledger::{DOUBTFUL, Ledger, is_stale};
use super::protocol::{Answer, Protocol};
use super::tally::{Tally, Window};

/// How the answer to a request is made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A value or a miss.
    One,
    /// Values of the keys that are there, and an end.
    UntilEnd,
    /// A number, and as many values and misses.
    Counted,
    /// The same, after its number.
    Counting,
    /// That it was stored.
    Set,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Request {
    shape: Shape,
    /// Its keys.
    keys: u32,
    /// The keys without an answer yet.
    left: u32,
    hits: u32,
    sent: u64,
}

/// A requested key, and the last write that was acknowledged by then; or a written key, and the number of the
/// write.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u32,
    write: u32,
}

/// The rules that answers are checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    pub(super) protocol: Protocol,
    pub(super) items: &'a Items,
    pub(super) ledger: &'a Ledger,
    /// Whether keys may be gone.
    pub(super) cache: bool,
    /// Whether the time of sending counts, and not the time of the answer.
    pub(super) by_sending: bool,
    pub(super) window: Window,
    pub(super) address: &'a str,
}

/// Requests in the order they were sent.
#[derive(Debug, Default)]
pub(super) struct Expected {
    requests: VecDeque<Request>,
    asked: VecDeque<Asked>,
    scratch: Vec<u8>,
}

impl Expected {
    /// Requests without an answer.
    pub(super) fn outstanding(&self) -> usize {
        self.requests.len()
    }

    /// When the oldest of them was sent.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.requests.front().map(|request| request.sent)
    }

    /// A get was sent.
    #[inline]
    pub(super) fn get(&mut self, number: u32, judge: &Judge<'_>, sent: u64) {
        let shape = if judge.protocol == Protocol::Memcached { Shape::UntilEnd } else { Shape::One };
        self.ask(shape, &[number], judge, sent);
    }

    /// A multiget was sent.
    #[inline]
    pub(super) fn get_many(&mut self, numbers: &[u32], judge: &Judge<'_>, sent: u64) {
        let shape = if judge.protocol == Protocol::Resp { Shape::Counted } else { Shape::UntilEnd };
        self.ask(shape, numbers, judge, sent);
    }

    #[inline]
    fn ask(&mut self, shape: Shape, numbers: &[u32], judge: &Judge<'_>, sent: u64) {
        let keys = numbers.len() as u32;
        self.requests.push_back(Request { shape, keys, left: keys, hits: 0, sent });
        let asked = |&number: &u32| Asked { number, write: judge.ledger.acknowledged(number) };
        self.asked.extend(numbers.iter().map(asked));
    }

    /// A set was sent.
    #[inline]
    pub(super) fn set(&mut self, number: u32, write: u32, sent: u64) {
        self.requests.push_back(Request { shape: Shape::Set, keys: 1, left: 1, hits: 0, sent });
        self.asked.push_back(Asked { number, write });
    }

    /// Takes an answer: counts it if it is right, fails if it is not.
    #[inline]
    pub(super) fn settle(
        &mut self,
        answer: Answer<'_>,
        judge: &Judge<'_>,
        tally: &mut Tally,
        now: u64,
    ) -> Result<(), ServerError> {
        let Some(&request) = self.requests.front() else { return Err(self.out_of_order(answer, judge)) };
        match (answer, request.shape) {
            (Answer::Value { key, data }, Shape::One | Shape::Counting | Shape::UntilEnd) => {
                self.value(key, data, judge)?;
                self.finish_if_complete(judge, tally, now);
            }
            (Answer::Miss, Shape::One | Shape::Counting) => {
                self.miss(judge)?;
                self.finish_if_complete(judge, tally, now);
            }
            (Answer::End, Shape::UntilEnd) => {
                while self.requests.front().is_some_and(|request| request.left > 0) {
                    self.miss(judge)?;
                }
                self.finish(judge, tally, now);
            }
            (Answer::Many(count), Shape::Counted) if count == request.keys as usize => {
                if let Some(front) = self.requests.front_mut() {
                    front.shape = Shape::Counting;
                }
            }
            (Answer::Stored, Shape::Set) => {
                if let Some(asked) = self.asked.pop_front() {
                    judge.ledger.acknowledge(asked.number, asked.write);
                }
                self.finish(judge, tally, now);
            }
            (Answer::Refused(words), _) => self.refused(words, judge, tally, now),
            _ => return Err(self.out_of_order(answer, judge)),
        }
        Ok(())
    }

    /// The value of the next key, or of a later one if the keys between are absent.
    #[inline]
    fn value(&mut self, key: &[u8], data: &[u8], judge: &Judge<'_>) -> Result<(), ServerError> {
        if !key.is_empty() {
            while !self.front_has(key, judge) {
                let left = self.requests.front().map_or(0, |request| request.left);
                if left <= 1 {
                    return Err(self.out_of_order(Answer::Value { key, data }, judge));
                }
                self.miss(judge)?;
            }
        }
        let (Some(front), Some(asked)) = (self.requests.front_mut(), self.asked.front().copied()) else {
            return Err(self.out_of_order(Answer::Value { key, data }, judge));
        };
        if front.left == 0 {
            return Err(self.out_of_order(Answer::Value { key, data }, judge));
        }
        match judge.items.write_of(asked.number, data) {
            Some(found) if !is_stale(found, asked.write) => {
                front.left -= 1;
                front.hits += 1;
                self.asked.pop_front();
                Ok(())
            }
            Some(found) => Err(ServerError::Stale {
                address: judge.address.to_owned(),
                key: judge.items.key(asked.number),
                acknowledged: asked.write,
                found,
            }),
            None => Err(wrong_value(asked, data, judge)),
        }
    }

    #[inline]
    fn front_has(&mut self, key: &[u8], judge: &Judge<'_>) -> bool {
        let Some(asked) = self.asked.front() else { return false };
        self.scratch.resize(judge.items.key_bytes(), 0);
        judge.items.write_key(asked.number, &mut self.scratch);
        self.scratch == key
    }

    /// The next key is not there.
    fn miss(&mut self, judge: &Judge<'_>) -> Result<(), ServerError> {
        if let Some(front) = self.requests.front_mut() {
            front.left = front.left.saturating_sub(1);
        }
        match self.asked.pop_front() {
            Some(asked) if !judge.cache && asked.write != DOUBTFUL => Err(ServerError::Missing {
                address: judge.address.to_owned(),
                key: judge.items.key(asked.number),
            }),
            _ => Ok(()),
        }
    }

    #[inline]
    fn finish_if_complete(&mut self, judge: &Judge<'_>, tally: &mut Tally, now: u64) {
        // Only the end marker shows that there is no more.
        let complete = |request: &Request| request.left == 0 && request.shape != Shape::UntilEnd;
        if self.requests.front().is_some_and(complete) {
            self.finish(judge, tally, now);
        }
    }

    #[inline]
    fn finish(&mut self, judge: &Judge<'_>, tally: &mut Tally, now: u64) {
        let Some(request) = self.requests.pop_front() else { return };
        if !judge.window.has(if judge.by_sending { request.sent } else { now }) {
            return;
        }
        if request.shape == Shape::Set {
            tally.sets += 1;
        } else {
            tally.hits += u64::from(request.hits);
            tally.misses += u64::from(request.keys - request.hits);
        }
        tally.record(request.sent, now);
    }

    fn refused(&mut self, words: &[u8], judge: &Judge<'_>, tally: &mut Tally, now: u64) {
        let Some(request) = self.requests.pop_front() else { return };
        for asked in self.asked.drain(..request.left as usize) {
            if request.shape == Shape::Set {
                judge.ledger.doubt(asked.number);
            }
        }
        if judge.window.has(if judge.by_sending { request.sent } else { now }) {
            tally.refused += u64::from(request.keys);
        }
        tally.first_refusal.get_or_insert_with(|| excerpt(words));
    }

    #[cold]
    fn out_of_order(&self, answer: Answer<'_>, judge: &Judge<'_>) -> ServerError {
        let key = |place: usize| {
            self.asked.get(place).map_or_else(String::new, |asked| judge.items.key(asked.number))
        };
        let wanted = match self.requests.front() {
            None => "nothing".to_owned(),
            Some(request) if request.shape == Shape::Set => format!("a set of key {:?}", key(0)),
            Some(request) if request.left == 0 => "the end of a get".to_owned(),
            Some(request) => format!("a get of key {:?} and {} more", key(0), request.left - 1),
        };
        let got = match answer {
            Answer::Value { key: b"", data } => format!("a value, \"{}\"", excerpt(data)),
            Answer::Value { key, .. } => format!("the value of key \"{}\"", excerpt(key)),
            Answer::Miss => "a miss".to_owned(),
            Answer::End => "the end of a get".to_owned(),
            Answer::Stored => "the answer to a set".to_owned(),
            Answer::Many(count) => format!("{count} values"),
            Answer::Refused(words) => format!("\"{}\"", excerpt(words)),
        };
        ServerError::OutOfOrder { address: judge.address.to_owned(), wanted, got }
    }
}

#[cold]
fn wrong_value(asked: Asked, data: &[u8], judge: &Judge<'_>) -> ServerError {
    let items = judge.items;
    let mut right = vec![0; items.value_bytes()];
    let write = match Items::claims(data) {
        // Good, but of another key: the answer belongs elsewhere.
        Some((number, write)) if number != asked.number && items.write_of(number, data) == Some(write) => {
            return ServerError::OutOfOrder {
                address: judge.address.to_owned(),
                wanted: format!("the value of key {:?}", items.key(asked.number)),
                got: format!("that of key {:?}", items.key(number)),
            };
        }
        Some((number, write)) if number == asked.number => write,
        _ => asked.write,
    };
    items.write_value(asked.number, write, &mut right);
    let differs = right.iter().zip(data).position(|(right, found)| right != found);
    let from = differs.unwrap_or(right.len().min(data.len()));
    let shown = |bytes: &[u8]| {
        format!("\"{}\" from byte {from} of {}", excerpt(&bytes[from.min(bytes.len())..]), bytes.len())
    };
    ServerError::WrongValue {
        address: judge.address.to_owned(),
        key: items.key(asked.number),
        expected: shown(&right),
        found: shown(data),
    }
}
