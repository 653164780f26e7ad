//! A real process, killed for real, by a test that re-executes itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use warpkeep_crashlab::torture::{self, Torture, TortureError};

/// The victim: appends numbers to the given file, acknowledging each.
fn count_into(path: &str) -> ! {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    for number in 0u64.. {
        file.write_all(&number.to_le_bytes()).unwrap();
        torture::acknowledge(number).unwrap();
    }
    unreachable!("numbers do not end")
}

fn written(path: &std::path::Path) -> usize {
    std::fs::read(path).map_or(0, |bytes| bytes.len() / 8)
}

#[test]
fn what_was_acknowledged_is_there() {
    if let Some(path) = torture::role() {
        count_into(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |round: u32| directory.path().join(round.to_string());
    let victim =
        |round| torture::this_test("what_was_acknowledged_is_there", path(round).to_str().unwrap()).unwrap();
    let acks = Torture::new(5)
        .kill_after_acks(1..=50)
        .run(victim, |round| {
            assert!(round.killed);
            assert!(round.acks.iter().copied().eq(0..round.acks.len() as u64), "in order, none missing");
            if written(&path(round.number)) >= round.acks.len() { Ok(()) } else { Err("lost".into()) }
        })
        .unwrap();
    assert!(acks >= 5);
}

#[test]
fn time_kills_too_and_a_failed_verification_is_reported() {
    if let Some(path) = torture::role() {
        count_into(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |round: u32| directory.path().join(round.to_string());
    let test = "time_kills_too_and_a_failed_verification_is_reported";
    let victim = |round| torture::this_test(test, path(round).to_str().unwrap()).unwrap();
    let delay = Duration::from_millis(30)..=Duration::from_millis(200);
    // The first victim that had time to acknowledge is the last; on a busy machine many may not.
    let result = Torture::new(100)
        .kill_after(delay)
        .run(victim, |round| if round.acks.is_empty() { Ok(()) } else { Err("a planted fault".into()) });
    let error = result.expect_err("some round had acknowledgements");
    assert!(
        matches!(&error, TortureError::Violation { message, .. } if message == "a planted fault"),
        "{error}"
    );
}

#[test]
fn victims_that_fail_hang_or_do_nothing_are_errors() {
    let shell = |script: &'static str| {
        move |_: u32| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        }
    };
    // Victims that end may be slow on a busy machine; for the others the wait expires.
    let run = |script| Torture::new(1).run(shell(script), |_| Ok(()));
    let hang = |script| Torture::new(1).patience(Duration::from_millis(300)).run(shell(script), |_| Ok(()));
    assert!(matches!(run("exit 3"), Err(TortureError::Failed { round: 1, .. })));
    assert!(matches!(hang("exec sleep 60"), Err(TortureError::Stuck { round: 1, acks: 0, .. })));
    assert!(matches!(run("kill -SEGV $$"), Err(TortureError::Failed { .. })));
    assert!(matches!(hang("exec >&- sleep 60"), Err(TortureError::Stuck { .. })));
    assert!(matches!(run("true"), Err(TortureError::Idle(_))));
    let missing = Torture::new(1).run(|_| Command::new("./no such program"), |_| Ok(()));
    assert!(matches!(missing, Err(TortureError::Io { doing: "start the victim", .. })));
}
