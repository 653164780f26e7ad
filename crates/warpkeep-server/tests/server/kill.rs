//! The server's process is killed under load: what was acknowledged is there when it is started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warpkeep::{Store, StoreOptions};
use warpkeep_server::Server;

use crate::harness::{Client, command, settings};

const HOME: &str = "WARPKEEP_SERVER_TEST_HOME";

/// Not a test by itself: the process that is killed.
#[test]
fn victim() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let server = Server::bind(settings()).unwrap();
    let store = Store::open_with(home, StoreOptions::default()).unwrap();
    println!("\nlistening {}", server.addresses()[0]);
    std::io::stdout().flush().unwrap();
    server.run(&store, || false).unwrap();
}

struct Victim {
    child: Child,
    address: SocketAddr,
}

impl Victim {
    fn start(home: &Path) -> Victim {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["kill::victim", "--exact", "--nocapture", "--test-threads=1"])
            .env(HOME, home)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
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

/// Writes ever larger numbers to its own keys until the server is gone; gives the last number acknowledged of each.
fn write_until_it_dies(address: SocketAddr, client: usize) -> [u64; 4] {
    let mut acknowledged = [0; 4];
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for number in 1.. {
        let pipeline: Vec<u8> = (0..4)
            .flat_map(|key| command(&["SET", &format!("client-{client}-{key}"), &number.to_string()]))
            .collect();
        if stream.write_all(&pipeline).is_err() {
            break;
        }
        for key in &mut acknowledged {
            let mut answer = [0; 5];
            if stream.read_exact(&mut answer).is_err() {
                return acknowledged;
            }
            assert_eq!(&answer, b"+OK\r\n");
            *key = number;
        }
    }
    acknowledged
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut floor = vec![[0_u64; 4]; 4];
    for round in 0..4 {
        let mut victim = Victim::start(home.path());
        let address = victim.address;
        let mut client = Client::resp(address);
        for (number, keys) in floor.iter().enumerate() {
            for (key, &least) in keys.iter().enumerate() {
                let said = client.call(&["GET", &format!("client-{number}-{key}")]);
                let found = said.lines().nth(1).map_or(0, |value| value.parse().unwrap());
                assert!(found >= least, "round {round}: {found} instead of {least}");
            }
        }
        floor = std::thread::scope(|scope| {
            let writers: Vec<_> =
                (0..4).map(|number| scope.spawn(move || write_until_it_dies(address, number))).collect();
            std::thread::sleep(Duration::from_millis(100 + 37 * round));
            victim.child.kill().unwrap();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        assert!(floor.iter().any(|keys| keys[0] > 0), "nothing was written in round {round}");
    }
}
