//! `kill -9`, two hundred times: a process that edits a store is killed at random moments, also while it opens the
//! store, takes a checkpoint or grows the image, and the remaining state is checked twice: the log alone, and the image.
//!
//! The victim's work is a function of a seed and a number, so the checker can derive the required state.

use std::cell::RefCell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::{Home, Model, Store, check_no_leak, content, copy_directory, say, value_of};
use fastrand::Rng;
use warpkeep::Durability;
use warpkeep::engine::Edit;
use warpkeep_crashlab::torture::{Round, Torture, TortureError, acknowledge, role, this_test};
use warpkeep_image::HeapOptions;

const IMAGE: &str = "WARPKEEP_TEST_IMAGE";
const LOG: &str = "WARPKEEP_TEST_LOG";
const FIRST: &str = "WARPKEEP_TEST_FIRST";
const FOUND: &str = "WARPKEEP_TEST_FOUND";

const SEED: u64 = 20;
const CELLS: u64 = 48;
/// The image is thrown away for good this often.
const LOSE_EVERY: u32 = 9;

/// The victim's reports: the operation it is about to start, and the one it has finished.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tell {
    Opening,
    Opened,
    Begins(u64),
    /// The operation that has begun will make the image grow.
    Grows,
    Done(u64),
}

impl Tell {
    fn tag(self) -> u64 {
        match self {
            Tell::Opening => 1 << 56,
            Tell::Opened => 2 << 56,
            Tell::Begins(number) => 3 << 56 | number,
            Tell::Grows => 4 << 56,
            Tell::Done(number) => 5 << 56 | number,
        }
    }

    fn from_tag(tag: u64) -> Tell {
        let number = tag & ((1 << 56) - 1);
        match tag >> 56 {
            1 => Tell::Opening,
            2 => Tell::Opened,
            3 => Tell::Begins(number),
            4 => Tell::Grows,
            5 => Tell::Done(number),
            other => panic!("no victim tells {other}"),
        }
    }

    fn say(self) {
        acknowledge(self.tag()).expect("the parent listens");
    }
}

/// One thing the victim does.
enum Operation {
    /// Different cells and their new values.
    Edit {
        edits: Vec<(u64, Option<Vec<u8>>)>,
        durability: Durability,
    },
    Checkpoint,
    Reopen,
}

