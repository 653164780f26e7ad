//! A store that makes mistakes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use warpkeep::{Op, Status};
use warpkeep_crashlab::linear::{Answer, Call};

/// An occasional fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    /// A get returns an old value.
    StaleGet,
    /// A put is answered and not done.
    LostPut,
    /// A fetch-add adds twice.
    AddsTwice,
    /// An existing key is not found.
    Overlooks,
    /// A swap of another version is done.
    SwapsBlindly,
}

impl Mistake {
    pub(crate) const ALL: [Mistake; 5] =
        [Mistake::StaleGet, Mistake::LostPut, Mistake::AddsTwice, Mistake::Overlooks, Mistake::SwapsBlindly];
}

/// Makes one mistake every so often.
pub(crate) struct Broken {
    mistake: Mistake,
    chances: Cell<u32>,
    earlier: RefCell<HashMap<Vec<u8>, Answer>>,
}

const EVERY: u32 = 40;

impl Broken {
    pub(crate) fn new(mistake: Mistake) -> Broken {
        Broken { mistake, chances: Cell::new(0), earlier: RefCell::default() }
    }

    /// Whether the fault occurs at this opportunity.
    fn strikes(&self) -> bool {
        self.chances.set(self.chances.get() + 1);
        self.chances.get().is_multiple_of(EVERY)
    }

    /// The call that is made instead of this one.
    pub(crate) fn instead_of(&self, call: &Call) -> Call {
        match (self.mistake, call.op) {
            (Mistake::LostPut, Op::Put) if self.strikes() => Call::new(Op::Get),
            (Mistake::AddsTwice, Op::FetchAdd) if self.strikes() => {
                call.clone().argument(call.argument.wrapping_mul(2))
            }
            (Mistake::SwapsBlindly, Op::CompareAndSwap) => Call::new(Op::Put).value(&call.value),
            _ => call.clone(),
        }
    }

    /// The answer that is given instead of the true one.
    pub(crate) fn answer(&self, key: &[u8], call: &Call, answer: Answer) -> Answer {
        match (self.mistake, call.op) {
            (Mistake::StaleGet, Op::Get) if answer.status == Status::Ok => {
                let mut earlier = self.earlier.borrow_mut();
                let old = earlier.entry(key.to_vec()).or_insert_with(|| answer.clone()).clone();
                if self.strikes() { old } else { answer }
            }
            (Mistake::LostPut, Op::Put) => Answer { value: None, ..answer },
            (Mistake::Overlooks, Op::Get) if answer.status == Status::Ok && self.strikes() => {
                Answer::new(Status::NotFound).version(0)
            }
            (Mistake::SwapsBlindly, Op::CompareAndSwap) if answer.status == Status::Created => {
                Answer { status: Status::Ok, ..answer }
            }
            _ => answer,
        }
    }
}
