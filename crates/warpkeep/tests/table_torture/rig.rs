//! The tested store, and the checks of the state that a victim left.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use tempfile::TempDir;
use warpkeep::{Durability, Origin};
use warpkeep_crashlab::torture::{Round, this_test};

use crate::kind::{WRITERS, tables_of};
use crate::operation::Operation;
use crate::state::{State, decode};
use crate::tell::Tell;
use crate::track::Track;
use crate::victim::{self, DIRECTORY, FOUND, IMAGE, NEXT, SEED};

/// The image is thrown away for good about this often.
const LOSE_EVERY: u32 = 7;

/// How much was done, and where kills have struck.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    rounds: u64,
    pub(crate) verified: u64,
    pub(crate) operations: u64,
    lost_images: u64,
    opening: u64,
    checkpoint: u64,
    toggle: u64,
    process: u64,
    power: u64,
    finished: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { rounds, verified, operations, lost_images, .. } = self;
        let Counts { opening, checkpoint, toggle, process, power, finished, .. } = self;
        write!(
            f,
            "tables, {rounds} rounds of kill -9, {verified} re-attached and rebuilt, {operations} operations, {lost_images} \
             images thrown away; killed while opening {opening}, threads in a checkpoint or flush {checkpoint}, creating \
             or dropping {toggle}, in a batch {process} (Process) and {power} (Power); {finished} finished from the log"
        )
    }
}

pub(crate) struct Rig {
    seed: u64,
    memory: TempDir,
    disk: TempDir,
    tracks: Vec<Track>,
    random: Rng,
    pub(crate) counts: Counts,
}

impl Rig {
    pub(crate) fn new(seed: u64) -> Rig {
        Rig {
            seed,
            memory: tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory"),
            disk: tempfile::tempdir().expect("a directory"),
            tracks: (0..WRITERS).map(|writer| Track::new(seed, writer)).collect(),
            random: Rng::with_seed(seed),
            counts: Counts::default(),
        }
    }

    fn image(&self) -> PathBuf {
        self.memory.path().join("image")
    }

    fn found(&self) -> PathBuf {
        self.memory.path().join("found")
    }

    pub(crate) fn command(&self, role: &str) -> Command {
        let mut command = this_test("victim", role).expect("this program");
        let next: Vec<String> = self.tracks.iter().map(|track| track.next.to_string()).collect();
        command.env(DIRECTORY, self.disk.path()).env(IMAGE, self.image()).env(FOUND, self.found());
        command.env(NEXT, next.join(",")).env(SEED, self.seed.to_string());
        command
    }

    /// Checks the state that a victim left; or not, so that the next one finds it.
    pub(crate) fn verify(&mut self, round: &Round<'_>, defer: bool) -> Result<(), String> {
        self.counts.rounds += 1;
        self.follow(round);
        if defer {
            return Ok(());
        }
        let from_log = self.look_at_log()?;
        let in_image = self.look_at_image()?;
        let lose = self.random.u32(..LOSE_EVERY) == 0;
        let mut left = State::new();
        if lose {
            std::fs::remove_file(self.image()).map_err(|error| error.to_string())?;
            self.counts.lost_images += 1;
            // Inspecting the image may have taken the owed checkpoint: then the log has the image's contents.
            left = self.look_at_log()?;
        }
        for (writer, track) in self.tracks.iter_mut().enumerate() {
            let (logged, found) = (of_writer(&from_log, writer), of_writer(&in_image, writer));
            // Found in the log it is finished; and it is there before it is anywhere else.
            let (in_log, finished) = (track.check_log(&logged)?, track.check_image(&found)?);
            if in_log != finished {
                return Err(format!(
                    "thread {writer}: what was under way {in_log:?} in the log and {finished:?} in the image: {:?}",
                    track.under_way()
                ));
            }
            self.counts.finished += u64::from(finished == crate::track::Ending::Happened(true));
            let left = of_writer(&left, writer);
            if lose && left != logged && left != found {
                return Err(format!("thread {writer}: a look at the image made another state of the log"));
            }
            track.go_on_from(if lose { left } else { found }, lose);
        }
        self.counts.verified += 1;
        Ok(())
    }

    /// Derives the states that the victim may have left.
    fn follow(&mut self, round: &Round<'_>) {
        let mut opened = false;
        for tell in round.acks.iter().map(|&tag| Tell::from_tag(tag)) {
            match tell {
                Tell::Opening => {}
                Tell::Opened => opened = true,
                Tell::Begins(writer, number) => self.tracks[writer].begins(number),
                Tell::Done(writer, _) => self.tracks[writer].done(),
            }
        }
        self.counts.operations = self.tracks.iter().map(|track| track.done).sum();
        if !opened {
            self.counts.opening += 1;
            return;
        }
        for operation in self.tracks.iter().filter_map(Track::under_way) {
            let count = match operation {
                Operation::Checkpoint | Operation::Flush => &mut self.counts.checkpoint,
                Operation::Toggle(_) => &mut self.counts.toggle,
                Operation::Batch { durability: Durability::Process, .. } => &mut self.counts.process,
                Operation::Batch { durability: Durability::Power, .. } => &mut self.counts.power,
            };
            *count += 1;
        }
    }

    /// Rebuilds a store from a copy of the log and nothing else.
    fn look_at_log(&self) -> Result<State, String> {
        let place = tempfile::tempdir_in(self.memory.path()).map_err(|error| error.to_string())?;
        let log = self.disk.path().join("log");
        if !log.exists() {
            return Ok(State::new());
        }
        copy(&log, &place.path().join("log")).map_err(|error| error.to_string())?;
        let store = victim::open(place.path(), &place.path().join("image"));
        let store = store.map_err(|error| format!("the log alone: {error}"))?;
        if !matches!(store.report().origin, Origin::Rebuilt | Origin::Created) {
            return Err(format!("the log alone: {:?}", store.report()));
        }
        victim::content(&store).map_err(|error| format!("the log alone: {error}"))
    }

    /// Opens the real store, in a process of its own, which dies like the others.
    fn look_at_image(&self) -> Result<State, String> {
        let output = self.command("look").output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the store does not open: {}: {text}", output.status));
        }
        let bytes = std::fs::read(self.found()).map_err(|error| error.to_string())?;
        decode(&bytes).map_err(|error| error.to_string())
    }
}

/// The part of a state that is a thread's.
fn of_writer(state: &State, writer: usize) -> State {
    let tables = tables_of(writer);
    state
        .iter()
        .filter(|(table, _)| tables.contains(table))
        .map(|(table, items)| (*table, items.clone()))
        .collect()
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
