//! A second implementation of the register, done differently: it guesses unreported values, computes the answer and
//! compares.

use stateright::semantics::SequentialSpec;
use warpkeep_core::{Op, Status};
use warpkeep_crashlab::linear::{Answer, Call, Operation};

/// A key of a table without a rule for merges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reference {
    /// The value, and the version where it is known.
    item: Option<(Vec<u8>, Option<u64>)>,
    largest: u64,
}

impl Reference {
    /// Executes a call with this version for its write. The answer has version 0 where it is not known.
    pub(crate) fn act(&mut self, call: &Call, new: Option<u64>) -> Answer {
        let answer = |status, version: Option<u64>| Answer::new(status).version(version.unwrap_or(0));
        let Some((value, version)) = self.item.clone() else {
            return match call.op {
                Op::Get | Op::Update | Op::Delete | Op::CompareAndSwap => answer(Status::NotFound, None),
                Op::Merge => answer(Status::WrongType, None),
                Op::FetchAdd => {
                    self.store(&call.argument.to_le_bytes(), new);
                    answer(Status::Created, new).value(&[0; 8])
                }
                Op::Put | Op::Insert => {
                    self.store(&call.value, new);
                    answer(Status::Created, new)
                }
            };
        };
        match call.op {
            Op::Get => answer(Status::Ok, version).value(&value),
            Op::Insert => answer(Status::AlreadyExists, version),
            Op::CompareAndSwap if version != Some(call.argument) => answer(Status::VersionMismatch, version),
            Op::Put | Op::Update | Op::CompareAndSwap => {
                self.store(&call.value, new);
                answer(Status::Ok, new)
            }
            Op::Delete => {
                self.item = None;
                answer(Status::Ok, version)
            }
            Op::FetchAdd if value.len() == 8 => {
                let number = u64::from_le_bytes(value[..].try_into().expect("eight bytes"));
                self.store(&number.wrapping_add(call.argument).to_le_bytes(), new);
                answer(Status::Ok, new).value(&value)
            }
            Op::FetchAdd | Op::Merge => answer(Status::WrongType, version),
        }
    }

    fn store(&mut self, value: &[u8], version: Option<u64>) {
        self.item = Some((value.to_vec(), version));
        self.largest = self.largest.max(version.unwrap_or(0));
    }

    /// Fixes a version that was not reported so far; `false` if it cannot be this one.
    fn settle(&mut self, told: u64) -> bool {
        let Some((_, version @ None)) = &mut self.item else { return true };
        let possible = told > self.largest;
        *version = Some(told);
        self.largest = self.largest.max(told);
        possible
    }
}

impl SequentialSpec for Reference {
    type Op = Call;
    type Ret = Answer;

    fn invoke(&mut self, call: &Call) -> Answer {
        // It may expect a version that was never reported; if not, it is as if it had not happened.
        if call.op == Op::CompareAndSwap && call.argument > self.largest {
            self.settle(call.argument);
        }
        self.act(call, None)
    }

    fn is_valid_step(&mut self, call: &Call, answer: &Answer) -> bool {
        let told = answer.version.unwrap_or(0);
        let possible = match (call.op, answer.status) {
            (Op::CompareAndSwap, Status::Ok) => self.settle(call.argument),
            (Op::Get | Op::Delete, Status::Ok) => self.settle(told),
            (_, Status::Ok | Status::Created) => true,
            _ => self.settle(told),
        };
        let largest = self.largest;
        let writes = answer.status.is_ok() && !matches!(call.op, Op::Get | Op::Delete);
        possible && (!writes || told > largest) && self.act(call, Some(told)) == *answer
    }
}

/// Whether any order at all explains a history: all of them are tried.
pub(crate) fn any_order_explains(operations: &[Operation]) -> bool {
    fn go_on(operations: &[Operation], left: &[usize], state: &Reference) -> bool {
        if left.iter().all(|&at| operations[at].answer.is_none()) {
            return true;
        }
        let mut nexts =
            left.iter().copied().filter(|&at| !left.iter().any(|&other| comes_before(operations, other, at)));
        nexts.any(|at| {
            let operation = &operations[at];
            let left: Vec<usize> = left.iter().copied().filter(|&other| other != at).collect();
            let mut after = state.clone();
            match &operation.answer {
                Some((_, answer)) => {
                    after.is_valid_step(&operation.call, answer) && go_on(operations, &left, &after)
                }
                None => {
                    after.invoke(&operation.call);
                    // It may have expected another version than the unreported one.
                    let refused = operation.call.op == Op::CompareAndSwap && go_on(operations, &left, state);
                    refused || go_on(operations, &left, &after)
                }
            }
        })
    }
    go_on(operations, &(0..operations.len()).collect::<Vec<_>>(), &Reference::default())
}

fn comes_before(operations: &[Operation], one: usize, other: usize) -> bool {
    let (first, second) = (&operations[one], &operations[other]);
    let in_time = first.answer.as_ref().is_some_and(|(answered, _)| *answered < second.called);
    in_time || (one < other && (first.thread, first.batch) == (second.thread, second.batch))
}
