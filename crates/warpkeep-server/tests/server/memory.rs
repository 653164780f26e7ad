//! The server whose clients are in memory: its answers are those that clients get through sockets, also if writes wait
//! for every third batch.

use fastrand::Rng;
use warpkeep::Store;
use warpkeep_server::{MemoryServer, MemoryWorker, Settings};

use crate::differential::{classic, meta, redis, without_numbers};
use crate::harness::{Client, Running, command, settings};

/// Executes batches until there is nothing left to do.
fn run_dry(worker: &mut MemoryWorker<'_, '_>) {
    while worker.turn().unwrap() > 0 {}
}

/// The answers that a client has not taken, which it takes.
fn take(worker: &mut MemoryWorker<'_, '_>, client: usize) -> Vec<u8> {
    let answers = worker.answers(client).to_vec();
    worker.take_answers(client);
    answers
}

/// Sends the same random commands through a socket and in memory, there cut into pieces with batches between them.
fn compare(
    mut through_socket: Client,
    settings: Settings,
    mut next: impl FnMut(&mut Rng, &mut Vec<u8>),
    normal: impl Fn(&[u8]) -> String,
) {
    const GROUPS: usize = 300;
    let write_every = settings.write_every;
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let server = MemoryServer::new(&store, settings).unwrap();
    let mut worker = server.worker();
    let (client, other) = (worker.connect(), worker.connect());
    let mut random = Rng::with_seed(12);
    let mut delayed = 0;
    let too_long = [b'k'; 251];
    for group in 0..GROUPS {
        let mut bytes = Vec::new();
        for _ in 0..random.usize(1..20) {
            let before = bytes.len();
            next(&mut random, &mut bytes);
            // After a key that is too long the value is taken for a line, whose answer depends on how it was cut.
            if bytes[before..].windows(251).any(|window| window == too_long) {
                bytes.truncate(before);
            }
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let end = random.usize(sent + 1..=bytes.len());
            worker.send(client, &bytes[sent..end]);
            // Without it no batch would be without writes.
            worker.send(other, b"get of-another-client\r\n");
            worker.turn().unwrap();
            sent = end;
        }
        let early = worker.answers(client).len();
        run_dry(&mut worker);
        delayed += usize::from(worker.answers(client).len() > early);
        let (ours, theirs) = (normal(&take(&mut worker, client)), normal(&through_socket.ask(&bytes)));
        assert!(
            ours == theirs,
            "group {group} differs:\n{}\n--- in memory\n{ours}\n--- through a socket\n{theirs}",
            String::from_utf8_lossy(&bytes)
        );
        assert!(!take(&mut worker, other).is_empty());
    }
    assert!(delayed > 0 || write_every == 1, "some commands were left for the last batches");
}

#[test]
fn answers_in_memory_are_those_through_sockets() {
    for write_every in [1, 3] {
        let server = Running::start(settings());
        let ours = || Settings { write_every, ..settings() };
        compare(server.memcached(), ours(), classic, |answer| without_numbers(answer, false));
        let server = Running::start(settings());
        compare(server.memcached(), ours(), meta, |answer| without_numbers(answer, true));
        let server = Running::start(settings());
        compare(server.resp(), ours(), redis, |answer| String::from_utf8_lossy(answer).into_owned());
    }
}

