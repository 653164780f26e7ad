//! A server's version.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use super::address::Address;
use super::error::{ServerError, excerpt};
use super::protocol::Protocol;

/// More than any server reports about itself.
const MOST: usize = 64 << 10;

/// The server's own name and version.
pub(super) fn version(
    address: &Address,
    protocol: Protocol,
    timeout: Duration,
) -> Result<String, ServerError> {
    let failed =
        |source| ServerError::Io { address: address.to_string(), doing: "ask the version of", source };
    let mut stream = address.connect()?;
    stream.set_timeout(timeout).map_err(failed)?;
    let question: &[u8] = match protocol {
        Protocol::Resp => b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n",
        Protocol::Memcached | Protocol::Meta => b"version\r\n",
    };
    stream.write_all(question).map_err(failed)?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut part).map_err(failed)?;
        answer.extend_from_slice(&part[..count]);
        if let Some(version) = read(protocol, &answer) {
            return Ok(version);
        }
        if count == 0 {
            return Err(ServerError::Closed { address: address.to_string(), outstanding: 1 });
        }
        if answer.len() > MOST {
            return Err(ServerError::Malformed {
                address: address.to_string(),
                protocol: protocol.name(),
                what: "no end of what it says of itself",
                bytes: excerpt(&answer),
            });
        }
    }
}

/// The version in an answer; `None` if it is not complete yet.
fn read(protocol: Protocol, answer: &[u8]) -> Option<String> {
    let end = memchr::memmem::find(answer, b"\r\n")?;
    let first = &answer[..end];
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if protocol != Protocol::Resp {
        return Some(shown(first.strip_prefix(b"VERSION ").unwrap_or(first)));
    }
    let Some(length) = first.strip_prefix(b"$") else { return Some(shown(first)) };
    let length: usize = std::str::from_utf8(length).ok()?.parse().unwrap_or(0);
    let text = shown(answer.get(end + 2..end + 2 + length)?);
    let line = text.lines().find(|line| line.contains("_version:"));
    Some(line.unwrap_or("a server that does not tell its version").replace("_version:", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_when_they_are_complete() {
        let info = b"$47\r\n# Server\r\nredis_version:7.0.15\r\nos:Linux 6 x86\r\n\r\n";
        assert_eq!(read(Protocol::Resp, info).as_deref(), Some("redis 7.0.15"));
        assert_eq!(read(Protocol::Resp, &info[..40]), None);
        assert_eq!(read(Protocol::Resp, b"-ERR unknown\r\n").as_deref(), Some("-ERR unknown"));
        assert_eq!(read(Protocol::Meta, b"VERSION 1.6.18\r\n").as_deref(), Some("1.6.18"));
        assert_eq!(read(Protocol::Memcached, b"VERSION 1.6"), None);
    }
}