impl Operation {
    fn number(number: u64) -> Operation {
        let mut random = Rng::with_seed(SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match random.u8(..20) {
            0 => return Operation::Checkpoint,
            1 => return Operation::Reopen,
            _ => {}
        }
        let mut edits: Vec<(u64, Option<Vec<u8>>)> = Vec::new();
        for turn in 0..random.u64(1..5) {
            let cell = random.u64(..CELLS);
            let len = if random.u8(..10) == 0 { random.usize(20_000..90_000) } else { random.usize(..3000) };
            let value = (random.u8(..5) > 0).then(|| value_of(number << 3 | turn, len));
            edits.retain(|(other, _)| *other != cell);
            edits.push((cell, value));
        }
        let durability = if random.u8(..4) == 0 { Durability::Power } else { Durability::Process };
        Operation::Edit { edits, durability }
    }

    /// Its effect on a state.
    fn applied(&self, state: &Model) -> Model {
        let mut next = state.clone();
        if let Operation::Edit { edits, .. } = self {
            edits.iter().for_each(|edit| put(&mut next, edit));
        }
        next
    }

    /// The possible states if it was interrupted.
    fn interrupted(&self, state: &Model) -> Vec<Model> {
        match self {
            // Each cell as it was or as it was to be.
            Operation::Edit { edits, durability: Durability::Process } => (0..1 << edits.len())
                .map(|some: u32| {
                    let mut next = state.clone();
                    let chosen = edits.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
                    chosen.for_each(|(_, edit)| put(&mut next, edit));
                    next
                })
                .collect(),
            _ => vec![state.clone(), self.applied(state)],
        }
    }

    /// Whether everything up to it survives the image when it is done.
    fn makes_durable(&self) -> bool {
        !matches!(self, Operation::Edit { durability: Durability::Process, .. })
    }
}

fn put(state: &mut Model, (cell, value): &(u64, Option<Vec<u8>>)) {
    match value {
        Some(value) => state.insert(*cell, value.clone()),
        None => state.remove(cell),
    };
}

/// The victim's store: it starts small and grows by as little as possible, so that it grows often.
fn home(image: &Path, log: &Path) -> Home {
    let heap = HeapOptions { growth_divisor: u64::MAX, ..HeapOptions::default() };
    Home { image: image.to_path_buf(), log: log.to_path_buf(), cells: CELLS, heap, ..Home::at(Path::new("")) }
}

/// Not a test of its own: the code of the other processes.
#[test]
fn victim() {
    let Some(role) = role() else { return };
    let path = |name| PathBuf::from(std::env::var_os(name).expect("told by the test"));
    let home = home(&path(IMAGE), &path(LOG));
    match role.as_str() {
        "work" => work(&home, std::env::var(FIRST).expect("told by the test").parse().expect("a number")),
        // Opens it and waits to be killed, which mostly happens before it has it open.
        "open" => {
            Tell::Opening.say();
            let opened = home.open().expect("it opens");
            Tell::Opened.say();
            std::thread::sleep(Duration::from_secs(30));
            drop(opened);
        }
        "look" => {
            let (store, _) = home.open().expect("it opens");
            let found = content(&store);
            check_no_leak(&store, &found).expect("nothing is lost");
            std::fs::write(path(FOUND), encode(&found)).expect("written");
            // Ends without clean-up, like the others.
            std::process::exit(0);
        }
        role => panic!("no role {role}"),
    }
}

fn work(home: &Home, first: u64) {
    Tell::Opening.say();
    let (mut store, _) = home.open().expect("it opens");
    Tell::Opened.say();
    for number in first.. {
        Tell::Begins(number).say();
        match Operation::number(number) {
            Operation::Checkpoint => drop(store.checkpoint().expect("a checkpoint")),
            Operation::Reopen => {
                store.close().expect("closed");
                (store, _) = home.open().expect("it opens");
            }
            Operation::Edit { edits, durability } => {
                if will_grow(&store, &edits) {
                    Tell::Grows.say();
                }
                let edits: Vec<Edit<'_>> =
                    edits.iter().map(|(cell, value)| (*cell, value.as_deref())).collect();
                store.edit(&edits, durability).expect("there is room");
            }
        }
        Tell::Done(number).say();
    }
}

/// Whether there is too little space for these values in any case.
fn will_grow(store: &Store, edits: &[(u64, Option<Vec<u8>>)]) -> bool {
    let usage = store.heap().usage();
    let largest = edits.iter().filter_map(|(_, value)| value.as_ref().map(Vec::len)).max().unwrap_or(0);
    largest as u64 > usage.free_chunks * usage.chunk_size
}

fn encode(state: &Model) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (cell, value) in state {
        bytes.extend(cell.to_le_bytes());
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value);
    }
    bytes
}

fn decode(mut bytes: &[u8]) -> std::io::Result<Model> {
    let mut state = Model::new();
    while !bytes.is_empty() {
        let mut head = [0; 16];
        bytes.read_exact(&mut head)?;
        let (cell, len) = head.split_at(8);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let mut value = vec![0; number(len) as usize];
        bytes.read_exact(&mut value)?;
        state.insert(number(cell), value);
    }
    Ok(state)
}

/// Where kills have struck.
#[derive(Debug, Default)]
struct Struck {
    opening: u64,
    checkpoint: u64,
    reopening: u64,
    growth: u64,
    process: u64,
    power: u64,
    between: u64,
}

/// The tested store, and its possible contents.
struct Rig {
    image: PathBuf,
    log: PathBuf,
    found: PathBuf,
    aside: tempfile::TempDir,
    /// The number of the next operation.
    next: u64,
    /// The possible contents of the image.
    possible: Vec<Model>,
    /// The possible contents of the log alone: every state from the last that is certainly durable.
    history: Vec<Model>,
    /// The state that an interrupted `Power` commit would have led to.
    doubtful: Option<Model>,
    struck: Struck,
    rounds: u64,
    operations: u64,
    lost_images: u64,
    finished: u64,
    random: Rng,
}

