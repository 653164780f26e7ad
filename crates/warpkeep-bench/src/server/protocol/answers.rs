//! A server's answers: to measure the cost of reading them, without a server.

use std::io::Write as _;

use super::Protocol;
use crate::server::items::Items;

impl Protocol {
    /// Appends the answer to a get that hits.
    pub fn answer_get(self, items: &Items, number: u32, write: u32, out: &mut Vec<u8>) {
        self.answer_value(items, number, write, false, out);
        if self == Protocol::Memcached {
            out.extend_from_slice(b"END\r\n");
        }
    }

    /// Appends the answer to a multiget whose every key hits.
    pub fn answer_many(self, items: &Items, numbers: &[u32], write: u32, out: &mut Vec<u8>) {
        if self == Protocol::Resp {
            put(out, format_args!("*{}\r\n", numbers.len()));
        }
        for &number in numbers {
            self.answer_value(items, number, write, true, out);
        }
        match self {
            Protocol::Memcached => out.extend_from_slice(b"END\r\n"),
            Protocol::Meta => out.extend_from_slice(b"MN\r\n"),
            Protocol::Resp => {}
        }
    }

    /// Appends the answer to a set.
    pub fn answer_set(self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Protocol::Memcached => b"STORED\r\n",
            Protocol::Meta => b"HD\r\n",
            Protocol::Resp => b"+OK\r\n",
        });
    }

    /// One value, with its key where the protocol repeats it.
    fn answer_value(self, items: &Items, number: u32, write: u32, many: bool, out: &mut Vec<u8>) {
        let len = items.value_bytes();
        let key = || items.key(number);
        match self {
            Protocol::Memcached => put(out, format_args!("VALUE {} 0 {len}\r\n", key())),
            Protocol::Meta if many => put(out, format_args!("VA {len} k{}\r\n", key())),
            Protocol::Meta => put(out, format_args!("VA {len}\r\n")),
            Protocol::Resp => put(out, format_args!("${len}\r\n")),
        }
        let at = out.len();
        out.resize(at + len, 0);
        items.write_value(number, write, &mut out[at..]);
        out.extend_from_slice(b"\r\n");
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all bytes");
}
