//! ThreadSanitizer sees lanes as threads: `tests/tsan.sh` says whether it finds races, and only them.

use std::path::Path;
use std::process::Command;

use crate::support::tell;

#[test]
fn planted_races_are_reported_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder to build in");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tsan.sh");
    let output = Command::new("bash").arg(script).arg(folder.path()).output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines() {
        tell(line);
    }
    let ok = matches!(output.status.code(), Some(0 | 77));
    assert!(ok, "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
