//! Clients that should not be here: browsers, clients of other protocols, and password guessers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::lifetime::now;

/// A client's misbehaviour that is counted and logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// It speaks HTTP: a web page may have made it do so.
    Http,
    /// It speaks memcached's binary protocol.
    Binary,
    /// It gave a wrong password.
    WrongPassword,
    /// It gave the right one.
    RightPassword,
}

/// Whether a line is the first of an HTTP request, or one that all such requests have. `POST` and `Host:` are
/// enough: a web page can choose the text between and after them.
pub(crate) fn is_http(line: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"TRACE", b"PRI"];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let begins = |with: &[u8]| line.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    if begins(b"POST ") || begins(b"Host:") {
        return true;
    }
    let mut words = line.split(|&byte| byte == b' ');
    let method = words.next().unwrap_or_default();
    METHODS.contains(&method) && words.next_back().is_some_and(|last| last.starts_with(b"HTTP/"))
}

/// How long the answer to a wrong password is held back: longer with each in a row.
pub(crate) fn penalty(wrong_passwords: u32) -> Duration {
    const FIRST: Duration = Duration::from_millis(250);
    FIRST * (1 << wrong_passwords.saturating_sub(1).min(5))
}

/// Logs an incident at most once in a while, with the number of occurrences.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    /// When it was logged last, in milliseconds since 1970.
    last_logged: AtomicU64,
    untold: AtomicU64,
}

impl Notice {
    /// Records an occurrence. `Some` if it is to be logged, with the number of unlogged occurrences.
    pub(crate) fn note(&self) -> Option<u64> {
        const PAUSE: u64 = 10_000;
        let (now, last_logged) = (now(), self.last_logged.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last_logged) >= PAUSE
            && self
                .last_logged
                .compare_exchange(last_logged, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        match is_due {
            true => Some(self.untold.swap(0, Ordering::Relaxed)),
            false => {
                self.untold.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_http_are_known() {
        for line in [&b"GET / HTTP/1.1\r"[..], b"POST / HTTP/1.1", b"post x", b"host: a", b"PRI * HTTP/2.0"] {
            assert!(is_http(line), "{}", line.escape_ascii());
        }
        for line in [&b"GET a"[..], b"get / HTTP/1.1", b"SET Host: x", b"hostname", b"", b"POSTER a", b"PUT"]
        {
            assert!(!is_http(line), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_notice_is_told_once_in_a_while() {
        let notice = Notice::default();
        assert_eq!(notice.note(), Some(0));
        assert_eq!(notice.note(), None);
        notice.last_logged.store(1, Ordering::Relaxed);
        assert_eq!(notice.note(), Some(1));
    }

    #[test]
    fn penalties_grow_to_a_limit() {
        assert_eq!(penalty(1), Duration::from_millis(250));
        assert_eq!(penalty(3), Duration::from_secs(1));
        assert_eq!(penalty(1000), Duration::from_secs(8));
    }
}
