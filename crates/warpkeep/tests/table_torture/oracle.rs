//! The checker notices violations: impossible states are refused.

use warpkeep::Durability;

use crate::operation::Operation;
use crate::state::State;
use crate::track::Track;

const SEED: u64 = 5;

/// A thread that has done `count` operations, and the states after each.
fn after(count: u64) -> (Track, Vec<State>) {
    let (mut track, mut states) = (Track::new(SEED, 0), vec![State::new()]);
    for number in 0..count {
        track.begins(number);
        track.done();
        let now = &states[states.len() - 1];
        states.push(Operation::number(SEED, 0, number).applied(now));
    }
    (track, states)
}

/// The number of the first operation from 20 on for which this holds, in the state that it finds.
fn first(holds: impl Fn(&Operation, &State) -> bool) -> u64 {
    let (_, states) = after(400);
    (20..400)
        .find(|&number| holds(&Operation::number(SEED, 0, number), &states[number as usize]))
        .expect("it happens often")
}

fn is_batch(operation: &Operation, before: &State, wanted: Durability) -> bool {
    matches!(operation, Operation::Batch { durability, .. } if *durability == wanted)
        && operation.applied(before) != *before
}

#[test]
fn a_lost_operation_is_noticed() {
    let number = first(|operation, before| is_batch(operation, before, Durability::Process));
    let (track, states) = after(number + 1);
    let [.., before, now] = &states[..] else { panic!("there are states") };
    assert!(track.check_image(now).is_ok() && track.check_log(now).is_ok());
    assert!(track.check_image(before).is_err(), "the image must have it");
    assert!(track.check_log(before).is_ok(), "the log need not");
    let number = first(|operation, before| is_batch(operation, before, Durability::Power));
    let (track, states) = after(number + 1);
    assert!(track.check_log(&states[number as usize]).is_err(), "now the log must have it");
}

#[test]
fn half_a_commit_is_noticed_and_half_a_batch_is_not() {
    for durability in [Durability::Process, Durability::Power] {
        let half = |operation: &Operation, before: &State| match operation {
            Operation::Batch { table, calls, durability } => {
                let calls = calls[..calls.len() / 2].to_vec();
                Operation::Batch { table: *table, calls, durability: *durability }.applied(before)
            }
            _ => before.clone(),
        };
        let number = first(|operation, before| {
            let half = half(operation, before);
            is_batch(operation, before, durability) && half != *before && half != operation.applied(before)
        });
        let (mut track, states) = after(number);
        track.begins(number);
        let before = &states[number as usize];
        let operation = Operation::number(SEED, 0, number);
        assert!(track.check_image(before).is_ok() && track.check_image(&operation.applied(before)).is_ok());
        let found = track.check_image(&half(&operation, before));
        assert_eq!(found.is_ok(), durability == Durability::Process, "{durability:?}: {found:?}");
        // A key outside the batch stays as it was.
        let mut strange = before.clone();
        let items = strange.values_mut().find(|items| !items.is_empty()).expect("there are items");
        items.values_mut().for_each(|value| value.push(0));
        assert!(track.check_image(&strange).is_err());
    }
}

/// A batch that need not survive the image is logged in groups, and the log may end after any of them, but not within one.
#[test]
fn the_log_may_have_the_first_groups_of_a_batch_and_not_half_of_one() {
    let first_calls = |operation: &Operation, count: usize| match operation {
        Operation::Batch { table, calls, durability } => {
            let calls = calls[..count.min(calls.len())].to_vec();
            Operation::Batch { table: *table, calls, durability: *durability }
        }
        other => panic!("{other:?} is no batch"),
    };
    let differs = |operation: &Operation, before: &State, counts: [usize; 3]| {
        let [some, more, most] = counts.map(|count| first_calls(operation, count).applied(before));
        some != *before && some != more && more != most
    };
    let counts = [4, 8, 24];
    let number = first(|operation, before| {
        is_batch(operation, before, Durability::Process) && differs(operation, before, counts)
    });
    let (track, states) = after(number + 1);
    let before = &states[number as usize];
    let operation = Operation::number(SEED, 0, number);
    let [half, group, whole] = counts.map(|count| first_calls(&operation, count).applied(before));
    assert!(track.check_log(&group).is_ok() && track.check_log(&whole).is_ok());
    assert!(track.check_log(&half).is_err(), "half of a group is never there");
    assert!(track.check_image(&group).is_err(), "the image has all of it");
}
