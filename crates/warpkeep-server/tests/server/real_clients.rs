//! Clients that people use, as far as they are installed: see scripts/test-clients.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::peers::skip;
use crate::tls;

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-clients")
}

#[test]
fn real_clients_find_what_they_expect() {
    let (_home, files, server) = tls::start(|_| {});
    let [port, tls_port] = [server.address, server.tls()].map(|address| address.port().to_string());
    let mut command = Command::new("bash");
    command.arg(script()).args(["run", &port, &tls_port]).arg(&files.certificate);
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    for line in said.lines() {
        match line.strip_prefix("missing: ") {
            Some(what) => skip(what),
            None => writeln!(std::io::stdout().lock(), "{line}").unwrap(),
        }
    }
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
}
