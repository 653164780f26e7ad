//! The server as people start and stop it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::shop::{Ran, warpkeep};

/// A server that is killed at the end, if it still runs.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(store: &Path) -> Served {
        let arguments = ["--listen", "127.0.0.1:0", "--threads", "1", "--log-level", "error"];
        let mut command = warpkeep();
        let mut child =
            command.arg("serve").arg(store).args(arguments).stdout(Stdio::piped()).spawn().expect("a server");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Served { child, address }
    }

    /// Sends a command and gives the first bytes of the answer, as many as are expected.
    fn ask(&self, command: &str, expected: &str) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.write_all(command.as_bytes()).expect("it is sent");
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), expected);
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
    let id = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal");
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
    // An option goes before the file.
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
