//! Ctrl-C while a command is at work.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::shop::{Shop, warpkeep};

/// Long enough on any machine.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn an_interrupted_command_ends_as_shells_expect() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let shop = Shop::empty();
        let mut child = warpkeep()
            .arg("load")
            .arg(shop.store())
            .args(["t", "-", "--format", "jsonl", "--create"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        let mut lines = |from: u64| {
            let text: String =
                (from..from + 5000).map(|n| format!("{{\"key\":{n},\"value\":\"v\"}}\n")).collect();
            pipe.write_all(text.as_bytes())
        };
        lines(0).expect("it reads");
        let begun = Instant::now();
        // It listens for signals before it makes the store.
        while !shop.image().exists() {
            assert!(begun.elapsed() < LIMIT, "no store was made");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
        assert!(sent.expect("kill").success());
        // It looks for signals between batches, so it is given more of them until it ends.
        let mut from = 5000;
        while lines(from).is_ok() {
            from += 5000;
            assert!(begun.elapsed() < LIMIT, "it goes on");
        }
        drop(pipe);
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{err}");
        // How far it came depends on its speed.
        let stands = err.contains("items before it were loaded") || err.contains("nothing was loaded");
        assert!(err.contains("interrupted; ") && stands, "{err}");
        assert!(shop.ran("stat", &[], 0).out.contains("closed cleanly"));
    }
}

#[test]
fn an_interrupted_wait_for_a_served_backup_ends_as_shells_expect() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // A server whose backup takes for ever.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let child = warpkeep()
            .args(["backup", "monday", "--address", &address])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let (stream, _) = listener.accept().expect("a client");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout");
        let mut answers = stream.try_clone().expect("a stream");
        let mut requests = 0;
        let begun = Instant::now();
        for line in BufReader::new(stream).lines() {
            // The client may end in the middle.
            let Ok(line) = line else { break };
            // The first request begins a backup, and the others ask how it goes.
            if !line.starts_with('*') {
                continue;
            }
            requests += 1;
            let said = if requests == 1 { "+OK\r\n" } else { "+running monday\r\n" };
            if answers.write_all(said.as_bytes()).is_err() {
                break;
            }
            if requests == 3 {
                let sent =
                    Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
                assert!(sent.expect("kill").success());
            }
            assert!(begun.elapsed() < LIMIT, "it goes on");
        }
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.contains("interrupted; the server goes on with the backup"), "{err}");
    }
}
