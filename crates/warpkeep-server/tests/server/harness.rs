//! A server in this process, and clients that know when an answer is complete.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use warpkeep::{Store, StoreOptions};
use warpkeep_server::{Io, Server, Settings};

/// A server that runs until this is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) http: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    home: Option<TempDir>,
}

/// How servers wait for their clients here: as this test program chooses, or with a poll if that is unavailable.
pub(crate) fn io() -> Io {
    static IO: OnceLock<Io> = OnceLock::new();
    *IO.get_or_init(|| match crate::IO.check() {
        Ok(()) => crate::IO,
        Err(error) => {
            writeln!(std::io::stdout().lock(), "SKIPPED: over a poll instead: {error}").unwrap();
            Io::Poll
        }
    })
}

/// Settings for tests: any free port, two threads.
pub(crate) fn settings() -> Settings {
    Settings { listen: vec![([127, 0, 0, 1], 0).into()], threads: 2, io: io(), ..Settings::default() }
}

impl Running {
    pub(crate) fn start(settings: Settings) -> Running {
        Running::of(Server::bind(settings).unwrap())
    }

    pub(crate) fn start_in(home: &Path, settings: Settings, options: StoreOptions) -> Running {
        Running::of_in(Server::bind(settings).unwrap(), home, options)
    }

    /// A server that is bound already.
    pub(crate) fn of(server: Server) -> Running {
        let home = tempfile::tempdir().unwrap();
        let mut running = Running::of_in(server, home.path(), StoreOptions::default());
        running.home = Some(home);
        running
    }

    fn of_in(server: Server, home: &Path, options: StoreOptions) -> Running {
        let (address, http) = (server.addresses()[0], server.http_address());
        let tls = server.tls_addresses().first().copied();
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, home) = (Arc::clone(&stop), home.to_owned());
        let thread = std::thread::spawn(move || {
            let store = Store::open_with(home, options).unwrap();
            server.run(&store, || theirs.load(Ordering::Relaxed)).unwrap();
            store.close().unwrap();
        });
        Running { address, http, tls, stop, thread: Some(thread), home: None }
    }

    /// Where it listens for TLS.
    pub(crate) fn tls(&self) -> SocketAddr {
        self.tls.unwrap()
    }

    pub(crate) fn memcached(&self) -> Client {
        Client::memcached(self.address)
    }

    pub(crate) fn resp(&self) -> Client {
        Client::resp(self.address)
    }

    /// Stops it and waits until its store is closed.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A client of either protocol.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    is_resp: bool,
    asked: u64,
}

impl Client {
    pub(crate) fn memcached(address: SocketAddr) -> Client {
        Client::new(address, false)
    }

    pub(crate) fn resp(address: SocketAddr) -> Client {
        Client::new(address, true)
    }

    fn new(address: SocketAddr, is_resp: bool) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, is_resp, asked: 0 }
    }

    /// Sends bytes and returns the answer. A final command with a known answer marks the end.
    pub(crate) fn ask(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.asked += 1;
        let (question, end) = match self.is_resp {
            true => {
                let word = format!("the-end-{}", self.asked);
                (command(&["ECHO", &word]), format!("${}\r\n{word}\r\n", word.len()))
            }
            // A key that no test uses.
            false => (format!("mg the-end-{} q k v\r\nmn\r\n", self.asked).into_bytes(), "MN\r\n".to_owned()),
        };
        let mut all = bytes.to_vec();
        all.extend_from_slice(&question);
        // The answers may not fit into the socket buffers: they are read while the rest is sent.
        let mut writer = self.stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A server may close early.
                let _ = writer.write_all(&all);
            });
            let mut answer = Vec::new();
            let mut some = [0; 65536];
            while !answer.ends_with(end.as_bytes()) {
                match self.stream.read(&mut some) {
                    Ok(0) => return answer,
                    Ok(count) => answer.extend_from_slice(&some[..count]),
                    // The system resets a connection whose input was not read completely.
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return answer,
                    Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&answer)),
                }
            }
            answer.truncate(answer.len() - end.len());
            answer
        })
    }

    /// The same for a client that may be in a transaction, where commands are only queued: returns the answers up
    /// to and including that of a final `DISCARD`.
    pub(crate) fn ask_all(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.ask(&[bytes, &command(&["DISCARD"])].concat())
    }

    /// The same with text.
    pub(crate) fn say(&mut self, text: &str) -> String {
        String::from_utf8_lossy(&self.ask(text.as_bytes())).into_owned()
    }

    /// Sends the words of one Redis command.
    pub(crate) fn call(&mut self, words: &[&str]) -> String {
        String::from_utf8_lossy(&self.ask(&command(words))).into_owned()
    }

    /// The remaining bytes until the server closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }
}

/// A command of Redis's.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    command_of(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

/// The same of bytes.
pub(crate) fn command_of(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
