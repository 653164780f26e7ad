//! `kill -9` over a store of tables: two threads create, write, grow and drop tables of several kinds, the process is
//! killed at a random moment, and the remaining state is checked twice: rebuilt from the log alone, and re-attached.
//!
//! Each thread's work is a function of a seed and a number, so the checker can derive the required state.

#[path = "../common/form.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod form;
mod kind;
mod operation;
mod oracle;
mod rig;
mod state;
mod tell;
mod track;
mod victim;

use std::cell::RefCell;
use std::io::Write as _;
use std::time::Duration;

use warpkeep_crashlab::torture::Torture;

use rig::Rig;

const SEED: u64 = 31;

/// Not a test of its own: the code of the other processes.
#[test]
fn victim() {
    victim::play();
}

#[test]
fn tables_survive_kills() {
    let rig = RefCell::new(Rig::new(SEED));
    // At work: killed after some number of reports, so at the beginning or the end of an operation, or soon after.
    let at_work = Torture::new(14)
        .seed(SEED)
        .kill_after_acks(4..=300)
        .run(|_| rig.borrow().command("work"), |round| rig.borrow_mut().verify(round, false));
    at_work.unwrap_or_else(|error| panic!("{error}"));
    // At any moment, mostly early: every second one is killed while it opens its predecessor's store.
    let early =
        Torture::new(6).seed(SEED + 1).kill_after(Duration::from_millis(1)..=Duration::from_millis(30)).run(
            |round| rig.borrow().command(if round % 2 == 1 { "work" } else { "open" }),
            |round| rig.borrow_mut().verify(round, round.number % 2 == 1),
        );
    // On a slow machine all of the few may have been killed before their first report.
    if let Err(error) = early {
        assert!(matches!(error, warpkeep_crashlab::torture::TortureError::Idle(_)), "{error}");
    }
    let counts = rig.into_inner().counts;
    // Bypasses the test harness, which would hide it; an error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{counts}");
    assert!(counts.operations > 0 && counts.verified > 0, "{counts}");
}
