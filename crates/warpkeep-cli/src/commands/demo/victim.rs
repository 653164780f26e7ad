//! Starting the writer, listening to it, and killing it in the middle of its work.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpkeep::Durability;

use super::model::Acks;
use super::plan::{Plan, Stamp};
use super::writer::DemoWriter;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long the writer may take to get going: it opens the store and takes a checkpoint first.
const PATIENCE: Duration = Duration::from_secs(120);
/// Commits with `Power` that must have been acknowledged before the writer is killed.
const FIRST_COMMITS: u64 = 4;

/// The acknowledgements of a killed writer.
pub(crate) struct Killed {
    pub(crate) acks: Acks,
    pub(crate) power: u64,
    /// Since its first acknowledgement.
    pub(crate) after: Duration,
}

/// Ends the process whatever happens here.
struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // Either may fail because the process is gone already, which is the goal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a writer, and kills it `delay` after it has got going.
pub(crate) fn run(
    writer: &DemoWriter,
    plan: &Plan,
    delay: Duration,
    stop: &Interrupt,
) -> Result<Killed, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("find this program"))?;
    let mut command = Command::new(program);
    command.arg("demo-writer").arg(&writer.store.directory);
    if let Some(image) = &writer.store.image {
        command.arg("--image").arg(image);
    }
    command.args(["--device", &writer.worked.device.to_string()]);
    let child = command
        .args(["--rows", &writer.rows.to_string(), "--writers", &writer.writers.to_string()])
        .args(["--seed", &writer.seed.to_string(), "--round", &writer.round.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Failure::io("start a writer"))?;
    let mut child = Reaper(child);
    let mut pipe =
        child.0.stdout.take().ok_or_else(|| Failure::error("the writer has no standard output"))?;
    let power = AtomicU64::new(0);
    let (acks, first) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| {
            let (mut acks, mut first, mut word) = (Vec::new(), None, [0; 8]);
            // The pipe ends when the writer has been killed; it holds all acknowledgements.
            while pipe.read_exact(&mut word).is_ok() {
                let stamp = Stamp(u64::from_le_bytes(word));
                first.get_or_insert_with(Instant::now);
                if plan.step(stamp).durability == Durability::Power {
                    power.fetch_add(1, Ordering::Relaxed);
                }
                acks.push(stamp);
            }
            (acks, first.map(|first| first.elapsed()))
        });
        let waited = wait(&mut child, &power, delay, stop);
        drop(child);
        let heard = listener.join().map_err(|_| Failure::error("the listener panicked"));
        waited.and(heard)
    })?;
    let acks = Acks(acks);
    acks.check(plan, writer.round).map_err(Failure::Damage)?;
    Ok(Killed { acks, power: power.into_inner(), after: first.unwrap_or_default() })
}

fn wait(child: &mut Reaper, power: &AtomicU64, delay: Duration, stop: &Interrupt) -> Result<(), Failure> {
    let begun = Instant::now();
    while power.load(Ordering::Relaxed) < FIRST_COMMITS {
        stop.check()?;
        if let Some(status) = child.0.try_wait().map_err(Failure::io("watch the writer"))? {
            return Err(Failure::error(format!("the writer ended by itself ({status})")));
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::error("the writer commits nothing; is the disk very slow?"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(delay);
    Ok(())
}
