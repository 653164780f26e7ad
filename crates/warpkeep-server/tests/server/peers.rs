//! memcached and redis-server, started beside this server.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A peer that runs until this is dropped.
pub(crate) struct Peer {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// memcached, if it is installed.
    pub(crate) fn memcached() -> Option<Peer> {
        Peer::start("memcached", |port| {
            let words = ["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "root", "-p", port];
            words.map(str::to_owned).to_vec()
        })
    }

    /// redis-server, if it is installed.
    pub(crate) fn redis() -> Option<Peer> {
        Peer::start("redis-server", |port| {
            let words = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", port];
            words.map(str::to_owned).to_vec()
        })
    }

    fn start(program: &str, arguments: impl Fn(&str) -> Vec<String>) -> Option<Peer> {
        let file = find(program)?;
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(file)
            .args(arguments(&address.port().to_string()))
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let peer = Peer { child, address };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{program} does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(peer)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a program is. Where tests must not be skipped, it has to be somewhere.
fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(Into::into);
    let found =
        std::env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|file| file.is_file());
    if found.is_none() {
        skip(&format!("{program} is not installed; scripts/bench-servers installs it"));
    }
    found
}

/// Reports that a test is skipped, or fails where skipping is not allowed.
pub(crate) fn skip(why: &str) {
    use std::io::Write as _;
    use std::ops::Not as _;
    assert!(std::env::var("CI").is_ok_and(|ci| ci == "true").not(), "{why}");
    writeln!(std::io::stdout().lock(), "SKIPPED: {why}").unwrap();
}
