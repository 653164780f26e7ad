//! Requests, written from templates.

use super::Protocol;
use crate::server::items::Items;

/// Writes requests for items of one kind. All keys have one length and all values too, so that everything else is a
/// copy of fixed bytes.
///
/// ```
/// use warpkeep_bench::server::{Items, Protocol, Requests};
///
/// let (requests, mut out) = (Requests::new(Protocol::Memcached, &Items::new(8, 8, 1), 2), Vec::new());
/// requests.get(7, &mut out);
/// requests.get_many(&[1, 2], &mut out);
/// assert_eq!(out, b"get 00000007\r\nget 00000001 00000002\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct Requests {
    protocol: Protocol,
    items: Items,
    get: Template,
    one_of_many: Template,
    many: (Vec<u8>, Vec<u8>),
    set: Template,
}

/// Bytes with a key in them.
#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    key_at: usize,
}

impl Template {
    fn new(before: &str, key_bytes: usize, after: &str) -> Template {
        let key = vec![b'k'; key_bytes];
        Template { bytes: [before.as_bytes(), &key, after.as_bytes()].concat(), key_at: before.len() }
    }

    #[inline]
    fn write(&self, items: &Items, number: u32, out: &mut Vec<u8>) {
        let at = out.len() + self.key_at;
        out.extend_from_slice(&self.bytes);
        items.write_key(number, &mut out[at..at + items.key_bytes()]);
    }
}

impl Requests {
    /// For a protocol and items; a multiget always has `many` keys.
    pub fn new(protocol: Protocol, items: &Items, many: usize) -> Requests {
        let (key, value) = (items.key_bytes(), items.value_bytes());
        let template = |before: &str, after: &str| Template::new(before, key, after);
        let around = |open: &str, close: &str| (open.as_bytes().to_vec(), close.as_bytes().to_vec());
        let (get, set, one_of_many, many) = match protocol {
            Protocol::Memcached => (
                template("get ", "\r\n"),
                template("set ", &format!(" 0 0 {value}\r\n")),
                template(" ", ""),
                around("get", "\r\n"),
            ),
            // Quiet gets are silent on a miss, so the key must be returned; a command that cannot be quiet ends
            // them.
            Protocol::Meta => (
                template("mg ", " v\r\n"),
                template("ms ", &format!(" {value}\r\n")),
                template("mg ", " v k q\r\n"),
                around("", "mn\r\n"),
            ),
            Protocol::Resp => (
                template(&format!("*2\r\n$3\r\nGET\r\n${key}\r\n"), "\r\n"),
                template(&format!("*3\r\n$3\r\nSET\r\n${key}\r\n"), &format!("\r\n${value}\r\n")),
                template(&format!("${key}\r\n"), "\r\n"),
                around(&format!("*{}\r\n$4\r\nMGET\r\n", many + 1), ""),
            ),
        };
        Requests { protocol, items: items.clone(), get, one_of_many, many, set }
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The items.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Requests one value.
    #[inline]
    pub fn get(&self, number: u32, out: &mut Vec<u8>) {
        self.get.write(&self.items, number, out);
    }

    /// Requests the configured number of values.
    #[inline]
    pub fn get_many(&self, numbers: &[u32], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.many.0);
        for &number in numbers {
            self.one_of_many.write(&self.items, number, out);
        }
        out.extend_from_slice(&self.many.1);
    }

    /// Has a value stored.
    #[inline]
    pub fn set(&self, number: u32, write: u32, out: &mut Vec<u8>) {
        self.set.write(&self.items, number, out);
        let at = out.len();
        out.resize(at + self.items.value_bytes(), 0);
        self.items.write_value(number, write, &mut out[at..]);
        out.extend_from_slice(b"\r\n");
    }
}
