//! The linearizability checker against a published one, against all possible orders, and against mistakes it must
//! find.

mod random;
mod reference;

use std::io::Write as _;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use warpkeep_core::{MergeRule, Op, Status};
use warpkeep_crashlab::linear::{Answer, Call, Clock, Histories, History, Journal, Operation, Register};

use random::Script;
use reference::{Reference, any_order_explains};

fn say(line: &str) {
    // An error means that standard output is closed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// The verdict of Stateright's tester, which receives calls and answers in the order of time.
fn published(history: &History) -> bool {
    let mut tester = LinearizabilityTester::new(Reference::default());
    let mut events: Vec<(u64, u32, Option<Call>, Option<Answer>)> = Vec::new();
    for operation in history.operations() {
        events.push((operation.called, operation.thread, Some(operation.call.clone()), None));
        if let Some((time, answer)) = &operation.answer {
            events.push((*time, operation.thread, None, Some(answer.clone())));
        }
    }
    events.sort_by_key(|(time, ..)| *time);
    for (_, thread, call, answer) in events {
        let told = match (call, answer) {
            (Some(call), _) => tester.on_invoke(thread, call),
            (None, answer) => tester.on_return(thread, answer.expect("a call or an answer")),
        };
        told.expect("a thread waits for its answer before it calls again");
    }
    tester.is_consistent()
}

fn shown(history: &History) -> String {
    history.operations().iter().map(|operation| format!("\n  {operation}")).collect()
}

fn ours(history: &History) -> bool {
    match history.check(&Register::default()) {
        Ok(_) => true,
        Err(violation) => {
            assert!(!violation.is_undecided(), "{violation}");
            // The reported part must be wrong by itself.
            assert!(violation.to_string().contains("no order explains"), "{violation}");
            assert!(!violation.operations().is_empty());
            false
        }
    }
}

#[test]
fn agrees_with_a_published_checker_on_small_histories() {
    let (mut legal, mut illegal) = (0, 0);
    for seed in 0..6000 {
        let script = Script { threads: 3, operations: 8, batches: false };
        let history = random::history(seed, &script);
        let explained = published(&history);
        assert_eq!(ours(&history), explained, "seed {seed}:{}", shown(&history));
        *(if explained { &mut legal } else { &mut illegal }) += 1;
    }
    say(&format!("linearizability: agrees with Stateright on {legal} legal and {illegal} illegal histories"));
    assert!(legal > 1500 && illegal > 1500, "{legal} legal, {illegal} illegal");
}

#[test]
fn agrees_with_trying_all_orders_of_batches() {
    let (mut legal, mut illegal) = (0, 0);
    for seed in 0..4000 {
        let script = Script { threads: 3, operations: 7, batches: true };
        let history = random::history(1_000_000 + seed, &script);
        let explained = any_order_explains(history.operations());
        assert_eq!(ours(&history), explained, "seed {seed}:{}", shown(&history));
        *(if explained { &mut legal } else { &mut illegal }) += 1;
    }
    say(&format!("linearizability: agrees with all orders on {legal} legal and {illegal} illegal histories"));
    assert!(legal > 1000 && illegal > 1000, "{legal} legal, {illegal} illegal");
}

#[test]
fn long_histories_are_explained_quickly_and_cut_down_if_they_cannot_be() {
    let script = Script { threads: 6, operations: 6000, batches: true };
    let mut operations = random::legal(7, &script).operations().to_vec();
    let checked = History::new(operations.clone()).check(&Register::default()).expect("legal");
    assert!(checked.places < 20 * operations.len(), "{checked}");
    // One get in the middle sees a much older value.
    let gets = operations.iter_mut().filter_map(|operation| {
        let get = operation.call.op == Op::Get;
        operation.answer.as_mut().filter(|(_, answer)| get && answer.status == Status::Ok)
    });
    let mut gets: Vec<_> = gets.collect();
    let (earlier, later) = (gets.len() / 4, gets.len() / 2);
    gets[later].1 = gets[earlier].1.clone();
    let violation = History::new(operations).check(&Register::default()).expect_err("stale");
    assert!(violation.operations().len() <= 12, "not cut down: {violation}");
}

/// Operations one after the other, each by its own thread.
fn in_turn(calls: impl IntoIterator<Item = (Call, Answer)>) -> History {
    let operations = calls.into_iter().zip(0_u32..).map(|((call, answer), number)| Operation {
        thread: number,
        batch: 0,
        called: 10 * u64::from(number),
        call,
        answer: Some((10 * u64::from(number) + 5, answer)),
    });
    History::new(operations)
}

fn put(value: &[u8], version: u64) -> (Call, Answer) {
    (Call::new(Op::Put).value(value), Answer::new(Status::Ok).version(version))
}

fn created(value: &[u8], version: u64) -> (Call, Answer) {
    (Call::new(Op::Put).value(value), Answer::new(Status::Created).version(version))
}

#[test]
fn each_mistake_is_found() {
    let get =
        |value: &[u8], version| (Call::new(Op::Get), Answer::new(Status::Ok).version(version).value(value));
    let gone = (Call::new(Op::Get), Answer::new(Status::NotFound).version(0));
    let delete = |version| (Call::new(Op::Delete), Answer::new(Status::Ok).version(version));
    let swap = |expected, status, version| {
        (Call::new(Op::CompareAndSwap).argument(expected).value(b"c"), Answer::new(status).version(version))
    };
    let add = |before: u64, status, version| {
        let answer = Answer::new(status).version(version).value(&before.to_le_bytes());
        (Call::new(Op::FetchAdd).argument(1), answer)
    };
    let right = [
        in_turn([created(b"a", 1), put(b"b", 2), get(b"b", 2), delete(2), gone.clone()]),
        in_turn([
            created(b"a", 1),
            swap(9, Status::VersionMismatch, 1),
            swap(1, Status::Ok, 3),
            get(b"c", 3),
        ]),
        in_turn([add(0, Status::Created, 1), add(1, Status::Ok, 2), add(2, Status::Ok, 5)]),
    ];
    for history in right {
        history.check(&Register::default()).unwrap();
    }
    let wrong = [
        ("a value that was never written", in_turn([created(b"a", 1), get(b"x", 1)])),
        ("a version that was never drawn", in_turn([created(b"a", 1), get(b"a", 2)])),
        ("an old value", in_turn([created(b"a", 1), put(b"b", 2), get(b"a", 1)])),
        ("a lost write", in_turn([created(b"a", 1), gone.clone()])),
        ("a deleted key", in_turn([created(b"a", 1), delete(1), get(b"a", 1)])),
        ("created twice", in_turn([created(b"a", 1), created(b"b", 2)])),
        ("replaced what was not there", in_turn([put(b"a", 1)])),
        ("versions that fall", in_turn([created(b"a", 2), put(b"b", 1)])),
        ("a swap of another version", in_turn([created(b"a", 1), put(b"b", 2), swap(1, Status::Ok, 3)])),
        ("a swap refused for nothing", in_turn([created(b"a", 1), swap(1, Status::VersionMismatch, 1)])),
        (
            "a lost addition",
            in_turn([add(0, Status::Created, 1), add(1, Status::Ok, 2), add(1, Status::Ok, 3)]),
        ),
        ("an answer that was not to be", in_turn([(Call::new(Op::Get), Answer::new(Status::Corrupt))])),
    ];
    for (mistake, history) in wrong {
        assert!(history.check(&Register::default()).is_err(), "{mistake} was not found");
        assert!(!published(&history), "{mistake} was not found by the other checker");
    }
}

#[test]
fn merges_follow_their_rule() {
    let register = Register { merge: MergeRule::Append, longest: 3 };
    let merge = |value: &[u8], status, version| {
        (Call::new(Op::Merge).value(value), Answer::new(status).version(version))
    };
    let get =
        |value: &[u8], version| (Call::new(Op::Get), Answer::new(Status::Ok).version(version).value(value));
    let history = in_turn([
        merge(b"a", Status::Created, 1),
        merge(b"bc", Status::Ok, 2),
        merge(b"d", Status::TooLarge, 2),
        get(b"abc", 2),
    ]);
    history.check(&register).unwrap();
    assert!(history.check(&Register::default()).is_err(), "no rule, no merge");
    in_turn([merge(b"a", Status::WrongType, 0)]).check(&Register::default()).unwrap();
    for history in [
        in_turn([merge(b"a", Status::Created, 1), merge(b"b", Status::Ok, 2), get(b"ba", 2)]),
        in_turn([merge(b"a", Status::Created, 1), merge(b"b", Status::TooLarge, 1)]),
        in_turn([merge(b"abc", Status::Created, 1), merge(b"d", Status::Ok, 2)]),
    ] {
        assert!(history.check(&register).is_err(), "{history:?}");
    }
}

#[test]
fn what_was_never_answered_happened_or_not_and_stays_so() {
    let clock = Clock::default();
    let seen = |second: Option<&[u8]>| {
        let (mut crashed, mut reader) = (Journal::new(&clock, 0), Journal::new(&clock, 1));
        let _lost = crashed.call(b"k", Call::new(Op::Put).value(b"v"));
        let get = reader.call(b"k", Call::new(Op::Get));
        reader.answered(get, Answer::new(Status::Ok).version(4).value(b"v"));
        let again = reader.call(b"k", Call::new(Op::Get));
        let answer = match second {
            Some(value) => Answer::new(Status::Ok).version(4).value(value),
            None => Answer::new(Status::NotFound).version(0),
        };
        reader.answered(again, answer);
        Histories::of([crashed, reader]).check(&Register::default())
    };
    assert_eq!(seen(Some(b"v")).map(|checked| checked.operations), Ok(3));
    let violation = seen(None).expect_err("it was there and is not");
    let text = violation.to_string();
    assert!(text.starts_with("key [6b], 3 operations: no order explains these"), "{text}");
    assert!(text.contains("thread 1: get: not found"), "{text}");
}

#[test]
fn a_batch_acts_in_its_order() {
    let clock = Clock::default();
    let check = |first: &[u8], second: &[u8]| {
        let mut journal = Journal::new(&clock, 0);
        let call = |value| (b"k".to_vec(), Call::new(Op::Put).value(value));
        let batch = journal.call_batch([call(first), call(second), (b"k".to_vec(), Call::new(Op::Get))]);
        let put = |status, version| Answer::new(status).version(version);
        let answers = [put(Status::Created, 1), put(Status::Ok, 2), put(Status::Ok, 2).value(b"last")];
        journal.answered_batch(batch, answers);
        Histories::of([journal]).check(&Register::default())
    };
    assert!(check(b"first", b"last").is_ok());
    assert!(check(b"last", b"first").is_err());
}
