//! Shrinks a history that cannot be explained to the operations that show it.
//!
//! Only cuts that make it easier to explain: the rest is then wrong for certain, and not because of a cut.

use super::history::Operation;
use super::register::{Register, State};
use super::search::{Search, Verdict};
use super::violation::Reason;

pub(crate) fn shrink(register: &Register, history: &[Operation]) -> Reason {
    let mut operations = shortest_beginning(register, history);
    let mut from_start = true;
    if let Some(end) = shortest_end(register, &operations) {
        (operations, from_start) = (end, false);
    }
    let start = || if from_start { State::absent() } else { State::unknown() };
    // Operations without effect are not needed to explain other answers.
    let mut at = 0;
    while at < operations.len() {
        let mut fewer = operations.clone();
        let removed = fewer.remove(at);
        if removed.only_looked() && unexplained(register, start(), &fewer).is_some() {
            operations = fewer;
        } else {
            at += 1;
        }
    }
    operations.sort_by_key(|operation| operation.called);
    let furthest = unexplained(register, start(), &operations).unwrap_or_default();
    Reason::Unexplained { operations, from_start, furthest }
}

/// The longest order that exists, if none explains everything.
fn unexplained(register: &Register, start: State, operations: &[Operation]) -> Option<Vec<usize>> {
    match Search::new(register, start, operations).run() {
        Verdict::Unexplained { furthest } => Some(furthest),
        // Undecided, too: only a certain violation is reported.
        Verdict::Explained { .. } | Verdict::Undecided { .. } => None,
    }
}

/// The operations up to the violation: a longer prefix of a history is never easier to explain.
fn shortest_beginning(register: &Register, history: &[Operation]) -> Vec<Operation> {
    let mut answers: Vec<u64> =
        history.iter().filter_map(|operation| Some(operation.answer.as_ref()?.0)).collect();
    answers.sort_unstable();
    let until = |time: u64| -> Vec<Operation> {
        let begun = history.iter().filter(|operation| operation.called <= time);
        begun
            .map(|operation| {
                let answer = operation.answer.clone().filter(|(answered, _)| *answered <= time);
                Operation { answer, ..operation.clone() }
            })
            .collect()
    };
    let first =
        answers.partition_point(|&time| unexplained(register, State::absent(), &until(time)).is_none());
    answers.get(first).map_or_else(|| history.to_vec(), |&time| until(time))
}

/// The fewest of the last operations that cannot be explained whatever was there before them.
fn shortest_end(register: &Register, operations: &[Operation]) -> Option<Vec<Operation>> {
    let mut calls: Vec<u64> = operations.iter().map(|operation| operation.called).collect();
    calls.sort_unstable();
    calls.into_iter().rev().find_map(|time| {
        let end = since(operations, time);
        unexplained(register, State::unknown(), &end).map(|_| end)
    })
}

/// The operations called from a time on, and those in progress then: these took effect before, or will.
fn since(operations: &[Operation], time: u64) -> Vec<Operation> {
    let still = operations.iter().filter(|operation| {
        let gone = operation.answer.as_ref().is_some_and(|(answered, _)| *answered < time);
        operation.called >= time || !(gone || operation.only_looked())
    });
    still
        .map(|operation| {
            let answer = operation.answer.clone().filter(|_| operation.called >= time);
            Operation { answer, ..operation.clone() }
        })
        .collect()
}