impl Rig {
    fn command(&self, role: &str) -> Command {
        let mut command = this_test("torture::victim", role).expect("this program");
        command.env(IMAGE, &self.image).env(LOG, &self.log).env(FOUND, &self.found);
        command.env(FIRST, self.next.to_string());
        command
    }

    /// Derives the states that the victim may have left.
    fn follow(&mut self, round: &Round<'_>) {
        let mut begun = None;
        let (mut opened, mut grows) = (false, false);
        for tell in round.acks.iter().map(|&tag| Tell::from_tag(tag)) {
            match tell {
                Tell::Opening => {}
                Tell::Opened => opened = true,
                Tell::Begins(number) => (begun, grows) = (Some(number), false),
                Tell::Grows => grows = true,
                Tell::Done(number) => {
                    begun = None;
                    let operation = Operation::number(number);
                    self.possible = self.possible.iter().map(|state| operation.applied(state)).collect();
                    if operation.makes_durable() {
                        self.history.clear();
                    }
                    self.history.extend(self.possible.iter().cloned());
                    self.next = number + 1;
                    self.operations += 1;
                }
            }
        }
        if let Some(number) = begun {
            let operation = Operation::number(number);
            if let (Operation::Edit { durability: Durability::Power, .. }, [state]) =
                (&operation, &self.possible[..])
            {
                let applied = operation.applied(state);
                self.doubtful = Some(applied).filter(|applied| applied != state);
            }
            self.history.extend(self.possible.iter().map(|state| operation.applied(state)));
            self.possible = self.possible.iter().flat_map(|state| operation.interrupted(state)).collect();
            self.next = number + 1;
            match operation {
                Operation::Checkpoint => self.struck.checkpoint += 1,
                Operation::Reopen => self.struck.reopening += 1,
                Operation::Edit { .. } if grows => self.struck.growth += 1,
                Operation::Edit { durability: Durability::Process, .. } => self.struck.process += 1,
                Operation::Edit { durability: Durability::Power, .. } => self.struck.power += 1,
            }
        } else if opened {
            self.struck.between += 1;
        } else {
            self.struck.opening += 1;
        }
    }

    /// Rebuilds a store from a copy of the log and nothing else.
    fn look_at_log(&self) -> Result<Model, String> {
        let place = tempfile::tempdir_in(self.aside.path()).map_err(|error| error.to_string())?;
        let log = place.path().join("log");
        match self.log.exists() {
            true => copy_directory(&self.log, &log),
            false => return Ok(Model::new()),
        }
        let home = home(&place.path().join("image"), &log);
        let (store, report) = home.open().map_err(|error| format!("the log alone: {error}"))?;
        let found = content(&store);
        check_no_leak(&store, &found).map_err(|what| format!("the log alone: {what}"))?;
        match self.history.contains(&found) {
            true => Ok(found),
            false => Err(format!(
                "the log alone gives none of the {} states since the last durable one: {}; {report:?}",
                self.history.len(),
                difference(&found, &self.history),
            )),
        }
    }

