//! Commands beside others that throw all items away: no worker waits for another for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpkeep_server::Settings;

use crate::harness::{Client, Running, command, settings};

/// Has the other thread end when this is dropped, also by a panic.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` with a client of one worker, while a client of another worker throws all items away again and again.
fn beside_flushes(work: impl FnOnce(&mut Client) + Send + 'static) {
    let server = Running::start(Settings { threads: 2, ..settings() });
    // Workers take connections in turn.
    let (mut client, mut flusher) = (server.resp(), server.resp());
    let stop = Arc::new(AtomicBool::new(false));
    let guard = StopOnDrop(Arc::clone(&stop));
    let working = std::thread::spawn(move || {
        let _guard = guard;
        work(&mut client);
    });
    let flushing = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(flusher.call(&["FLUSHALL"]), "+OK\r\n");
        }
    });
    // Clients panic when an answer takes too long.
    let ended = [working, flushing].map(|thread| thread.join().is_ok());
    if ended != [true, true] {
        // Stopping it would wait for its workers.
        std::mem::forget(server);
        panic!("a worker did not answer, or gave a wrong answer");
    }
}

#[test]
fn a_transaction_with_a_request_to_the_server_does_not_wait_for_a_flush() {
    beside_flushes(|client| {
        let begun = Instant::now();
        let transaction = [command(&["MULTI"]), command(&["DBSIZE"]), command(&["EXEC"])].concat();
        let script = transaction.repeat(50);
        while begun.elapsed() < Duration::from_secs(3) {
            let expected = "+OK\r\n+QUEUED\r\n*1\r\n:0\r\n".repeat(50);
            assert_eq!(String::from_utf8(client.ask(&script)).unwrap(), expected);
        }
    });
}

#[test]
fn a_copy_to_a_new_database_does_not_wait_for_a_flush() {
    for _ in 0..3 {
        beside_flushes(|client| {
            for database in 1..16 {
                let number = database.to_string();
                let copy = command(&["COPY", "k", "k", "DB", &number]);
                let script = [command(&["SET", "k", "v"]), copy].concat();
                // The items may be thrown away between the two.
                let begun = Instant::now();
                while client.ask(&script) != b"+OK\r\n:1\r\n" {
                    assert!(begun.elapsed() < Duration::from_secs(60), "nothing is copied");
                }
            }
        });
    }
}
