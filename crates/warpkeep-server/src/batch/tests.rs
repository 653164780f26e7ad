//! The memory that a batch takes for the values that its commands make.

use warpkeep::{Durability, Store, StoreOptions};

use super::*;
use crate::item::{HEAD, Head, MAX_VALUE};
use crate::session::Parsed;
use crate::transaction::encode;
use crate::{Access, Settings};

/// How many commands there are. Each makes a value of a mebibyte.
const COMMANDS: usize = 1024;
/// How far apart the bytes are that they change.
const STEP: usize = 7;

/// A client that has sent all of its commands.
struct Sent<'a> {
    input: &'a [u8],
    session: &'a Session,
}

impl Inputs for Sent<'_> {
    fn input(&self, _: u32) -> &[u8] {
        self.input
    }

    fn decoded(&self, _: u32) -> &[u8] {
        &self.session.decoded
    }
}

fn store(home: &tempfile::TempDir) -> Store {
    Store::open_with(home.path(), StoreOptions { without_log: true, ..StoreOptions::default() }).unwrap()
}

/// The items of a store, with a large one under the key `k`.
fn keyspace(store: &Store) -> Keyspace<'_> {
    let keyspace = Keyspace::open(store, &Settings::default()).unwrap();
    let item = [&Head::default().to_bytes()[..], &vec![b'.'; MAX_VALUE]].concat();
    keyspace.table().put(&b"k"[..], item.as_slice(), Durability::Process).unwrap();
    keyspace
}

fn script() -> Vec<u8> {
    let mut script = Vec::new();
    for number in 0..COMMANDS {
        let place = (number * STEP).to_string();
        encode(&mut script, [&b"SETRANGE"[..], b"k", place.as_bytes(), b"x"].into_iter());
    }
    script
}

fn value(keyspace: &Keyspace<'_>) -> Vec<u8> {
    keyspace.table().get(&b"k"[..]).unwrap().unwrap()[HEAD..].to_vec()
}

#[test]
fn commands_that_make_large_values_wait_for_the_next_batch() {
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let keyspace = keyspace(&store);
    let (script, access) = (script(), Access::default());
    let mut session = Session::new(1, &access);
    let mut batch = Batch::new(&keyspace.table());
    let mut executed = 0;
    while executed < COMMANDS {
        batch.clear();
        session.batch_is_done();
        while session.parse(&script, 0, &access, &mut batch) == Parsed::Some {}
        batch.run(&keyspace, &Sent { input: &script, session: &session }, 1);
        assert!(batch.work.made.len() <= BUDGET + MAX_VALUE, "{} bytes", batch.work.made.len());
        let cut = batch.outcomes.iter().position(|&outcome| outcome == Outcome::Cut);
        let done = cut.unwrap_or(batch.len());
        assert!(batch.outcomes[..done].iter().all(|&outcome| outcome == Outcome::Integer(MAX_VALUE as i64)));
        assert!(done > 0, "every batch makes progress");
        executed += done;
        if let Some(cut) = cut {
            session.rewind(&batch.commands[cut]);
        }
    }
    assert_eq!((executed, session.at), (COMMANDS, script.len()));
    let mut expected = vec![b'.'; MAX_VALUE];
    (0..COMMANDS).for_each(|number| expected[number * STEP] = b'x');
    assert!(value(&keyspace) == expected);
}

#[test]
fn a_transaction_that_makes_too_much_is_not_executed() {
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let keyspace = keyspace(&store);
    let (script, access) = (script(), Access::default());
    let mut session = Session::new(1, &access);
    let mut batch = Batch::new(&keyspace.table());
    while session.parse(&script, 0, &access, &mut batch) == Parsed::Some {}
    assert_eq!(batch.len(), COMMANDS);
    let run = batch.run_isolated(&keyspace, &Sent { input: &script, session: &session }, 1, &[]);
    assert_eq!(run, Err(Aborted::TooLarge));
    assert!(batch.work.made.len() <= MOST + MAX_VALUE, "{} bytes", batch.work.made.len());
    assert!(value(&keyspace).iter().all(|&byte| byte == b'.'));
}

#[test]
fn a_batch_takes_no_more_commands_when_their_answers_are_many_bytes() {
    let home = tempfile::tempdir().unwrap();
    let store = store(&home);
    let mut batch = Batch::new(&keyspace(&store).table());
    let answer = vec![b'x'; BUDGET / 2 + 1];
    batch.say(Command::new(Verb::Reply, 0), &answer);
    assert!(!batch.is_full(2));
    assert!(batch.is_full(1));
    batch.say(Command::new(Verb::Reply, 0), &answer);
    assert!(batch.is_full(usize::MAX));
}
