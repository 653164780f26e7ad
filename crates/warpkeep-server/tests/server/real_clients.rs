//! Clients that people use, as far as they are installed: see scripts/test-clients.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Running, settings};
use crate::peers::skip;

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-clients")
}

#[test]
fn real_clients_find_what_they_expect() {
    let server = Running::start(settings());
    let port = server.address.port().to_string();
    let run = Command::new("bash").arg(script()).args(["run", &port]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    for line in said.lines() {
        match line.strip_prefix("missing: ") {
            Some(what) => skip(what),
            None => writeln!(std::io::stdout().lock(), "{line}").unwrap(),
        }
    }
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
}