#[test]
fn writes_wait_and_later_commands_of_their_connection_with_them() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let server = MemoryServer::new(&store, Settings { write_every: 3, ..settings() }).unwrap();
    let mut worker = server.worker();
    let (writer, reader) = (worker.connect(), worker.connect());
    // The first two batches take no writes.
    worker.send(writer, b"get a\r\nset a 0 0 1\r\n1\r\nget a\r\n");
    worker.send(reader, b"get a\r\n");
    assert_eq!(worker.turn().unwrap(), 2);
    assert_eq!(take(&mut worker, writer), b"END\r\n");
    assert_eq!(take(&mut worker, reader), b"END\r\n");
    worker.send(writer, b"get b\r\n");
    worker.send(reader, b"get a\r\n");
    assert_eq!(worker.turn().unwrap(), 1, "the writer waits, with a get that could be answered");
    assert_eq!(take(&mut worker, writer), b"");
    worker.send(reader, b"get a\r\n");
    assert_eq!(worker.turn().unwrap(), 3);
    assert_eq!(take(&mut worker, writer), b"STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    // The writer came first.
    assert_eq!(take(&mut worker, reader), b"END\r\nVALUE a 0 1\r\n1\r\nEND\r\n");

    assert_eq!(worker.turn().unwrap(), 1, "input is read when the commands before it are done");
    assert_eq!(take(&mut worker, writer), b"END\r\n");

    // Without other commands a write does not wait.
    worker.send(writer, b"set a 0 0 1\r\n2\r\n");
    assert_eq!(worker.turn().unwrap(), 1);
    assert_eq!(take(&mut worker, writer), b"STORED\r\n");
    // A full batch does not keep writes waiting for ever.
    worker.send(writer, b"delete a\r\n");
    for _ in 0..3 {
        worker.send(reader, &b"get a\r\n".repeat(Settings::default().batch));
        worker.turn().unwrap();
    }
    assert_eq!(take(&mut worker, writer), b"DELETED\r\n");
}

#[test]
fn clients_see_their_own_writes_in_order_while_writes_wait() {
    let running = Running::start(Settings { write_every: 4, threads: 1, ..settings() });
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let mut client = running.resp();
            std::thread::spawn(move || {
                let key = format!("n{number}");
                for round in 0..20 {
                    let (mut pipeline, mut expected) = (Vec::new(), String::new());
                    for step in 1..=50 {
                        let now = (round * 50 + step).to_string();
                        pipeline.extend(command(&["INCR", &key]));
                        pipeline.extend(command(&["GET", &key]));
                        expected += &format!(":{now}\r\n${}\r\n{now}\r\n", now.len());
                    }
                    assert_eq!(String::from_utf8(client.ask(&pipeline)).unwrap(), expected);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// The answers to commands that are sent in pieces, each when those before it are answered.
fn answers_to(setup: &[Vec<u8>], pieces: &[Vec<u8>]) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let server = MemoryServer::new(&store, settings()).unwrap();
    let mut worker = server.worker();
    let client = worker.connect();
    worker.send(client, &setup.concat());
    run_dry(&mut worker);
    take(&mut worker, client);
    let mut answers = Vec::new();
    for piece in pieces {
        worker.send(client, piece);
        run_dry(&mut worker);
        answers.extend(take(&mut worker, client));
    }
    answers
}

/// A batch gives out 8 MiB. Commands beyond that wait for the next batch, and so do those after them.
#[test]
fn commands_that_change_the_session_wait_for_those_before_them() {
    let value = "v".repeat(1_000_000);
    let set = command(&["SET", "k", &value]);
    let scripts: [(&str, &[&[&str]]); 5] = [
        ("0", &[&["MULTI"], &["SET", "a", "1"], &["EXEC"], &["GET", "a"]]),
        ("1", &[&["SET", "a", "1"], &["RESET"], &["EXISTS", "a"], &["SELECT", "1"], &["GET", "a"]]),
        ("0", &[&["GET", "nothing"], &["HELLO", "3"], &["GET", "nothing"]]),
        ("0", &[&["CLIENT", "GETNAME"], &["CLIENT", "SETNAME", "x"], &["CLIENT", "GETNAME"]]),
        ("0", &[&["GET", "nothing"], &["AUTH", "default", "any"], &["GET", "nothing"]]),
    ];
    for (database, script) in scripts {
        let setup = [command(&["SELECT", database]), set.clone()];
        let mut pieces = vec![command(&["GET", "k"]); 20];
        pieces.extend(script.iter().map(|words| command(words)));
        let (at_once, one_by_one) = (answers_to(&setup, &[pieces.concat()]), answers_to(&setup, &pieces));
        let end = |answers: &[u8]| {
            let values = answers.iter().rposition(|&byte| byte == b'v').map_or(0, |last| last + 3);
            String::from_utf8_lossy(&answers[values.min(answers.len())..]).into_owned()
        };
        assert!(
            at_once == one_by_one,
            "{script:?}: {} bytes, {:?}, and one by one {} bytes, {:?}",
            at_once.len(),
            end(&at_once),
            one_by_one.len(),
            end(&one_by_one)
        );
        assert!(one_by_one.len() > 20 * value.len());
    }
}