    /// Opens the real store, in a process of its own, which dies like the others.
    fn look_at_image(&mut self) -> Result<Model, String> {
        let output = self.command("look").output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the store does not open: {}: {text}", output.status));
        }
        let bytes = std::fs::read(&self.found).map_err(|error| error.to_string())?;
        let found = decode(&bytes).map_err(|error| error.to_string())?;
        match self.possible.contains(&found) {
            true => Ok(found),
            false => Err(format!("the image: {}", difference(&found, &self.possible))),
        }
    }

    fn verify(&mut self, round: &Round<'_>, defer: bool) -> Result<(), String> {
        self.rounds += 1;
        self.follow(round);
        if defer {
            // The next victim finds it as this one left it.
            return Ok(());
        }
        let in_log = self.look_at_log()?;
        let found = self.look_at_image()?;
        if let Some(doubtful) = self.doubtful.take() {
            // Found in the log it is finished; and it is there before it is anywhere else.
            let (logged, finished) = (in_log == doubtful, found == doubtful);
            if logged != finished {
                return Err(format!("a commit is in the log: {logged}, and in the image: {finished}"));
            }
            self.finished += u64::from(finished);
        }
        let lose = self.rounds.is_multiple_of(u64::from(LOSE_EVERY)) && self.random.u8(..4) > 0;
        if lose {
            std::fs::remove_file(&self.image).map_err(|error| error.to_string())?;
            (self.possible, self.history) = (vec![in_log.clone()], vec![in_log]);
            self.lost_images += 1;
        } else {
            self.possible = vec![found.clone()];
            self.history.push(found);
        }
        Ok(())
    }
}

/// The difference between a state and the most similar possible one, cell by cell.
fn difference(found: &Model, wanted: &[Model]) -> String {
    let distance = |other: &&Model| (0..CELLS).filter(|cell| found.get(cell) != other.get(cell)).count();
    let Some(nearest) = wanted.iter().min_by_key(distance) else { return "nothing is possible".to_owned() };
    let cells = (0..CELLS).filter(|cell| found.get(cell) != nearest.get(cell));
    let shown = |value: Option<&Vec<u8>>| match value {
        None => "nothing".to_owned(),
        Some(value) => format!("{} bytes {:02x?}", value.len(), &value[..value.len().min(8)]),
    };
    cells
        .map(|cell| {
            format!("cell {cell}: {} instead of {}", shown(found.get(&cell)), shown(nearest.get(&cell)))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn two_hundred_kills() {
    let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let disk = tempfile::tempdir().expect("a directory");
    let aside = tempfile::tempdir_in(memory.path()).expect("a directory");
    let rig = RefCell::new(Rig {
        image: memory.path().join("image"),
        log: disk.path().join("log"),
        found: memory.path().join("found"),
        aside,
        next: 0,
        possible: vec![Model::new()],
        history: vec![Model::new()],
        struck: Struck::default(),
        rounds: 0,
        operations: 0,
        doubtful: None,
        lost_images: 0,
        finished: 0,
        random: Rng::with_seed(SEED),
    });
    // At work: killed after some number of reports, so at the beginning or the end of an operation, or soon after.
    let at_work = Torture::new(120)
        .seed(SEED)
        .kill_after_acks(2..=70)
        .run(|_| rig.borrow().command("work"), |round| rig.borrow_mut().verify(round, false));
    at_work.unwrap_or_else(|error| panic!("{error}"));
    // At any moment, mostly early: every second one is killed while it opens its predecessor's store.
    let early =
        Torture::new(80).seed(SEED + 1).kill_after(Duration::from_millis(1)..=Duration::from_millis(25)).run(
            |round| rig.borrow().command(if round % 2 == 1 { "work" } else { "open" }),
            |round| rig.borrow_mut().verify(round, round.number % 2 == 1),
        );
    // A busy machine may have killed all of these before their first report, which is also a valid moment.
    if let Err(error) = early {
        assert!(matches!(error, TortureError::Idle(_)), "{error}");
    }
    let Rig { struck, rounds, operations, lost_images, finished, .. } = rig.into_inner();
    say(&format!(
        "{rounds} rounds of kill -9, {operations} operations, {lost_images} images thrown away; killed while opening {}, \
         closing and reopening {}, in a checkpoint {}, growing {}, editing {} (Process) and {} (Power, {finished} finished from the log), between {}",
        struck.opening,
        struck.reopening,
        struck.checkpoint,
        struck.growth,
        struck.process,
        struck.power,
        struck.between
    ));
    // With fewer rounds than usual some of it may not happen.
    if rounds >= 200 {
        assert!(struck.opening > 0 && struck.checkpoint > 0 && struck.growth > 0, "{struck:?}");
        assert!(struck.process > 0 && struck.power > 0 && lost_images > 0, "{struck:?}");
    }
}
