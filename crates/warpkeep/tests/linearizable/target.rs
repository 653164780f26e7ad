//! A table as the threads see it: calls go in, answers come out.

use warpkeep::{Batch, Durability, Op, Status, Table};
use warpkeep_crashlab::linear::{Answer, Call};

use crate::broken::{Broken, Mistake};

/// A table, and its fault, if any.
pub(crate) struct Target<'s> {
    pub(crate) table: &'s Table,
    broken: Option<Broken>,
}

impl<'s> Target<'s> {
    pub(crate) fn new(table: &'s Table, mistake: Option<Mistake>) -> Target<'s> {
        Target { table, broken: mistake.map(Broken::new) }
    }

    /// The single-key read, which returns no version.
    pub(crate) fn get(&self, key: &[u8]) -> Answer {
        let found = self.table.get(key).expect("a key of the table");
        let answer = match found {
            Some(value) => Answer::new(Status::Ok).value(&value),
            None => Answer::new(Status::NotFound),
        };
        self.spoilt(key, &Call::new(Op::Get), answer)
    }

    pub(crate) fn run(&self, calls: &[(Vec<u8>, Call)], durability: Durability) -> Vec<Answer> {
        let mut batch: Batch = self.table.batch();
        for (key, call) in calls {
            let call = self.broken.as_ref().map_or(call.clone(), |broken| broken.instead_of(call));
            batch.push(call.op, key, &call.value, call.argument).expect("it goes with the table");
        }
        let results = self.table.run(&batch, durability).expect("there is room");
        let answers = results.iter().zip(calls).map(|(outcome, (key, call))| {
            let answer = Answer {
                status: outcome.status,
                version: Some(outcome.version),
                value: outcome.value.map(<[u8]>::to_vec),
            };
            self.spoilt(key, call, answer)
        });
        answers.collect()
    }

    fn spoilt(&self, key: &[u8], call: &Call, answer: Answer) -> Answer {
        match &self.broken {
            None => answer,
            Some(broken) => broken.answer(key, call, answer),
        }
    }
}
