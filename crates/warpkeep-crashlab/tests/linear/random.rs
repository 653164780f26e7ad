//! Histories at random: of threads that take turns as chance has it, and of threads that lie.

use fastrand::Rng;
use warpkeep_core::{Op, Status};
use warpkeep_crashlab::linear::{Answer, Call, History, Operation};

use crate::reference::Reference;

/// The kind of history.
pub(crate) struct Script {
    pub(crate) threads: u32,
    pub(crate) operations: usize,
    /// Whether threads call several operations at once.
    pub(crate) batches: bool,
}

const OPS: [Op; 7] = [Op::Get, Op::Put, Op::Insert, Op::Update, Op::Delete, Op::CompareAndSwap, Op::FetchAdd];

/// A history that is right, or one in which one answer has been changed, as often.
pub(crate) fn history(seed: u64, script: &Script) -> History {
    let mut operations = legal(seed, script).operations().to_vec();
    let mut random = Rng::with_seed(seed ^ 0x5555_5555);
    if random.bool() {
        spoil(&mut random, &mut operations);
    }
    History::new(operations)
}

/// The calls of a thread: the positions of its operations, and how many have taken effect.
struct Busy {
    first: usize,
    count: usize,
    answers: Vec<Answer>,
}

/// A history of threads that really take turns: each operation takes effect at some moment between call and answer.
/// Some threads stop before they are answered.
pub(crate) fn legal(seed: u64, script: &Script) -> History {
    let mut random = Rng::with_seed(seed);
    let mut operations: Vec<Operation> = Vec::new();
    let mut busy: Vec<Option<Busy>> = (0..script.threads).map(|_| None).collect();
    let (mut state, mut version) = (Reference::default(), 0);
    for time in 0.. {
        let thread = random.usize(..busy.len());
        match &mut busy[thread] {
            None if operations.len() < script.operations => {
                let count = if script.batches { random.usize(1..3) } else { 1 };
                busy[thread] = Some(Busy { first: operations.len(), count, answers: Vec::new() });
                for _ in 0..count {
                    let call = call(&mut random, version);
                    operations.push(Operation {
                        thread: thread as u32,
                        batch: time,
                        called: time,
                        call,
                        answer: None,
                    });
                }
            }
            None => {}
            Some(called) if called.answers.len() < called.count => {
                version += random.u64(1..3);
                let call = &operations[called.first + called.answers.len()].call;
                called.answers.push(state.act(call, Some(version)));
            }
            Some(called) => {
                let answered = operations[called.first..].iter_mut().zip(called.answers.drain(..));
                answered.for_each(|(operation, answer)| operation.answer = Some((time, answer)));
                busy[thread] = None;
            }
        }
        let crashed = operations.len() >= script.operations && random.u8(..8) == 0;
        if crashed {
            break;
        }
    }
    History::new(operations)
}

fn call(random: &mut Rng, newest: u64) -> Call {
    let op = OPS[random.usize(..OPS.len())];
    let value = match random.u8(..4) {
        0 => vec![random.u8(..3)],
        _ => random.u64(..3).to_le_bytes().to_vec(),
    };
    let call = Call::new(op);
    match op {
        Op::CompareAndSwap => call.value(&value).argument(newest.saturating_sub(random.u64(..3))),
        Op::FetchAdd => call.argument(random.u64(1..3)),
        op if op.takes_value() => call.value(&value),
        _ => call,
    }
}

/// Changes one field of an answer, or its time.
fn spoil(random: &mut Rng, operations: &mut [Operation]) {
    let answers: Vec<Answer> =
        operations.iter().filter_map(|operation| Some(operation.answer.as_ref()?.1.clone())).collect();
    let mut answered: Vec<&mut Operation> =
        operations.iter_mut().filter(|operation| operation.answer.is_some()).collect();
    if answered.is_empty() {
        return;
    }
    let at = random.usize(..answered.len());
    let other = &answers[random.usize(..answers.len())];
    let Some((_, answer)) = &mut answered[at].answer else { return };
    match random.u8(..5) {
        0 => answer.version = other.version,
        1 => answer.version = answer.version.map(|version| version + random.u64(1..3)),
        2 if answer.value.is_some() && other.value.is_some() => answer.value.clone_from(&other.value),
        3 => {
            let statuses = [Status::Ok, Status::Created, Status::NotFound, Status::AlreadyExists];
            answer.status = statuses[random.usize(..statuses.len())];
        }
        _ => *answer = other.clone(),
    }
}
