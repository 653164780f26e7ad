//! Kills a real process with `kill -9` at random moments, repeatedly, and checks the remaining state.
//!
//! The explorer tries possible crashes; this tries real ones. A test re-executes itself as the victim, which
//! works and [`acknowledge`]s; the test kills it, reads the acknowledgements that got out, and verifies.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::hash;

/// Names the number of rounds, where the default is too few.
pub const ROUNDS_VARIABLE: &str = "WARPKEEP_TORTURE_ROUNDS";
const ROLE_VARIABLE: &str = "WARPKEEP_TORTURE_ROLE";
/// Standard output is shared with the test harness, which prints to it: acknowledgements carry this mark.
const MARK: [u8; 4] = [0xf5, b'w', b'k', b'a'];
const RECORD: usize = 16;
/// The signal sent by [`Child::kill`]; the same number on every Unix.
const SIGKILL: i32 = 9;

/// Why the torture ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TortureError {
    /// The system refused.
    #[error("round {round}: cannot {doing}: {source}")]
    Io {
        /// Which round.
        round: u32,
        /// The failed action.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The victim failed by itself.
    #[error("round {round}: the victim ended with {status} before it was killed; its messages are above")]
    Failed {
        /// Which round.
        round: u32,
        /// How it ended.
        status: ExitStatus,
    },
    /// The victim hung.
    #[error("round {round}: the victim made no progress for {patience:?} after {acks} acknowledgements")]
    Stuck {
        /// Which round.
        round: u32,
        /// How long it was waited for.
        patience: Duration,
        /// Acknowledgements received by then.
        acks: usize,
    },
    /// Something acknowledged was lost, or something is damaged.
    #[error("round {round}, seed {seed}, after {acks} acknowledgements: {message}")]
    Violation {
        /// Which round.
        round: u32,
        /// The seed of the run.
        seed: u64,
        /// Acknowledgements received by then.
        acks: usize,
        /// The error of the verification.
        message: String,
    },
    /// Nothing was tested.
    #[error("in {0} rounds no victim was killed after an acknowledgement; kill later, or let it work longer")]
    Idle(u32),
}

/// A round as the verification sees it.
#[derive(Debug)]
pub struct Round<'a> {
    /// From 1.
    pub number: u32,
    /// The victim's acknowledgements before it died, in order.
    pub acks: &'a [u64],
    /// Whether it was killed; otherwise it had ended by itself, in order.
    pub killed: bool,
}

enum Kill {
    Acks(RangeInclusive<u64>),
    Delay(RangeInclusive<Duration>),
}

/// A victim to be killed time and again.
pub struct Torture {
    rounds: u32,
    seed: u64,
    kill: Kill,
    patience: Duration,
}

impl Torture {
    /// `default_rounds` rounds, or the number in the environment variable [`ROUNDS_VARIABLE`], each killed after 1
    /// to 200 acknowledgements.
    pub fn new(default_rounds: u32) -> Torture {
        let rounds = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok());
        Torture {
            rounds: rounds.unwrap_or(default_rounds).max(1),
            seed: 1,
            kill: Kill::Acks(1..=200),
            patience: Duration::from_secs(30),
        }
    }

    /// The seed of the kill moments; 1 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Torture {
        self.seed = seed;
        self
    }

    /// Kills after a number of acknowledgements in this range.
    #[must_use]
    pub fn kill_after_acks(mut self, acks: RangeInclusive<u64>) -> Torture {
        self.kill = Kill::Acks(acks);
        self
    }

    /// Kills after a time in this range, counted from the start of the process.
    #[must_use]
    pub fn kill_after(mut self, delay: RangeInclusive<Duration>) -> Torture {
        self.kill = Kill::Delay(delay);
        self
    }

    /// How long a victim may be silent before it counts as stuck; 30 s by default.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Torture {
        self.patience = patience;
        self
    }

    /// Spawns the process from `command`, kills it, and calls `verify`, in each round, on the same files if the
    /// command names the same ones. Returns the total number of acknowledgements.
    pub fn run(
        self,
        mut command: impl FnMut(u32) -> Command,
        mut verify: impl FnMut(&Round<'_>) -> Result<(), String>,
    ) -> Result<u64, TortureError> {
        let (rounds, seed) = (self.rounds, self.seed);
        let (mut total, mut useful) = (0, 0);
        for round in 1..=rounds {
            println!("round {round} of {rounds}");
            let mut rng = Rng::with_seed(hash::of((seed, round)));
            let (acks, killed) = self.kill_one(round, command(round), &mut rng)?;
            total += acks.len() as u64;
            useful += u32::from(killed && !acks.is_empty());
            verify(&Round { number: round, acks: &acks, killed })
                .map_err(|message| TortureError::Violation { round, seed, acks: acks.len(), message })?;
        }
        if useful == 0 { Err(TortureError::Idle(rounds)) } else { Ok(total) }
    }

    fn kill_one(
        &self,
        round: u32,
        mut command: Command,
        rng: &mut Rng,
    ) -> Result<(Vec<u64>, bool), TortureError> {
        let io = |doing| move |source| TortureError::Io { round, doing, source };
        let mut child = Victim(
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(io("start the victim"))?,
        );
        let incoming = child.listen();
        let (enough, deadline) = match &self.kill {
            Kill::Acks(range) => (rng.u64(range.clone()), None),
            Kill::Delay(range) => {
                let nanoseconds = rng.u64(range.start().as_nanos() as u64..=range.end().as_nanos() as u64);
                (u64::MAX, Some(Instant::now() + Duration::from_nanos(nanoseconds)))
            }
        };
        let mut acks = Vec::new();
        let stuck = |acks: &[u64]| TortureError::Stuck { round, patience: self.patience, acks: acks.len() };
        let mut ended = false;
        while (acks.len() as u64) < enough && !ended {
            let wait = deadline.map_or(self.patience, |at| at.saturating_duration_since(Instant::now()));
            match incoming.recv_timeout(wait) {
                Ok(ack) => acks.push(ack),
                Err(RecvTimeoutError::Disconnected) => ended = true,
                Err(RecvTimeoutError::Timeout) if deadline.is_some() => break,
                Err(RecvTimeoutError::Timeout) => return Err(stuck(&acks)),
            }
        }
        if !ended {
            child.0.kill().map_err(io("kill the victim"))?;
        }
        let status = child.reap(self.patience).map_err(io("wait for the victim"))?;
        let Some(status) = status else { return Err(stuck(&acks)) };
        // Its acknowledgements are still in the pipe, and count.
        loop {
            match incoming.recv_timeout(self.patience) {
                Ok(ack) => acks.push(ack),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(stuck(&acks)),
            }
        }
        match status.signal() {
            None if status.success() => Ok((acks, false)),
            Some(SIGKILL) if !ended => Ok((acks, true)),
            _ => Err(TortureError::Failed { round, status }),
        }
    }
}

