//! The server as people start and stop it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::shop::{Ran, warpkeep};

/// A server that is killed at the end, if it still runs.
pub(crate) struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(store: &Path) -> Served {
        Served::start_with(store, &["--threads", "1", "--log-level", "error"], Stdio::inherit())
    }

    /// The same with arguments, and a destination for its log.
    pub(crate) fn start_with(store: &Path, arguments: &[&str], log: Stdio) -> Served {
        let mut command = warpkeep();
        command.arg("serve").arg(store).args(["--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("a server");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Served { child, address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a command and gives the first bytes of the answer, as many as are expected.
    pub(crate) fn ask(&self, command: &str, expected: &str) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.write_all(command.as_bytes()).expect("it is sent");
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), expected);
    }
}

impl Served {
    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("a signal");
    }
}

/// Repeats until the condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_was_stored_is_there_after_a_kill_and_after_an_orderly_end() {
    let home = tempfile::tempdir().expect("a directory");
    let store = home.path().join("store");
    let served = Served::start(&store);
    served.ask("set greeting 0 0 5\r\nhello\r\n", "STORED\r\n");
    drop(served);

    let mut served = Served::start(&store);
    served.ask("get greeting\r\n", "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
    served.ask("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n", ":1\r\n");
    served.signal(rustix::process::Signal::TERM);
    assert!(served.child.wait().expect("an end").success());
    let looked = Ran::of(warpkeep().arg("stat").arg(&store)).expect(0);
    assert!(looked.out.contains("closed cleanly") && looked.out.contains("items.1"), "{}", looked.out);

    let served = Served::start(&store);
    served.ask("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n", ":2\r\n");
}

#[test]
fn settings_are_checked_before_anything_is_made() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, file) = (home.path().join("store"), home.path().join("settings.toml"));
    let serve = |arguments: &[&str]| {
        let mut command = warpkeep();
        command.arg("serve").arg(&store).arg("--check").args(arguments);
        Ran::of(&mut command)
    };
    let path = file.to_str().expect("a path");
    std::fs::write(&file, "threads = 2\nmax-memory = \"1GiB\"\nevict = true\nidle-timeout = \"10m\"\n")
        .expect("a file");
    assert!(serve(&["--config", path]).expect(0).out.contains("make sense"));
    // An option takes precedence over the file.
    serve(&["--config", path, "--threads", "0"]).expect(2);
    std::fs::write(&file, "thread = 2\n").expect("a file");
    assert!(serve(&["--config", path]).expect(2).err.contains("thread"));
    assert!(serve(&["--listen", "0.0.0.0:11311"]).expect(2).err.contains("password"));
    let password = home.path().join("password");
    std::fs::write(&password, "secret\n").expect("a file");
    serve(&["--listen", "0.0.0.0:11311", "--password-file", password.to_str().expect("a path")]).expect(0);
    serve(&["--evict"]).expect(2);
    assert!(!store.exists());
}

#[test]
fn settings_are_read_again_on_sighup() {
    let home = tempfile::tempdir().expect("a directory");
    let file = |name: &str| home.path().join(name).to_str().expect("a path").to_owned();
    let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("a file");
    write("password", "one\n");
    let settings = format!("password-file = {:?}\n", file("password"));
    write("settings", &settings);
    let log = std::fs::File::create(file("log")).expect("a file");
    let arguments = ["--config", &file("settings"), "--threads", "1"];
    let served = Served::start_with(&home.path().join("store"), &arguments, log.into());
    let told = |what: &str| std::fs::read_to_string(file("log")).expect("a log").contains(what);

    served.ask("*2\r\n$4\r\nAUTH\r\n$3\r\none\r\n", "+OK\r\n");
    write("password", "two\n");
    served.signal(rustix::process::Signal::HUP);
    until("the settings are not read again", || told("the settings were read again"));
    served.ask("*2\r\n$4\r\nAUTH\r\n$3\r\ntwo\r\n", "+OK\r\n");
    served.ask("*2\r\n$4\r\nAUTH\r\n$3\r\none\r\n", "-WRONGPASS");

    // Invalid settings change nothing.
    write("settings", "thread = 2\n");
    served.signal(rustix::process::Signal::HUP);
    until("nothing is said of a wrong file", || told("the settings stay as they were"));
    served.ask("*2\r\n$4\r\nAUTH\r\n$3\r\ntwo\r\n", "+OK\r\n");

    // Settings that need a restart are named; the others are applied.
    write("settings", &(settings + "slow-log = \"1ns\"\ncapacity = 5000\n"));
    served.signal(rustix::process::Signal::HUP);
    until("what needs a restart is not named", || told("capacity need a restart"));
    served.ask(
        "*2\r\n$4\r\nAUTH\r\n$3\r\ntwo\r\n*3\r\n$3\r\nSET\r\n$8\r\nslow-key\r\n$1\r\nv\r\n",
        "+OK\r\n+OK\r\n",
    );
    until("a slow batch is not told", || told("a slow batch") && told("slow-key"));
}

#[test]
fn a_batch_that_is_not_slow_is_not_told() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("log");
    let log = std::fs::File::create(&path).expect("a file");
    let mut served = Served::start_with(&home.path().join("store"), &["--slow-log", "1h"], log.into());
    served.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    served.signal(rustix::process::Signal::TERM);
    assert!(served.child.wait().expect("an end").success());
    let log = std::fs::read_to_string(&path).expect("a log");
    assert!(log.contains("no more commands") && !log.contains("slow"), "{log}");
}

#[test]
fn tls_is_named_by_files() {
    let home = tempfile::tempdir().expect("a directory");
    let file = |name: &str| home.path().join(name).to_str().expect("a path").to_owned();
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(file("pem"), pair.cert.pem()).expect("a file");
    std::fs::write(file("key"), pair.signing_key.serialize_pem()).expect("a file");
    let serve = |arguments: &[&str]| {
        let mut command = warpkeep();
        command.arg("serve").arg(home.path().join("store")).arg("--check").args(arguments);
        Ran::of(&mut command)
    };
    let (pem, key) = (file("pem"), file("key"));
    let listen = ["--listen-tls", "127.0.0.1:0"];
    serve(&[&listen[..], &["--tls-certificate", &pem, "--tls-key", &key]].concat()).expect(0);
    let half = serve(&[&listen[..], &["--tls-certificate", &pem]].concat()).expect(2);
    assert!(half.err.contains("--tls-key"), "{}", half.err);
    let wrong = serve(&[&listen[..], &["--tls-certificate", &key, "--tls-key", &key]].concat()).expect(1);
    assert!(wrong.err.contains("there is no certificate in it"), "{}", wrong.err);
    let settings = format!("listen-tls = [\"127.0.0.1:0\"]\ntls-certificate = {pem:?}\ntls-key = {key:?}\n");
    std::fs::write(file("toml"), settings).expect("a file");
    serve(&["--config", &file("toml")]).expect(0);

    // It listens on the given addresses only; a client without TLS gets no answer of ours.
    let mut command = warpkeep();
    command.arg("serve").arg(home.path().join("store")).args(["--config", &file("toml"), "--threads", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a server");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_suffix(", with TLS").expect("with TLS").rsplit(' ').next();
    let served = Served { child, address: address.expect("an address").to_owned() };
    served.ask("get a\r\n", "\x15\x03\x03");
}
