//! A small server of our own, which is correct or has a chosen fault.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use warpkeep_bench::server::{Address, Protocol, Target};

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A bit of a value is flipped.
    FlipBit,
    /// A value is one byte short.
    Short,
    /// The value of another key.
    OtherKey,
    /// The answers to two gets change places.
    Swap,
    /// A value is the first one stored.
    Stale,
    /// A key is gone.
    Lose,
    /// The connection is closed.
    Close,
    /// The connection is closed in the middle of an answer.
    CloseMidway,
    /// No answer.
    Silent,
    /// An invalid answer.
    Nonsense,
    /// An unrequested answer.
    Twice,
    /// The server would rather not, every second time.
    Refuse,
    /// It stops for a while.
    Stall,
}

/// A client's request.
enum Asked {
    Get(Vec<Vec<u8>>, Form),
    Set(Vec<u8>, Vec<u8>),
    Version,
}

/// The form of the answer to a get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    MetaOne,
    MetaMany,
    RespOne,
    RespMany,
}

struct Shared {
    protocol: Protocol,
    fault: Fault,
    /// The fault happens from this request on.
    from: u64,
    requests: AtomicU64,
    first: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    values: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    over: AtomicBool,
}

/// A server that listens until it is dropped.
pub(crate) struct Fake {
    shared: Arc<Shared>,
    address: String,
    listening: Option<JoinHandle<()>>,
}

impl Fake {
    pub(crate) fn start(protocol: Protocol, fault: Fault, from: u64) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared {
            protocol,
            fault,
            from,
            requests: AtomicU64::new(0),
            first: Mutex::default(),
            values: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let for_all = Arc::clone(&shared);
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let for_one = Arc::clone(&for_all);
                if for_all.over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = stream {
                    std::thread::spawn(move || for_one.serve(stream));
                }
            }
        });
        Fake { shared, address, listening: Some(listening) }
    }

    pub(crate) fn target(&self) -> Target {
        let address: Address = self.address.parse().expect("an address");
        Target::Running { address, protocol: self.shared.protocol }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(&self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let (mut pending, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut part).ok()?;
            if count == 0 {
                return None;
            }
            pending.extend_from_slice(&part[..count]);
            let mut out = Vec::new();
            let mut used = 0;
            while let Some((asked, length)) = parse(self.protocol, &pending[used..]) {
                used += length;
                let go_on = self.answer(&asked, &mut out);
                if !go_on {
                    let _ = stream.write_all(&out);
                    return None;
                }
            }
            pending.drain(..used);
            stream.write_all(&out).ok()?;
        }
    }

    /// Appends the answer; `false` if the connection should be closed.
    fn answer(&self, asked: &Asked, out: &mut Vec<u8>) -> bool {
        if let Asked::Version = asked {
            out.extend_from_slice(match self.protocol {
                Protocol::Resp => b"$26\r\n# Server\r\nredis_version:1\r\n\r\n",
                Protocol::Memcached | Protocol::Meta => b"VERSION fake\r\n",
            });
            return true;
        }
        let turn = self.requests.fetch_add(1, Ordering::Relaxed);
        let fault = if turn >= self.from { self.fault } else { Fault::None };
        let at = out.len();
        match asked {
            Asked::Set(key, value) => {
                let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
                let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
                first.entry(key.clone()).or_insert_with(|| value.clone());
                values.insert(key.clone(), value.clone());
                out.extend_from_slice(match self.protocol {
                    Protocol::Memcached => b"STORED\r\n",
                    Protocol::Meta => b"HD\r\n",
                    Protocol::Resp => b"+OK\r\n",
                });
            }
            Asked::Get(keys, form) => {
                let found = keys.iter().map(|key| (key.clone(), self.value(key, fault))).collect();
                answer_get(found, *form, fault, out);
            }
            Asked::Version => {}
        }
        match fault {
            Fault::Refuse if turn.is_multiple_of(2) => {
                out.truncate(at);
                out.extend_from_slice(match self.protocol {
                    Protocol::Resp => b"-BUSY try again\r\n",
                    Protocol::Memcached | Protocol::Meta => b"SERVER_ERROR out of memory storing object\r\n",
                });
            }
            Fault::Nonsense => out.extend_from_slice(b"what?\r\n"),
            Fault::Twice => out.extend_from_within(at..),
            Fault::Stall if turn == self.from => std::thread::sleep(Duration::from_millis(120)),
            Fault::Silent => {
                out.truncate(at);
                std::thread::sleep(Duration::from_secs(20));
            }
            Fault::Close => {
                out.truncate(at);
                return false;
            }
            Fault::CloseMidway => {
                out.truncate(at + 3);
                return false;
            }
            _ => {}
        }
        true
    }

    fn value(&self, key: &[u8], fault: Fault) -> Option<Vec<u8>> {
        let of = |values: &Mutex<HashMap<Vec<u8>, Vec<u8>>>, key: &[u8]| {
            values.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
        };
        let mut value = match fault {
            Fault::Stale => of(&self.first, key),
            Fault::Lose => None,
            Fault::OtherKey => {
                let mut other = key.to_vec();
                if let Some(last) = other.last_mut() {
                    *last = if *last == b'0' { b'1' } else { b'0' };
                }
                of(&self.values, &other)
            }
            _ => of(&self.values, key),
        };
        if let Some(value) = &mut value {
            match fault {
                Fault::FlipBit => value[20] ^= 4,
                Fault::Short => drop(value.pop()),
                _ => {}
            }
        }
        value
    }
}

