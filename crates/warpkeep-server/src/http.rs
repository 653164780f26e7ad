//! `/metrics`, `/healthz` and `/readyz`, for monitoring.
//!
//! The input of a client is bounded in bytes and time, and the number of clients is bounded.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;

use crate::ServerError;
use crate::counters::Counters;
use crate::live::Current;
use crate::misbehaviour::penalty;

/// How often a thread checks whether to stop.
const ASK: Duration = Duration::from_millis(50);
/// The longest head of a request.
const MOST_BYTES: usize = 8 << 10;
/// How long a client has to send it, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Clients at a time; further ones are closed at once.
const MOST_CLIENTS: usize = 16;

/// Adds to the metrics.
type More = Box<dyn Fn() -> String + Send>;

/// Answers HTTP until it is dropped.
pub(crate) struct Http {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    counters: Arc<Counters>,
    live: Arc<Current>,
    /// The address is reachable from other machines, so metrics need the password.
    public: bool,
    ready: AtomicBool,
    stopping: AtomicBool,
    clients: AtomicUsize,
    more: Mutex<Option<More>>,
}

/// A request, as far as it matters.
struct Request {
    method: String,
    path: String,
    /// The password of the request.
    password: Option<Vec<u8>>,
}

impl Http {
    pub(crate) fn start(
        address: SocketAddr,
        counters: &Arc<Counters>,
        live: &Arc<Current>,
    ) -> Result<Http, ServerError> {
        let failed = |error: io::Error| ServerError::Http { address, what: error.to_string() };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(State {
            counters: Arc::clone(counters),
            live: Arc::clone(live),
            public: !address.ip().is_loopback(),
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
            more: Mutex::new(None),
        });
        let theirs = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || theirs.run(&listener));
        let thread = thread.map_err(ServerError::io("start a thread"))?;
        Ok(Http { address, state, thread: Some(thread) })
    }

    pub(crate) fn add_metrics(&self, more: More) {
        *self.state.more.lock() = Some(more);
    }

    /// Whether the server takes commands.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.state.ready.store(ready, Ordering::Release);
    }
}

impl State {
    fn run(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => self.take(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(ASK),
                Err(error) => {
                    tracing::warn!(%error, "a client was not taken for HTTP");
                    std::thread::sleep(ASK);
                }
            }
        }
    }

    /// Serves a client in a thread of its own, if there are not too many.
    fn take(self: &Arc<Self>, stream: TcpStream) {
        if self.clients.fetch_add(1, Ordering::AcqRel) >= MOST_CLIENTS {
            self.clients.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let theirs = Arc::clone(self);
        let serve = move || {
            // The client may be gone, or too slow.
            let _ = theirs.serve(stream);
            theirs.clients.fetch_sub(1, Ordering::AcqRel);
        };
        if let Err(error) = std::thread::Builder::new().name("http-client".to_owned()).spawn(serve) {
            tracing::warn!(%error, "a client was not taken for HTTP");
            self.clients.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (code, text, is_head) = match read_head(&mut stream)? {
            None => (431, format!("a request can have {MOST_BYTES} bytes of headers\n"), false),
            Some(head) => match parse(&head) {
                None => (400, "this is no HTTP\n".to_owned(), false),
                Some(request) => {
                    let (code, text) = self.answer(&request);
                    (code, text, request.method == "HEAD")
                }
            },
        };
        let reason = match code {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let more = if code == 401 { "WWW-Authenticate: Basic realm=\"warpkeep\"\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n{more}\r\n",
            text.len()
        );
        let body = if is_head { "" } else { text.as_str() };
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        // With unread input, closing would make the system discard the answer.
        stream.shutdown(Shutdown::Write)?;
        read_some(&mut stream, &mut Vec::new(), |read| read.len() > MOST_BYTES).map(drop)
    }

    fn answer(&self, request: &Request) -> (u16, String) {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return (405, "only GET is possible\n".to_owned());
        }
        match request.path.split('?').next().unwrap_or_default() {
            "/metrics" if !self.admits(request) => {
                (401, "give the server's password, with any user's name\n".to_owned())
            }
            "/metrics" => {
                let mut text = self.counters.prometheus();
                if let Some(more) = &*self.more.lock() {
                    text += &more();
                }
                (200, text)
            }
            "/healthz" => (200, "alive\n".to_owned()),
            "/readyz" if self.ready.load(Ordering::Acquire) => match self.counters.trouble() {
                None => (200, "ready\n".to_owned()),
                Some(why) => (503, format!("not ready: {why}\n")),
            },
            "/readyz" => (503, "not ready: the store is being opened or closed\n".to_owned()),
            _ => (404, "there are /metrics, /healthz and /readyz\n".to_owned()),
        }
    }

    /// Whether a client may see the metrics: one of this machine, or one with the password.
    fn admits(&self, request: &Request) -> bool {
        if !self.public {
            return true;
        }
        let is_right = request.password.as_ref().is_some_and(|given| self.live.get().access.admits(given));
        if !is_right && request.password.is_some() {
            self.counters.wrong_passwords.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(penalty(1));
        }
        is_right
    }
}

/// Reads from a client until `enough`, its end, or the time limit; returns whether there was enough.
fn read_some(stream: &mut TcpStream, read: &mut Vec<u8>, enough: impl Fn(&[u8]) -> bool) -> io::Result<bool> {
    let begun = Instant::now();
    let mut some = [0; 1024];
    while !enough(read) {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut some) {
            Ok(0) => return Ok(false),
            Ok(count) => read.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The head of a request; `None` if it is too long.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    let is_whole = |read: &[u8]| read.windows(4).any(|four| four == b"\r\n\r\n");
    match read_some(stream, &mut read, |read| is_whole(read) || read.len() > MOST_BYTES)? {
        false => Err(io::ErrorKind::UnexpectedEof.into()),
        true => Ok((is_whole(&read) && read.len() <= MOST_BYTES).then_some(read)),
    }
}

fn parse(head: &[u8]) -> Option<Request> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    let password = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let (scheme, given) = value.trim().split_once(' ')?;
        let is_it = name.eq_ignore_ascii_case("authorization") && scheme.eq_ignore_ascii_case("basic");
        let given = STANDARD.decode(is_it.then_some(given)?.trim()).ok()?;
        let colon = given.iter().position(|&byte| byte == b':')?;
        Some(given[colon + 1..].to_vec())
    });
    Some(Request { method, path, password })
}

impl Drop for Http {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_comes_with_a_request() {
        let head = b"GET /metrics?x HTTP/1.1\r\nHost: a\r\nAuthorization: Basic bWU6b3BlbiBzZXNhbWU=\r\n\r\n";
        let request = parse(head).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/metrics?x"));
        assert_eq!(request.password.as_deref(), Some(&b"open sesame"[..]));
        assert!(parse(b"GET /\r\n\r\n").is_none() && parse(b"\r\n\r\n").is_none());
    }
}
