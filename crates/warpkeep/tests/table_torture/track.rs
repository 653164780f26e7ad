//! The operations of one thread so far, and the possible contents of its tables.

use crate::operation::Operation;
use crate::state::{State, difference};

/// The known state of a thread's tables.
#[derive(Debug, Default)]
pub(crate) struct Track {
    writer: usize,
    seed: u64,
    /// The number of its next operation.
    pub(crate) next: u64,
    /// The contents of its tables, without the operation in progress.
    now: State,
    /// The possible contents of the log alone: every state from the last that is certainly durable, `now` the last
    /// of them, and the intermediate states of batches.
    history: Vec<State>,
    under_way: Option<Operation>,
    /// Operations that were done.
    pub(crate) done: u64,
}

/// The outcome of an interrupted all-or-nothing operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Ending {
    /// No operation was in progress, or its outcome cannot be determined.
    None,
    /// There, or not.
    Happened(bool),
}

impl Track {
    pub(crate) fn new(seed: u64, writer: usize) -> Track {
        Track { writer, seed, history: vec![State::new()], ..Track::default() }
    }

    pub(crate) fn begins(&mut self, number: u64) {
        self.under_way = Some(Operation::number(self.seed, self.writer, number));
        self.next = number + 1;
    }

    pub(crate) fn done(&mut self) {
        let Some(operation) = self.under_way.take() else { panic!("done, but not begun") };
        if operation.makes_durable(&self.now) {
            self.history.clear();
        }
        self.history.extend(operation.logged_in_part(&self.now));
        self.now = operation.applied(&self.now);
        self.history.push(self.now.clone());
        self.done += 1;
    }

    /// The operation in progress.
    pub(crate) fn under_way(&self) -> Option<&Operation> {
        self.under_way.as_ref()
    }

    fn ending(&self, found: &State) -> Ending {
        match &self.under_way {
            Some(operation) if operation.is_atomic() && operation.applied(&self.now) != self.now => {
                Ending::Happened(*found == operation.applied(&self.now))
            }
            _ => Ending::None,
        }
    }

    /// Checks the contents of the log alone.
    pub(crate) fn check_log(&self, found: &State) -> Result<Ending, String> {
        let interrupted =
            || self.under_way.as_ref().is_some_and(|operation| operation.may_leave(&self.now, found));
        match self.history.contains(found) || interrupted() {
            true => Ok(self.ending(found)),
            false => Err(format!(
                "thread {}, next is {}: the log alone gives none of the {} states since the last durable one: {}; under \
                 way: {:?}",
                self.writer,
                self.next,
                self.history.len(),
                difference(found, &self.now),
                self.under_way
            )),
        }
    }

    /// Checks the re-attached image.
    pub(crate) fn check_image(&self, found: &State) -> Result<Ending, String> {
        let right = match &self.under_way {
            None => *found == self.now,
            Some(operation) => operation.may_leave(&self.now, found),
        };
        match right {
            true => Ok(self.ending(found)),
            false => Err(format!(
                "thread {}: the image: {}; under way: {:?}",
                self.writer,
                difference(found, &self.now),
                self.under_way
            )),
        }
    }

    /// Continues from the found state: with the image, or with the log's contents after the image was lost.
    pub(crate) fn go_on_from(&mut self, found: State, image_lost: bool) {
        self.under_way = None;
        if image_lost {
            self.history.clear();
        }
        self.history.push(found.clone());
        self.now = found;
    }
}