fn answer_get(mut found: Vec<(Vec<u8>, Option<Vec<u8>>)>, form: Form, fault: Fault, out: &mut Vec<u8>) {
    if fault == Fault::Swap {
        found.reverse();
    }
    let end: &[u8] = match form {
        Form::RespMany => {
            out.extend_from_slice(format!("*{}\r\n", found.len()).as_bytes());
            b""
        }
        Form::Text => b"END\r\n",
        Form::MetaMany => b"MN\r\n",
        Form::MetaOne | Form::RespOne => b"",
    };
    for (key, value) in found {
        let key = String::from_utf8_lossy(&key);
        match (form, value) {
            (Form::Text | Form::MetaMany, None) => {}
            (Form::MetaOne, None) => out.extend_from_slice(b"EN\r\n"),
            (Form::RespOne | Form::RespMany, None) => out.extend_from_slice(b"$-1\r\n"),
            (_, Some(value)) => {
                let len = value.len();
                let head = match form {
                    Form::Text => format!("VALUE {key} 0 {len}\r\n"),
                    Form::MetaOne => format!("VA {len}\r\n"),
                    Form::MetaMany => format!("VA {len} k{key}\r\n"),
                    Form::RespOne | Form::RespMany => format!("${len}\r\n"),
                };
                out.extend_from_slice(&[head.as_bytes(), &value, b"\r\n"].concat());
            }
        }
    }
    out.extend_from_slice(end);
}

/// One whole request and its length.
fn parse(protocol: Protocol, bytes: &[u8]) -> Option<(Asked, usize)> {
    if protocol == Protocol::Resp {
        return parse_resp(bytes);
    }
    let (line, used) = line(bytes)?;
    let words: Vec<&str> = line.split(' ').collect();
    let key = |at: usize| words[at].as_bytes().to_vec();
    let with_value = |len: usize| {
        let value = bytes.get(used..used + len)?.to_vec();
        (bytes.len() >= used + len + 2).then(|| (Asked::Set(key(1), value), used + len + 2))
    };
    match words[0] {
        "version" => Some((Asked::Version, used)),
        "get" => Some((Asked::Get((1..words.len()).map(key).collect(), Form::Text), used)),
        "set" => with_value(words[4].parse().expect("a length")),
        "ms" => with_value(words[2].parse().expect("a length")),
        "mg" if words.len() == 3 => Some((Asked::Get(vec![key(1)], Form::MetaOne), used)),
        // Quiet gets, up to the command that ends them.
        "mg" => {
            let (mut keys, mut used) = (Vec::new(), 0);
            loop {
                let (next, length) = self::line(&bytes[used..])?;
                used += length;
                match next.strip_prefix("mg ") {
                    Some(rest) => keys.push(rest.split(' ').next()?.as_bytes().to_vec()),
                    None => return Some((Asked::Get(keys, Form::MetaMany), used)),
                }
            }
        }
        other => panic!("unknown request {other:?}"),
    }
}

fn parse_resp(bytes: &[u8]) -> Option<(Asked, usize)> {
    let (head, mut used) = line(bytes)?;
    let count: usize = head.strip_prefix('*').expect("an array").parse().expect("a count");
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, taken) = line(&bytes[used..])?;
        let length: usize = length.strip_prefix('$').expect("a string").parse().expect("a length");
        used += taken;
        words.push(bytes.get(used..used + length)?.to_vec());
        used += length + 2;
    }
    if used > bytes.len() {
        return None;
    }
    let asked = match &words[0][..] {
        b"INFO" => Asked::Version,
        b"GET" => Asked::Get(vec![words.remove(1)], Form::RespOne),
        b"MGET" => Asked::Get(words.split_off(1), Form::RespMany),
        b"SET" => Asked::Set(words.remove(1), words.remove(1)),
        other => panic!("unknown request {}", other.escape_ascii()),
    };
    Some((asked, used))
}

fn line(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((std::str::from_utf8(&bytes[..end]).expect("text"), end + 2))
}
