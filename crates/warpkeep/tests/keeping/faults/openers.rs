//! A second opener, in this process or another, and openers that were killed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use warpkeep::{Durability, Error, Origin};
use warpkeep_crashlab::torture;
use warpkeep_image::{ImageError, Placement};
use warpkeep_log::LogError;

use crate::common::{Home, Model, assert_holds, assert_remedy, say};

const PLACE: &str = "WARPKEEP_TEST_PLACE";

/// Another process with a store open, or left; killed at the end of the test at the latest.
struct Other(Child);

impl Other {
    /// Starts this program again, as the opener of a store in `directory`, and waits until it has it.
    fn start(role: &str, directory: &Path) -> Other {
        let mut command = torture::this_test("faults::openers::other_process", role).expect("this program");
        command.env(PLACE, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = Other(command.spawn().expect("a process"));
        let lines = BufReader::new(other.0.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "it never opened the store");
        other
    }

    fn kill(&mut self) {
        self.0.kill().expect("killed");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: the code of the other process.
#[test]
fn other_process() {
    let Some(role) = torture::role() else { return };
    let directory = std::env::var_os(PLACE).expect("a place");
    let home = Home::at(Path::new(&directory));
    let (store, _) = home.open().expect("free");
    store.put(1, b"power", Durability::Power).expect("there is room");
    store.put(2, b"process", Durability::Process).expect("there is room");
    let store = match role.as_str() {
        "hold" => Some(store),
        // The locks are free, but the process named in the image has not ended: as when its end takes long.
        "linger" => {
            let in_use = slots(&home.image);
            drop(store);
            let image = File::options().write(true).open(&home.image).expect("an image");
            image.write_all_at(&in_use, SLOTS_AT).expect("written");
            None
        }
        "drop" => {
            drop(store);
            None
        }
        role => panic!("no role {role}"),
    };
    println!("\nready");
    // Until the other side is gone, or kills us.
    let _ = std::io::stdin().read_line(&mut String::new());
    drop(store);
}

/// Where the two state slots of an image begin; each is a page.
const SLOTS_AT: u64 = 4096;

fn slots(image: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    File::open(image).and_then(|image| image.read_exact_at(&mut bytes, SLOTS_AT)).expect("an image");
    bytes
}

fn left_by_other() -> Model {
    Model::from([(1, b"power".to_vec()), (2, b"process".to_vec())])
}

/// The error for an image in use names the holder, where the system reports it.
fn assert_held(error: &Error, directory: &Path, holder: &str) {
    assert!(matches!(error, Error::Image(ImageError::Held { .. })), "{error}");
    assert_remedy(error, &["close it there first"]);
    let file_system = Placement::of(&directory.join("any")).expect("a placement").file_system;
    match ["ext4", "xfs", "tmpfs"].contains(&file_system.as_str()) {
        true => assert!(error.to_string().contains(holder), "{holder} is missing: {error}"),
        false => say(&format!("SKIPPED: the holder's name, which {file_system} does not tell")),
    }
}

fn assert_log_held(error: &Error, pid: u32) {
    let named = matches!(error, Error::Log(LogError::Held { pid: Some(holder), .. }) if *holder == pid);
    assert!(named, "{error}");
    assert_remedy(error, &["Close that store first"]);
    assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
}

#[test]
fn a_second_opener_in_this_process_is_refused() {
    let home = Home::on_disk();
    let (store, _) = home.open().expect("a new store");
    assert_held(&home.refuses_without_log(), home.directory(), "this very process");
    assert_log_held(&home.refuses(), std::process::id());
    let other_log = Home { log: home.directory().join("other"), ..Home::at(home.directory()) };
    assert_held(&other_log.refuses(), home.directory(), "this very process");
    store.put(1, b"undisturbed", Durability::Power).expect("there is room");
    store.close().expect("closed");
    let (store, _) = home.open().expect("free");
    assert_eq!(store.get(1).expect("a cell"), Some(b"undisturbed".to_vec()));
}

#[test]
fn a_second_process_is_refused_and_a_killed_one_is_not_in_the_way() {
    for home in [Home::on_disk(), Home::in_memory()] {
        let mut other = Other::start("hold", home.directory());
        let pid = other.0.id();
        assert_held(&home.refuses_without_log(), home.directory(), &format!("process {pid}"));
        assert_log_held(&home.refuses(), pid);

        other.kill();
        // Its locks are released some time before it ends, and it ends some time before it is reaped.
        let begun = Instant::now();
        let (store, report) = loop {
            match home.open() {
                Ok(opened) => break opened,
                Err(Error::Image(ImageError::Held { .. }) | Error::Log(LogError::Held { .. }))
                    if begun.elapsed() < Duration::from_secs(20) =>
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("{error}"),
            }
        };
        let stat =
            std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("its parent has not collected it");
        assert!(stat.contains(") Z "), "a zombie: {stat}");
        assert_eq!(report.origin, Origin::Reattached);
        assert_holds(&store, &left_by_other(), "after the kill");
    }
}

#[test]
fn a_holder_that_is_still_ending_is_waited_for() {
    let home = Home::in_memory();
    let mut other = Other::start("linger", home.directory());
    let pid = other.0.id();
    let mut place = home.place();
    place.open.wait_for_holder = Duration::from_millis(50);
    let log = || home.log_place().expect("the log directory is free");
    let opened = warpkeep::engine::open::<_, warpkeep::engine::Cells<_>>(
        &place,
        Some(log()),
        home.heap.clone(),
        &home.cells,
    );
    let error = opened.map(|_| ()).expect_err("its last holder is there");
    assert!(matches!(error, Error::Image(ImageError::Held { .. })), "{error}");
    assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
    assert_remedy(&error, &["still ending"]);

    std::thread::scope(|scope| {
        let opening = scope.spawn(|| home.open());
        std::thread::sleep(Duration::from_millis(50));
        other.kill();
        let (store, report) = opening.join().expect("no panic").expect("it was worth the wait");
        assert_eq!(report.origin, Origin::Reattached);
        assert_holds(&store, &left_by_other(), "after the wait");
    });
}

#[test]
fn a_store_that_was_dropped_is_opened_by_others_at_once() {
    for home in [Home::on_disk(), Home::in_memory()] {
        let mut other = Other::start("drop", home.directory());
        let mut place = home.place();
        place.open.wait_for_holder = Duration::ZERO;
        let log = home.log_place().expect("the log directory is free");
        let opened = warpkeep::engine::open::<_, warpkeep::engine::Cells<_>>(
            &place,
            Some(log),
            home.heap.clone(),
            &home.cells,
        );
        let (store, report) = opened.expect("it is free");
        assert!(other.0.try_wait().expect("a child").is_none(), "the process that dropped it still runs");
        // It was not closed: its contents are re-attached, not discarded.
        assert_eq!(report.origin, Origin::Reattached);
        assert_holds(&store, &left_by_other(), "after the drop");
    }
}

/// The state of the image after a drop: in use, to be re-attached, and no holder.
#[test]
fn a_dropped_store_names_no_holder() {
    let home = Home::in_memory();
    let word = |at: usize| {
        let slots = slots(&home.image);
        u64::from_le_bytes(slots[at..at + 8].try_into().expect("eight bytes"))
    };
    let (store, _) = home.open().expect("a new store");
    assert_eq!((word(16), word(72)), (0, u64::from(std::process::id())), "in use by this process");
    drop(store);
    assert_eq!((word(16), word(72), word(80)), (0, 0, 0), "in use by no process");
    let (store, report) = home.open().expect("free");
    assert_eq!(report.origin, Origin::Reattached);
    store.close().expect("closed");
    assert_eq!(word(16), 1, "clean");
}