/// Never outlives the test, whichever way that ends.
struct Victim(Child);

impl Victim {
    /// Waits for the end; `None` if it does not come: a victim may have closed its output and still run.
    fn reap(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let end = Instant::now() + patience;
        loop {
            let status = self.0.try_wait()?;
            if status.is_some() || Instant::now() > end {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn listen(&mut self) -> Receiver<u64> {
        let (send, receive) = mpsc::channel();
        let stdout = self.0.stdout.take();
        thread::spawn(move || {
            let Some(mut stdout) = stdout else { return };
            let mut unread = Vec::new();
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut chunk) {
                unread.extend_from_slice(&chunk[..count]);
                let used = parse(&unread, |ack| {
                    // The receiver is gone only if the test has already failed.
                    let _ = send.send(ack);
                });
                unread.drain(..used);
            }
        });
        receive
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Both fail only for a process that is gone and reaped already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(tag: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&MARK);
    record[4..8].copy_from_slice(&(hash::of(tag) as u32).to_le_bytes());
    record[8..].copy_from_slice(&tag.to_le_bytes());
    record
}

/// Finds whole records among other output; gives how many bytes will not be needed again.
fn parse(bytes: &[u8], mut found: impl FnMut(u64)) -> usize {
    let mut at = 0;
    while at + RECORD <= bytes.len() {
        let tag = u64::from_le_bytes(bytes[at + 8..at + RECORD].try_into().expect("8 bytes"));
        if bytes[at..at + RECORD] == record(tag) {
            found(tag);
            at += RECORD;
        } else {
            at += 1;
        }
    }
    at
}

/// In the victim: acknowledges `tag`. The acknowledgement is sent when this returns, however the process ends.
pub fn acknowledge(tag: u64) -> io::Result<()> {
    static OUTPUT: OnceLock<File> = OnceLock::new();
    let mut output = match OUTPUT.get() {
        Some(output) => output,
        None => {
            let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            OUTPUT.get_or_init(|| output)
        }
    };
    // One call, and short enough that the pipe takes it whole or not at all.
    output.write_all(&record(tag))
}

/// In the victim: its task; `None` in a process that is not a victim.
pub fn role() -> Option<String> {
    std::env::var(ROLE_VARIABLE).ok()
}

/// This test program again, as a victim: it runs only the test named, which finds its [`role`] set.
pub fn this_test(test: &str, role: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([test, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    command.env(ROLE_VARIABLE, role);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_among_other_output_and_torn_ones_are_not() {
        let mut bytes = b"\nrunning 1 test\n".to_vec();
        bytes.extend(record(7));
        bytes.extend(b"noise\xf5wka");
        bytes.extend(record(u64::MAX));
        bytes.extend(&record(9)[..15]);
        let mut found = Vec::new();
        let used = parse(&bytes, |ack| found.push(ack));
        assert_eq!(found, [7, u64::MAX]);
        bytes.push(record(9)[15]);
        parse(&bytes[used..], |ack| found.push(ack));
        assert_eq!(found, [7, u64::MAX, 9]);
    }
}
