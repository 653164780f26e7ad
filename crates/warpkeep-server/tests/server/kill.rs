//! The server's process is killed under load, and stopped in order under load: after a restart every acknowledged
//! write is there, and nothing that was never requested.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warpkeep::{Durability, StoreOptions};
use warpkeep_server::{Server, Settings};

use crate::harness::{Running, settings};
use crate::load::{Client, Known, Speaks};

const HOME: &str = "WARPKEEP_SERVER_TEST_HOME";
const KIND: &str = "WARPKEEP_SERVER_TEST_KIND";
/// How often the server is killed; a few times by default.
const ROUNDS: &str = "WARPKEEP_SERVER_KILL_ROUNDS";

/// The promise of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// With a log, and answers before it is written.
    Logged,
    /// With a log, and answers after it is on the disk.
    Power,
    /// Without a log.
    Bare,
}

impl Kind {
    fn options(self) -> StoreOptions {
        StoreOptions { without_log: matches!(self, Kind::Bare), ..StoreOptions::default() }
    }

    fn settings(self) -> Settings {
        let durability = if matches!(self, Kind::Power) { Durability::Power } else { Durability::Process };
        Settings { durability, max_connections: 20_000, ..settings() }
    }
}

/// Not a test by itself: the process that is killed.
#[test]
fn victim() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let kind = match std::env::var(KIND).unwrap().as_str() {
        "Logged" => Kind::Logged,
        "Power" => Kind::Power,
        _ => Kind::Bare,
    };
    let server = Server::bind(kind.settings()).unwrap();
    let store = warpkeep::Store::open_with(home, kind.options()).unwrap();
    println!("\nlistening {}", server.addresses()[0]);
    std::io::stdout().flush().unwrap();
    server.run(&store, || false).unwrap();
}

/// A server in a process of its own.
pub(crate) struct Victim {
    pub(crate) child: Child,
    pub(crate) address: std::net::SocketAddr,
}

impl Victim {
    pub(crate) fn start(home: &Path, kind: Kind) -> Victim {
        use std::io::BufRead as _;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::victim", "--exact", "--nocapture", "--test-threads=1"])
            .env(HOME, home)
            .env(KIND, format!("{kind:?}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("it ended before it listened").unwrap();
            if let Some(address) = line.strip_prefix("listening ") {
                break address.parse().unwrap();
            }
        };
        Victim { child, address }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients of both protocols, each with keys of its own.
fn clients() -> Vec<Client> {
    [Speaks::Resp, Speaks::Resp, Speaks::Memcached, Speaks::Memcached]
        .into_iter()
        .enumerate()
        .map(|(number, speaks)| Client::new(number, speaks))
        .collect()
}

/// Has the clients write until `end` has stopped the server. Returns how much was acknowledged.
fn write_until(address: std::net::SocketAddr, clients: &mut [Client], end: impl FnOnce()) -> u64 {
    let before: u64 = clients.iter().map(Client::acknowledged).sum();
    std::thread::scope(|scope| {
        for client in clients.iter_mut() {
            scope.spawn(move || client.write_until_it_dies(address));
        }
        end();
    });
    clients.iter().map(Client::acknowledged).sum::<u64>() - before
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let rounds = std::env::var(ROUNDS).map_or(6, |rounds| rounds.parse::<u64>().unwrap());
    let mut stores =
        [Kind::Logged, Kind::Power, Kind::Bare].map(|kind| (kind, tempfile::tempdir().unwrap(), clients()));
    let (mut acknowledged, mut silent) = (0, 0);
    for round in 0..rounds {
        let (kind, home, clients) = &mut stores[(round % 3) as usize];
        let mut victim = Victim::start(home.path(), *kind);
        for client in clients.iter_mut() {
            client.check(victim.address).unwrap_or_else(|wrong| panic!("round {round}, {kind:?}: {wrong}"));
        }
        let written = write_until(victim.address, clients, || {
            std::thread::sleep(Duration::from_millis(60 + round * 37 % 130));
            victim.child.kill().unwrap();
        });
        // On a busy machine it may die before it has answered anything, which is also a valid moment.
        silent += u64::from(written == 0);
        acknowledged += written;
    }
    assert!(silent < rounds, "in none of {rounds} rounds anything was acknowledged");
    for (kind, home, mut clients) in stores {
        let victim = Victim::start(home.path(), kind);
        for client in &mut clients {
            client.check(victim.address).unwrap_or_else(|wrong| panic!("at the end, {kind:?}: {wrong}"));
        }
    }
    writeln!(
        std::io::stdout().lock(),
        "server: killed {rounds} times, {acknowledged} commands acknowledged and there"
    )
    .unwrap();
}

#[test]
fn what_was_answered_is_there_after_an_orderly_restart_under_load() {
    for kind in [Kind::Logged, Kind::Power, Kind::Bare] {
        let home = tempfile::tempdir().unwrap();
        let mut clients = clients();
        let mut acknowledged = 0;
        for _ in 0..2 {
            let server = Running::start_in(home.path(), kind.settings(), kind.options());
            for client in &mut clients {
                client.check(server.address).unwrap_or_else(|wrong| panic!("{kind:?}: {wrong}"));
            }
            let address = server.address;
            acknowledged += write_until(address, &mut clients, || {
                std::thread::sleep(Duration::from_millis(120));
                server.stop();
            });
        }
        assert!(acknowledged > 0, "{kind:?}: nothing was acknowledged");
        let server = Running::start_in(home.path(), kind.settings(), kind.options());
        for client in &mut clients {
            client.check(server.address).unwrap_or_else(|wrong| panic!("{kind:?}: {wrong}"));
        }
        drop(server);
    }
}

#[test]
fn the_check_of_these_tests_notices_what_is_missing() {
    let mut known = Known::default();
    assert!(known.allows(None) && !known.allows(Some(1)));
    // Sent up to 5, of which 3 are acknowledged.
    known.sent = 5;
    known.acknowledged = 3;
    let allowed: Vec<bool> = (0..7).map(|value| known.allows(Some(value))).collect();
    assert_eq!(allowed, [false, false, false, true, true, true, false]);
    assert!(!known.allows(None));
}
