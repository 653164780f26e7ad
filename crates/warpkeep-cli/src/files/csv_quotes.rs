//! Quotes in CSV: one that is never closed would make one value of the rest of a file.

use std::io::{Error, Read};

/// The most bytes within one pair of quotes: the longest value in its longest notation, with some margin.
const LONGEST: u64 = 32 << 20;

/// Passes its input on as long as the quotes are valid; otherwise reading fails with the line.
pub(super) struct QuoteCheck<R> {
    source: R,
    state: State,
    line: u64,
    /// Why the next read fails.
    wrong: Option<String>,
}

/// Where in a field the last byte was.
#[derive(Clone, Copy, Debug)]
enum State {
    Start,
    Plain,
    /// Since this line, and for this number of bytes.
    Quoted {
        line: u64,
        bytes: u64,
    },
    /// Behind a quote within quotes: it ends them, or stands for one.
    Closing {
        line: u64,
        bytes: u64,
    },
}

impl<R: Read> QuoteCheck<R> {
    pub(super) fn new(source: R) -> QuoteCheck<R> {
        QuoteCheck { source, state: State::Start, line: 1, wrong: None }
    }

    /// Takes a byte; returns the fault, if any.
    fn take(&mut self, byte: u8) -> Result<(), String> {
        let next = |plain| match byte {
            b',' | b'\n' | b'\r' => State::Start,
            _ => plain,
        };
        self.state = match (self.state, byte) {
            (State::Start, b'"') => State::Quoted { line: self.line, bytes: 0 },
            (State::Start | State::Plain, _) => next(State::Plain),
            (State::Quoted { line, bytes }, b'"') => State::Closing { line, bytes },
            (State::Quoted { line, bytes }, _) if bytes < LONGEST => State::Quoted { line, bytes: bytes + 1 },
            (State::Quoted { line, .. }, _) => return Err(unclosed(line)),
            (State::Closing { line, bytes }, b'"') => State::Quoted { line, bytes },
            (State::Closing { .. }, b',' | b'\n' | b'\r') => State::Start,
            (State::Closing { .. }, _) => {
                return Err(format!(
                    "line {}: there is text behind a closing quote; write a quote within a value twice, or close the one \
                     before it",
                    self.line
                ));
            }
        };
        self.line += u64::from(byte == b'\n');
        Ok(())
    }
}

fn unclosed(line: u64) -> String {
    format!(
        "line {line}: a quote is opened there and never closed; close it, or write a quote within a value twice"
    )
}

impl<R: Read> Read for QuoteCheck<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(why) = self.wrong.take() {
            return Err(Error::other(why));
        }
        let len = self.source.read(buffer)?;
        if len == 0
            && !buffer.is_empty()
            && let State::Quoted { line, .. } = self.state
        {
            return Err(Error::other(unclosed(line)));
        }
        for at in 0..len {
            if let Err(why) = self.take(buffer[at]) {
                // The bytes before it are valid, and are passed on.
                self.wrong = Some(why);
                return if at == 0 { self.read(buffer) } else { Ok(at) };
            }
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads with buffers of every small size, which must not matter.
    fn check(text: &str) -> Result<String, String> {
        let read = |size: usize| {
            let mut source = QuoteCheck::new(text.as_bytes());
            let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
            loop {
                match source.read(&mut buffer) {
                    Ok(0) => return Ok(String::from_utf8(all).expect("text")),
                    Ok(len) => all.extend_from_slice(&buffer[..len]),
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        let found = read(1);
        for size in [2, 3, 7, 1000] {
            assert_eq!(read(size), found, "buffers of {size}");
        }
        found
    }

    #[test]
    fn quotes_in_order_pass() {
        for text in
            ["", "a,b\n", "a,\"b\"\n", "\"a \"\"x\"\"\",\"two\nlines\"", "a\"b,c\n", "\"\",\"\"\r\n\"x\""]
        {
            assert_eq!(check(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn quotes_out_of_order_are_told_with_their_line() {
        for (text, line) in
            [("a,b\nc,\"d\ne,f\n", 2), ("\"", 1), ("a\n\n\"b\"c\n", 3), ("a,\"b\nc,\"d\"\n", 2)]
        {
            let why = check(text).expect_err("refused");
            assert!(why.starts_with(&format!("line {line}:")), "{text:?}: {why}");
        }
        let long = format!("a,\"{}", "x".repeat(LONGEST as usize + 10));
        let mut source = QuoteCheck::new(long.as_bytes());
        assert!(
            std::io::copy(&mut source, &mut std::io::sink())
                .is_err_and(|error| error.to_string().starts_with("line 1"))
        );
    }
}
