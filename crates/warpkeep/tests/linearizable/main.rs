//! Whether a store's tables are linearizable: threads collide on a few keys of a table that grows meanwhile, the store is
//! reopened under them, and every answer must fit into one order for each key.

mod broken;
#[path = "../common/form.rs"]
#[allow(dead_code, reason = "each test program uses its part")]
mod form;
mod target;
mod workers;

use std::io::Write as _;

use warpkeep::{KeySpec, MergeRule, Store, StoreOptions, TableOptions, ValueSpec};
use warpkeep_crashlab::linear::{Checked, Clock, Histories, Journal, NotLinearizable, Operation, Register};
use warpkeep_image::MIN_CHUNK;

use broken::Mistake;
use form::Form;
use target::Target;
use workers::Workers;

/// Keys, values and merge rules that are tried.
const KINDS: [(&str, &str, MergeRule); 4] = [
    ("u64", "fixed:8", MergeRule::AddU64),
    ("u64", "fixed:128", MergeRule::Or),
    ("fixed:12", "var:300", MergeRule::Append),
    ("var:64", "var:300", MergeRule::Append),
];

fn options(kind: (&str, &str, MergeRule), form: Form) -> TableOptions {
    let key: KeySpec = kind.0.parse().expect("a key spec");
    let value: ValueSpec = kind.1.parse().expect("a value spec");
    // Almost no room, so that it grows while the threads work.
    form.small(TableOptions::new(key, value).merge(kind.2))
}

fn register(options: &TableOptions) -> Register {
    Register { merge: options.merge, longest: options.value.max_len() }
}

/// A store in memory if possible: the threads should collide, not wait for a disk.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory"))
    }

    fn open(&self) -> Store {
        let mut options = StoreOptions { abandon_image: true, ..StoreOptions::default() };
        (options.create.len, options.create.chunk_size) = (8 * MIN_CHUNK, MIN_CHUNK);
        for map in [&mut options.create.map, &mut options.open.map] {
            // More would cost a word a chunk in every opening.
            map.max_len = Some(256 << 20);
        }
        Store::open_with(self.0.path(), options).expect("it opens")
    }
}

/// Slots of the table.
fn room(store: &Store) -> u64 {
    store.table("t").expect("it was created").stats().expect("it is open").slots()
}

/// How the store is put down between two turns of the threads.
#[derive(Clone, Copy, Debug)]
enum Pause {
    /// Closed.
    Close,
    /// Dropped, which is a crash.
    Drop,
    /// The same, and the image is lost. Everything is flushed before.
    Lose,
}

/// Lets threads work on a table, through reopenings, and checks their answers.
fn torment(
    seed: u64,
    options: TableOptions,
    mistake: Option<Mistake>,
) -> Result<(Checked, usize), NotLinearizable> {
    let (home, clock) = (Home::new(), Clock::default());
    let mut store = home.open();
    store.create_table("t", options).expect("a new table");
    let mut journals: Vec<Journal<'_>> = Vec::new();
    for (turn, pause) in [Pause::Drop, Pause::Close, Pause::Lose].into_iter().enumerate() {
        // Three times as many each time, so that the table grows in every turn.
        let others = 1000 * 3_u64.pow(turn as u32);
        let workers = Workers {
            seed: seed + turn as u64,
            first_thread: 10 * turn as u32,
            steps: 500,
            others: others..3 * others,
        };
        let before = room(&store);
        journals.extend(workers.work(&clock, &store, mistake));
        let after = room(&store);
        assert!(after > before, "the table has not grown: room for {before}, then {after}");
        match pause {
            Pause::Close => store.close().expect("closed"),
            Pause::Drop => drop(store),
            Pause::Lose => {
                store.flush().expect("flushed");
                drop(store);
                std::fs::remove_file(home.0.path().join("image")).expect("there was an image");
            }
        }
        store = home.open();
    }
    // The final contents match the last answers.
    let table = store.table("t").expect("it was created");
    let mut last = Journal::new(&clock, 1000);
    workers::look_at_all(&mut last, &Target::new(&table, None));
    journals.push(last);
    let histories = Histories::of(journals);
    let checked = histories.check(&register(&options))?;
    Ok((checked, overlapping(&histories)))
}

/// Operations during which another of the same key was called or answered.
fn overlapping(histories: &Histories) -> usize {
    let mut count = 0;
    for history in histories.by_key().values() {
        let answered = history.operations().iter().filter_map(|one| Some((one, one.answer.as_ref()?.0)));
        let spans: Vec<_> = answered.map(|(one, until)| (one.thread, one.called, until)).collect();
        count += spans
            .iter()
            .filter(|(thread, called, until)| {
                spans.iter().any(|(other, from, to)| other != thread && from < until && to > called)
            })
            .count();
    }
    count
}

/// The most operations that were called while another was in progress. All of them may be needed to show that its
/// answer is wrong, and their number depends on the machine: a thread may be preempted in the middle of a call.
fn most_meanwhile(operations: &[Operation]) -> usize {
    let meanwhile = operations.iter().filter_map(|one| {
        let until = one.answer.as_ref()?.0;
        Some(operations.iter().filter(|other| (one.called..until).contains(&other.called)).count())
    });
    meanwhile.max().unwrap_or(0)
}

#[test]
fn every_answer_fits_into_one_order() {
    for form in Form::ALL {
        for (number, kind) in KINDS.into_iter().enumerate() {
            let options = options(kind, form);
            if !form.takes(options.key) {
                continue;
            }
            let checked = torment(100 + number as u64, options, None);
            let (checked, overlapping) =
                checked.unwrap_or_else(|violation| panic!("{kind:?}, {form}: {violation}"));
            assert!(checked.operations > 4000 && overlapping > 20, "{checked}, {overlapping} overlapping");
            let _ = writeln!(
                std::io::stdout().lock(),
                "linearizable: {} to {}, {form}: {checked}, {overlapping} overlapping",
                kind.0,
                kind.1
            );
        }
    }
}

/// A store that makes mistakes, to see that they would be found.
#[test]
fn mistakes_are_noticed() {
    for mistake in Mistake::ALL {
        // Whether a mistake shows depends on how the threads meet, so each has some tries.
        let violation = (200..208)
            .find_map(|seed| torment(seed, options(KINDS[0], Form::Packed), Some(mistake)).err())
            .unwrap_or_else(|| panic!("{mistake:?} was not noticed"));
        assert!(!violation.is_undecided(), "{mistake:?}: {violation}");
        let (shown, meanwhile) = (violation.operations().len(), most_meanwhile(violation.operations()));
        assert!(shown < 60 + meanwhile, "{mistake:?}: {shown} are too many to look at: {violation}");
        // Shown only if the test fails or runs verbosely.
        println!("{mistake:?}: {violation}");
    }
}
