//! Transactions are atomic: where there is no room, and after a power cut.

use std::io::Write as _;
use std::path::Path;

use warpkeep::{Durability, Store, StoreOptions};
use warpkeep_server::Settings;

use crate::harness::{Running, command, command_of, settings};

const LIMIT: u64 = 64 << 20;
const VALUE: usize = 100_000;

/// A server whose memory is used up by large values.
fn full(durability: Durability, evict: bool) -> (tempfile::TempDir, Running) {
    let home = tempfile::tempdir().unwrap();
    let mut options =
        StoreOptions { without_log: durability == Durability::Process, ..StoreOptions::default() };
    options.heap.max_bytes = LIMIT;
    options.create.chunk_size = warpkeep_server::chunk_size(LIMIT);
    let settings = Settings { max_memory: LIMIT, evict, durability, threads: 1, ..settings() };
    let server = Running::start_in(home.path(), settings, options);
    let mut client = server.resp();
    client.call(&["MSET", "small", "1", "n", "5"]);
    let value = vec![b'v'; VALUE];
    for group in 0..80 {
        let sets = (0..10)
            .flat_map(|number| command_of(&[b"SET", format!("key-{group}-{number}").as_bytes(), &value]));
        let said = client.ask(&sets.collect::<Vec<u8>>());
        if String::from_utf8_lossy(&said).contains("-OOM") {
            break;
        }
    }
    (home, server)
}

/// A transaction with small changes and large ones.
fn transaction() -> Vec<u8> {
    let value = vec![b'w'; VALUE];
    let mut script = [
        command(&["MULTI"]),
        command(&["SET", "small", "2"]),
        command(&["INCR", "n"]),
        command(&["SET", "fresh", "1"]),
        command(&["DEL", "key-0-1"]),
    ]
    .concat();
    for number in 0..8 {
        script.extend(command_of(&[b"SET", format!("large-{number}").as_bytes(), &value]));
    }
    script.extend(command(&["EXEC"]));
    script
}

#[test]
fn without_room_nothing_of_a_transaction_is_done() {
    for durability in [Durability::Process, Durability::Power] {
        let (_home, server) = full(durability, false);
        let mut client = server.resp();
        let said = String::from_utf8_lossy(&client.ask(&transaction())).into_owned();
        assert!(said.ends_with("-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n"), "{said}");
        assert_eq!(client.call(&["MGET", "small", "n", "fresh"]), "*3\r\n$1\r\n1\r\n$1\r\n5\r\n$-1\r\n");
        assert_eq!(client.call(&["EXISTS", "key-0-1", "large-0", "large-1", "large-7"]), ":1\r\n");
        assert_eq!(client.call(&["STRLEN", "key-0-1"]), format!(":{VALUE}\r\n"));
        // A renamed large value needs room as well, and is not lost for lack of it.
        let said = client.call(&["RENAME", "key-0-2", "renamed"]);
        let place = if said == "+OK\r\n" { "renamed" } else { "key-0-2" };
        assert!(said == "+OK\r\n" || said.starts_with("-OOM"), "{said}");
        assert_eq!(client.call(&["STRLEN", place]), format!(":{VALUE}\r\n"));
        assert_eq!(client.call(&["EXISTS", "key-0-2", "renamed"]), ":1\r\n");
    }
}

#[test]
fn a_cache_makes_room_for_a_transaction() {
    for durability in [Durability::Process, Durability::Power] {
        let (_home, server) = full(durability, true);
        let said = String::from_utf8_lossy(&server.resp().ask(&transaction())).into_owned();
        assert!(said.contains("*12\r\n") && said.ends_with(&"+OK\r\n".repeat(8)), "{said}");
    }
}

/// Copies files and folders, but for one file.
fn copy(from: &Path, to: &Path, left_out: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name())
        };
        match path.is_dir() {
            true => copy(&path, &to.join(name), left_out),
            false if path == left_out => {}
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

#[test]
fn wherever_the_log_ends_a_transaction_is_in_it_or_not() {
    const KEYS: usize = 20;
    const ROUNDS: usize = 12;
    const CUTS: usize = 40;
    let home = tempfile::tempdir().unwrap();
    let start = || Settings { durability: Durability::Power, ..settings() };
    let server = Running::start_in(home.path(), start(), StoreOptions::default());
    let mut client = server.resp();
    for round in 0..ROUNDS {
        let mut script = command(&["MULTI"]);
        (0..KEYS).for_each(|key| {
            script.extend(command(&["SET", &format!("key-{key}"), &format!("round-{round}")]));
        });
        script.extend(command(&["EXEC"]));
        assert!(client.ask(&script).ends_with(b"+OK\r\n"));
    }
    // All of it is on the disk. Now the machine dies while the log is written: at any byte of it.
    let image = home.path().join("image");
    let copied = tempfile::tempdir().unwrap();
    copy(home.path(), copied.path(), &image);
    server.stop();
    let Segment { path, bytes, end } = last_segment(copied.path());
    let mut seen = std::collections::BTreeSet::new();
    let (mut cuts, mut refused) = (0, String::new());
    for cut in (0..end).rev().step_by(end / CUTS + 1) {
        let dead = tempfile::tempdir().unwrap();
        copy(copied.path(), dead.path(), &copied.path().join(&path));
        // It keeps its length, with zeros where nothing was written.
        let mut torn = std::fs::File::create(dead.path().join(&path)).unwrap();
        torn.write_all(&bytes[..cut]).unwrap();
        torn.set_len(bytes.len() as u64).unwrap();
        drop(torn);
        let store = match Store::open_with(
            dead.path(),
            StoreOptions { abandon_image: true, ..StoreOptions::default() },
        ) {
            Ok(store) => store,
            Err(error) => {
                refused = error.to_string();
                continue;
            }
        };
        let Ok(table) = store.table("items.1") else { continue };
        let values: std::collections::BTreeSet<Option<Vec<u8>>> =
            (0..KEYS).map(|key| table.get(format!("key-{key}").as_bytes()).unwrap()).collect();
        assert_eq!(values.len(), 1, "a part of a transaction, with the log cut at {cut}: {values:?}");
        seen.extend(values);
        cuts += 1;
    }
    assert!(seen.len() > ROUNDS / 2, "{seen:?} of {cuts} cuts; {refused}");
    writeln!(
        std::io::stdout().lock(),
        "server: {cuts} cuts of the log, {} states of a transaction",
        seen.len()
    )
    .unwrap();
}

/// The segment of the log that is written last.
struct Segment {
    /// Within the store's folder.
    path: std::path::PathBuf,
    bytes: Vec<u8>,
    /// Where the last transaction ends, about.
    end: usize,
}

fn last_segment(home: &Path) -> Segment {
    fn files(folder: &Path, all: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, all);
            } else {
                all.push(path);
            }
        }
    }
    let mut all = Vec::new();
    files(home, &mut all);
    let wanted = b"round-11";
    let found = all.into_iter().find_map(|path| {
        let bytes = std::fs::read(&path).unwrap();
        let last = bytes.windows(wanted.len()).rposition(|window| window == wanted)?;
        let end = (last + 64).min(bytes.len());
        Some(Segment { path: path.strip_prefix(home).unwrap().to_owned(), bytes, end })
    });
    found.unwrap()
}
