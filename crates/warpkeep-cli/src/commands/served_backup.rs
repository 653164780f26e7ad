//! A backup of a store that a server has open, made by the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How often the server is polled.
const PAUSE: Duration = Duration::from_millis(100);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A backup made by a server.
#[derive(Debug, Serialize)]
pub(super) struct Made {
    pub(super) name: String,
    pub(super) tables: u64,
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// Has the server at an address make a backup, and waits for it until a signal asks the program to stop.
pub(super) fn make(
    address: &str,
    password_file: Option<&Path>,
    name: &str,
    interrupt: &Interrupt,
) -> Result<Made, Failure> {
    let mut server = Connection::open(address)?;
    if let Some(path) = password_file {
        let text = std::fs::read_to_string(path)
            .map_err(Failure::io(format!("read the password in {}", path.display())))?;
        server.ask(&["AUTH", text.lines().next().unwrap_or_default()])?;
    }
    server.ask(&["WARPKEEP.BACKUP", name])?;
    loop {
        let told = server.ask(&["WARPKEEP.BACKUP"])?;
        let words: Vec<&str> = told.splitn(3, ' ').collect();
        match words[..] {
            ["running", other] if other == name => std::thread::sleep(PAUSE),
            ["done", other, figures] if other == name => return made(name, figures, address),
            ["failed", other, why] if other == name => {
                return Err(Failure::error(format!("the server at {address} made no backup: {why}")));
            }
            _ => {
                let what =
                    "another client has had a backup made since; look for it in the server's directory";
                return Err(Failure::error(format!("the server at {address} says '{told}': {what}")));
            }
        }
        interrupt.check_or("the server goes on with the backup")?;
    }
}

fn made(name: &str, figures: &str, address: &str) -> Result<Made, Failure> {
    let mut words = figures.split(' ');
    let mut number = || words.next()?.parse::<f64>().ok();
    match (number(), number(), number(), number()) {
        (Some(tables), Some(items), Some(bytes), Some(seconds)) => Ok(Made {
            name: name.to_owned(),
            tables: tables as u64,
            items: items as u64,
            bytes: bytes as u64,
            seconds,
        }),
        _ => Err(Failure::error(format!(
            "the server at {address} answered '{figures}', which is not understood; is it of another version?"
        ))),
    }
}

/// A connection that speaks RESP.
struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: &str) -> Result<Connection, Failure> {
        let failed = |error: std::io::Error| {
            Failure::error(format!(
                "cannot reach {address}: {error}; check the address, such as 127.0.0.1:11311"
            ))
        };
        let mut last = std::io::Error::other("it names no address");
        for found in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&found, PATIENCE) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
                    let stream = BufReader::new(stream);
                    return Ok(Connection { address: address.to_owned(), stream });
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    /// Sends a command, and gives the text of the answer.
    fn ask(&mut self, words: &[&str]) -> Result<String, Failure> {
        let address = self.address.clone();
        let lost = move |error: std::io::Error| {
            Failure::error(format!(
                "the server at {address} does not answer: {error}; check that it is a Warpkeep server, without TLS"
            ))
        };
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(command.as_bytes()).map_err(&lost)?;
        let line = self.line().map_err(&lost)?;
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("$", len)) => {
                let len: usize =
                    len.parse().map_err(|_| Failure::error("the server's answer makes no sense"))?;
                let mut text = vec![0; len.min(1 << 20) + 2];
                self.stream.read_exact(&mut text).map_err(&lost)?;
                text.truncate(text.len() - 2);
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
            Some(("-", what)) if what.starts_with("NOAUTH") => Err(Failure::error(format!(
                "the server at {} wants a password; give the file that has it with --password-file FILE",
                self.address
            ))),
            Some(("-", what)) => {
                let what = what.strip_prefix("ERR ").unwrap_or(what);
                Err(Failure::error(format!("the server at {} refused: {what}", self.address)))
            }
            _ => Err(Failure::error(format!(
                "the server at {} answered '{line}', which is not understood; check that it is a Warpkeep server",
                self.address
            ))),
        }
    }

    fn line(&mut self) -> std::io::Result<String> {
        const LONGEST: u64 = 64 << 10;
        let mut line = Vec::new();
        (&mut self.stream).take(LONGEST).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\r\n") {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }
}
